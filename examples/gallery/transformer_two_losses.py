"""A small BERT classifies reports of two kinds; the rare kind's loss is bounded, in the transformers Trainer."""

import torch
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForSequenceClassification, PrinterCallback, Trainer, TrainingArguments

import ferero
from ferero.plot import plot_training


class SteeredTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **_):
        rare, labels = inputs.pop("rare"), inputs.pop("labels")
        outputs = model(**inputs)
        errors = cross_entropy(outputs.logits, labels, reduction="none")
        losses = {"common": errors[~rare].mean(), "rare": errors[rare].mean()}
        loss = self.model.steer(losses)
        records.append({"step": self.state.global_step, **self.model.steer.metrics()})
        return (loss, outputs) if return_outputs else loss


def train(preference):
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    model = BertForSequenceClassification(BertConfig(vocab_size=32, num_labels=2, **sizes))
    # A submodule: saved and resumed with the model. headroom=0, since the learning rate decays to 0.
    model.steer = ferero.Steer(preference, ferero.FereroPI(headroom=0))
    records.clear()
    quiet = {"disable_tqdm": True, "report_to": "none", "save_strategy": "no", "logging_strategy": "no"}
    how = {"per_device_train_batch_size": 64, "learning_rate": 2e-3, "remove_unused_columns": False, "use_cpu": True}
    trainer = SteeredTrainer(model, TrainingArguments("runs", max_steps=1000, **how, **quiet), train_dataset=rows)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return model.steer.report()


torch.manual_seed(0)
words, rare = torch.randint(32, (8192, 12)), torch.rand(8192) < 0.2
labels = torch.where(rare, (words == 1).any(1), (words == 2).any(1)).long()  # each kind depends on another word
rows = [{"input_ids": w, "rare": r, "labels": y} for w, r, y in zip(words, rare, labels, strict=True)]
records = []
f = ferero.objectives("common", "rare")
plain = train(ferero.Preference(f, minimize=0.8 * f.common + 0.2 * f.rare))
report = train(ferero.Preference(f, [f.rare <= 0.4], minimize=f.common))

print(report)
for name, found in (("plain mean", plain), ("rare <= 0.4", report)):
    print(f"{name}: common {found.losses['common']:.2f}, rare {found.losses['rare']:.2f}")
plot_training(records[::10])[0].figure.savefig("transformer_two_losses.png")
