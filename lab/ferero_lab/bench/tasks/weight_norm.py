"""A classifier with a bounded, or prescribed, squared norm of its weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

import ferero
from ferero_lab.bench.tasks.task import Task, classifier, flat_digits, minibatch

__all__ = ["norm_equals", "weight_norm"]

BATCH = 64


class _NormLosses(nn.Module):
    """``[cross-entropy, squared norm of the weights]``."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.net = classifier(seed)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        norm = sum((p.square().sum() for p in self.net.parameters()), torch.zeros(()))
        return torch.stack([functional.cross_entropy(self.net(images), labels), norm])


def _task(name: str, preference: ferero.Preference) -> Task:
    images, labels = flat_digits()

    def losses(model: nn.Module, step: int, seed: int) -> Tensor:
        chosen = minibatch(len(images), BATCH, step, seed)
        found: Tensor = model(images[chosen], labels[chosen])
        return found

    def evaluate(model: nn.Module) -> Tensor:
        found: Tensor = model(images, labels)
        return found

    rates = {"adam": 1e-2, "momentum": 3e-2}
    return Task(name, preference, _NormLosses, losses, evaluate, 2000, rates, "adam")  # type: ignore[arg-type]


def weight_norm(level: float) -> Task:
    """``norm <= level, minimize ce``; without a bound the norm passes 200."""
    f = ferero.objectives("ce", "norm")
    return _task(f"weight norm {level:g}", ferero.Preference(f, [f.norm <= level], minimize=f.ce))


def norm_equals(value: float) -> Task:
    """``norm == value, minimize ce``: above what training gives, the norm has to be pushed up."""
    f = ferero.objectives("ce", "norm")
    return _task(f"norm equals {value:g}", ferero.Preference(f, [f.norm == value], minimize=f.ce))
