"""Incomes of people in two groups: a bounded gap between the rates at which a classifier says yes."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional

import ferero
from ferero_lab.bench.tasks.task import Task, minibatch
from ferero_lab.data import CensusPart, adult_like
from ferero_lab.data.seeding import seeded

__all__ = ["fairness"]

BATCH = 256


@lru_cache(maxsize=1)
def _people() -> CensusPart:
    return adult_like().train


def _classifier(seed: int) -> nn.Module:
    with seeded(seed):
        return nn.Sequential(nn.Linear(11, 16), nn.Tanh(), nn.Linear(16, 1))


def fairness(gap: float) -> Task:
    """``abs(rate_a - rate_b) <= gap, minimize ce``, rates being mean predicted probabilities; Adult's stand-in."""
    people = _people()
    f = ferero.objectives("ce", "rate_a", "rate_b")

    def all_three(model: nn.Module, chosen: Tensor) -> Tensor:
        logits = model(people.features[chosen])[:, 0]
        ce = functional.binary_cross_entropy_with_logits(logits, people.labels[chosen])
        groups = people.groups[chosen].to(logits.dtype)
        rates = [(torch.sigmoid(logits) * own).sum() / own.sum() for own in (1 - groups, groups)]
        return torch.stack([ce, *rates])

    def losses(model: nn.Module, step: int, seed: int) -> Tensor:
        return all_three(model, minibatch(len(people), BATCH, step, seed))

    everything = torch.arange(len(people))
    preference = ferero.Preference(f, [abs(f.rate_a - f.rate_b) <= gap], minimize=f.ce)
    rates = {"adam": 3e-3, "momentum": 3e-2}
    return Task(
        f"fairness {gap:g}", preference, _classifier, losses, lambda model: all_three(model, everything), 2000,
        rates, "adam",  # type: ignore[arg-type]
    )  # fmt: skip
