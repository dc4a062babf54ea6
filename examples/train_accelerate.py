"""Hugging Face accelerate: the `Steer` outside the model, registered so that save_state and load_state include it."""

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
optimizer = torch.optim.Adam(model.parameters(), lr=0.03)

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
f = ferero.objectives("left", "right")
steer = ferero.Steer(ferero.Preference(f, [f.left == 2 * f.right]), every=2).to(accelerator.device)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
accelerator.register_for_checkpointing(steer)

for _ in range(50):
    for batch, y, z in data:
        with accelerator.accumulate(model):
            out = model(batch)[:, 0]
            loss = steer({"left": (out - y).square().mean(), "right": (out - z).square().mean()})
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()

accelerator.print(steer.report())
left, right = steer.losses
accelerator.print(f"left over right: {left / right:.1f}")
