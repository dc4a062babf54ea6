"""The transformers Trainer: one model for two tasks, steered in compute_loss."""

import tempfile
from typing import Any

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel, PreTrainedModel, PrinterCallback, Trainer, TrainingArguments, set_seed

import ferero


class TwoTasks(PreTrainedModel):
    config_class = BertConfig

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert, self.heads = BertModel(config), nn.Linear(config.hidden_size, 2)
        f = ferero.objectives("first", "second")
        self.steer = ferero.Steer(ferero.Preference(f, [f.second <= 0.2], minimize=f.first))  # saved with the model
        self.post_init()

    def forward(self, input_ids: Tensor, labels: Tensor) -> Tensor:
        out = self.heads(self.bert(input_ids).last_hidden_state.mean(dim=1))
        return nn.functional.binary_cross_entropy_with_logits(out, labels, reduction="none").mean(dim=0)


class SteeredTrainer(Trainer):
    def compute_loss(self, model: nn.Module, inputs: dict[str, Tensor], return_outputs: bool = False, **_: Any) -> Any:
        losses = model(**inputs)
        loss = self.model.steer(losses)
        return (loss, {"losses": losses}) if return_outputs else loss


if __name__ == "__main__":
    set_seed(0)
    tokens = torch.randint(32, (256, 8))
    has_one, has_two = (tokens == 1).any(dim=1), (tokens == 2).any(dim=1)
    flipped = has_one ^ (torch.rand(256) < 0.2)  # the first task has wrong labels
    labels = torch.stack([flipped, has_two], dim=1).float()
    rows = [{"input_ids": t, "labels": y} for t, y in zip(tokens, labels, strict=True)]
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    with tempfile.TemporaryDirectory() as folder:
        quiet = {"disable_tqdm": True, "report_to": "none", "save_strategy": "no", "logging_strategy": "no"}
        arguments = TrainingArguments(
            folder, max_steps=300, per_device_train_batch_size=32, learning_rate=0.01, use_cpu=True, **quiet
        )
        trainer = SteeredTrainer(TwoTasks(BertConfig(vocab_size=32, **small)), arguments, train_dataset=rows)
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    print(trainer.model.steer.report())
    print(f"second: {trainer.model.steer.losses[1]:.2f}")
