"""A plain PyTorch loop: one model cannot fit both targets; the preference fixes the ratio of the two losses."""

import torch
from torch import nn

import ferero

torch.manual_seed(0)
x = torch.randn(512, 8)
y, z = x[:, 0] - x[:, 1], x[:, 0] + x[:, 1]

f = ferero.objectives("left", "right")
steer = ferero.Steer(ferero.Preference(f, [f.left == 2 * f.right]))

model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
for _ in range(400):
    batch = torch.randint(512, (64,))
    out = model(x[batch])[:, 0]
    loss = steer({"left": (out - y[batch]).square().mean(), "right": (out - z[batch]).square().mean()})
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

print(steer.report())
with torch.no_grad():
    out = model(x)[:, 0]
print(f"left over right, on all examples: {(out - y).square().mean() / (out - z).square().mean():.1f}")
