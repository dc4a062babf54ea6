"""A small model with every kind of parameter, for tests of jacobian and slopes."""

from __future__ import annotations

import torch
from torch import nn


class Zoo(nn.Module):
    """A shared trunk with BatchNorm, private heads, tied and frozen layers, and one that nobody uses."""

    def __init__(self, kind="all"):
        super().__init__()
        self.trunk, self.norm = nn.Linear(5, 8), nn.BatchNorm1d(8)
        self.heads = nn.ModuleList(nn.Linear(8, 1) for _ in range(3))
        self.tied, self.frozen, self.unused = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(4, 4)
        self.again = nn.Linear(8, 8)
        self.again.weight = self.tied.weight
        self.frozen.requires_grad_(False)
        self.kind = kind

    def forward(self, x):
        hidden = torch.tanh(self.trunk(x))
        hidden = self.norm(hidden) if self.kind != "plain" else hidden
        hidden = self.frozen(self.again(torch.tanh(self.tied(hidden))))
        return torch.cat([head(hidden) for head in self.heads], dim=1)


def make(kind="all"):
    torch.manual_seed(0)
    return Zoo(kind).double()


def losses_of(model, x):
    return (model(x) - torch.tensor([1.0, -1.0, 0.5], dtype=x.dtype)).square().mean(dim=0)


def batch(n=12, seed=1):
    return torch.randn(n, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def trained(model):
    return [p for p in model.parameters() if p.requires_grad]


def dense(rows, parameters):
    return torch.cat(
        [
            torch.zeros(3, p.numel()).double() if r is None else r.flatten(1)
            for r, p in zip(rows, parameters, strict=True)
        ],
        dim=1,
    )


def relative(one, other):
    return float((one - other).norm() / other.norm())


def gradients_at(model, x, weights=(0.5, 0.2, 0.3)):
    parameters = trained(model)
    model.zero_grad()
    (torch.tensor(weights, dtype=x.dtype) * losses_of(model, x)).sum().backward()
    return parameters, [p.grad for p in parameters]
