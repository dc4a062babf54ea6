"""One training loop, several methods: which of them meet the preference, and what does a step of each read?"""

import torch
from torch import nn

import ferero

torch.manual_seed(0)
x = torch.randn(512, 8)
y, z = x[:, 0] - x[:, 1], x[:, 0] + x[:, 1]
preference = ferero.Preference.ray([2.0, 1.0], names=["left", "right"])


def losses(model, batch):
    out = model(x[batch])[:, 0]
    return {"left": (out - y[batch]).square().mean(), "right": (out - z[batch]).square().mean()}


def train(method):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    stepper = ferero.Stepper(model, losses, preference, optimizer, method=method)
    for _ in range(400):
        stepper.step(torch.randint(512, (64,)))
    with torch.no_grad():
        return torch.stack(list(losses(model, slice(None)).values()))


for method in (
    ferero.FereroPI(),
    ferero.FereroSA(bound=10.0),
    ferero.EPO(),
    ferero.WCMGDA(),
    ferero.PMTL(),
    ferero.SmoothTchebycheff(),
    ferero.LinearScalarization(),
):
    left, right = train(method)
    needs = ", ".join(sorted(method.requires))
    print(f"{type(method).__name__:20} left / right = {left / right:.2f} (preference: 2), reads {needs}")
