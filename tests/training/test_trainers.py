"""Trainers that step at the end of an epoch although fewer micro-batches have come than make a cycle."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ferero

pytestmark = pytest.mark.slow

f = ferero.objectives("left", "right")
PREFERENCE = ferero.Preference(f, [f.left == 2 * f.right])
BATCHES, EVERY, EPOCHS = 6, 4, 3
IN_PHASE = [[1] * 4 + [2] * 2, [3] * 4 + [4] * 2, [5] * 4 + [6] * 2]  # moves of the law, at every micro-batch


class Task(nn.Module):
    """Two regressions, and how often the law has moved at every call."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net, self.steer, self.found = nn.Linear(3, 2), ferero.Steer(PREFERENCE, every=EVERY), []

    def loss(self, x):
        loss = self.steer((self.net(x) - 1).square().mean(dim=0) + 0.1)
        self.found.append(int(self.steer.record_arrived.max()))
        return loss

    def by_epoch(self):
        return [self.found[i : i + BATCHES] for i in range(0, len(self.found), BATCHES)]


def inputs():
    return torch.randn(8 * BATCHES, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.filterwarnings("ignore")
def test_lightning(tmp_path):
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.task = Task()

        def training_step(self, batch, index):
            return self.task.loss(batch[0])

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.01)

    module = Module()
    lightning.Trainer(
        max_epochs=EPOCHS,
        accumulate_grad_batches=EVERY,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    ).fit(module, DataLoader(TensorDataset(inputs()), batch_size=8))
    assert module.task.by_epoch() == IN_PHASE


@pytest.mark.filterwarnings("ignore")
def test_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 8 * BATCHES

        def __getitem__(self, index):
            return {"x": inputs()[index]}

    class Steered(transformers.Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **_):
            return self.model.loss(inputs["x"])

    task = Task()
    how = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=EVERY,
        remove_unused_columns=False,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
    )
    Steered(model=task, args=how, train_dataset=Rows()).train()
    assert task.by_epoch() == IN_PHASE


@pytest.mark.filterwarnings("ignore")
def test_accelerate():
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(gradient_accumulation_steps=EVERY, cpu=True)
    task = Task()
    optimizer = torch.optim.AdamW(task.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(inputs()), batch_size=8)
    net, optimizer, loader = accelerator.prepare(task, optimizer, loader)
    for _ in range(EPOCHS):
        for (x,) in loader:
            with accelerator.accumulate(net):
                accelerator.backward(task.loss(x))
                optimizer.step()
                optimizer.zero_grad()
    assert task.by_epoch() == IN_PHASE
