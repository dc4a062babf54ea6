"""Hard-concrete gates on inputs and hidden units of a classifier: at most a share of them open."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

import ferero
from ferero_lab.bench.tasks.task import Task, flat_digits, minibatch, normals
from ferero_lab.data.seeding import seeded

__all__ = ["sparsity"]

HIDDEN, BATCH = 32, 64
LOW, HIGH, HEAT = -0.1, 1.1, 2 / 3  # of the hard-concrete distribution


class GatedNet(nn.Module):
    """A classifier of digits whose 64 inputs and 32 hidden units each pass a gate in [0, 1]."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        with seeded(seed):
            self.first, self.second = nn.Linear(64, HIDDEN), nn.Linear(HIDDEN, 10)
        self.gates = nn.Parameter(torch.full((64 + HIDDEN,), 1.0))  # log-odds of being open

    def forward(self, images: Tensor, noise: Tensor | None) -> Tensor:
        """Logits; with logistic noise (96,) the gates are drawn, without they are at their typical values."""
        odds = self.gates if noise is None else (self.gates + noise) / HEAT
        gates = (torch.sigmoid(odds) * (HIGH - LOW) + LOW).clamp(0, 1)
        hidden = torch.tanh(self.first(images * gates[:64])) * gates[64:]
        out: Tensor = self.second(hidden)
        return out

    def open(self) -> Tensor:
        """The expected share of gates that are not 0."""
        return torch.sigmoid(self.gates - HEAT * math.log(-LOW / HIGH)).mean()


class _GateLosses(nn.Module):
    """``[cross-entropy, share of open gates]`` as one call, so that many nets can be asked at once."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.net = GatedNet(seed)

    def forward(self, images: Tensor, labels: Tensor, noise: Tensor | None = None) -> Tensor:
        return torch.stack([functional.cross_entropy(self.net(images, noise), labels), self.net.open()])


def sparsity(level: float) -> Task:
    """``open <= level, minimize ce``."""
    images, labels = flat_digits()
    f = ferero.objectives("ce", "open")

    def losses(model: nn.Module, step: int, seed: int) -> Tensor:
        chosen = minibatch(len(images), BATCH, step, seed)
        uniform = torch.special.ndtr(normals(2000 + seed, 3000, 64 + HIDDEN)[step]).clamp(1e-6, 1 - 1e-6)
        found: Tensor = model(images[chosen], labels[chosen], torch.logit(uniform))
        return found

    def evaluate(model: nn.Module) -> Tensor:
        found: Tensor = model(images, labels)
        return found

    rates = {"adam": 3e-3, "momentum": 3e-2}
    preference = ferero.Preference(f, [f.open <= level], minimize=f.ce)
    return Task(f"sparsity {level:g}", preference, _GateLosses, losses, evaluate, 3000, rates, "adam")  # type: ignore[arg-type]
