"""A plain PyTorch loop: fit well, with the error on a second group of examples at most 0.3."""

import torch
from torch import nn

import ferero

torch.manual_seed(0)
x = torch.randn(512, 8)
y, y_other = x[:, 0] - x[:, 1], x[:, 0] + x[:, 1]  # one model cannot fit both

f = ferero.objectives("error", "error_other")
steer = ferero.Steer(ferero.Preference(f, [f.error_other <= 0.3], minimize=f.error))

model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(400):
    batch = torch.randint(512, (64,))
    out = model(x[batch])[:, 0]
    loss = steer({"error": (out - y[batch]).square().mean(), "error_other": (out - y_other[batch]).square().mean()})
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

print(steer.report())
reached = ferero.evaluate(model, lambda net, all_x: {"error_other": (net(all_x)[:, 0] - y_other).square().mean()}, [x])
print(f"error_other on all examples: {reached['error_other']:.2f}")
