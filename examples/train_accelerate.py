"""Hugging Face accelerate: the steer outside the model, registered so that save_state and load_state carry it."""

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ferero

set_seed(0)
x = torch.randn(512, 8)
data = DataLoader(TensorDataset(x, x[:, 0] - x[:, 1], x[:, 0] + x[:, 1]), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
f = ferero.objectives("error", "error_other")
steer = ferero.Steer(ferero.Preference(f, [f.error_other <= 0.3], minimize=f.error), every=2).to(accelerator.device)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
accelerator.register_for_checkpointing(steer)

for _ in range(50):
    for batch, y, y_other in data:
        with accelerator.accumulate(model):
            out = model(batch)[:, 0]
            loss = steer({"error": (out - y).square().mean(), "error_other": (out - y_other).square().mean()})
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()

accelerator.print(steer.report())
accelerator.print(f"error_other: {steer.losses[1]:.2f}")
