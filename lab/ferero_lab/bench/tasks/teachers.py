"""Staying close to a model that is already good: distillation, retention, and confidence that is kept low."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional

import ferero
from ferero_lab.bench.tasks.task import Task, classifier, flat_digits, minibatch
from ferero_lab.data.digits import wrong_labels

__all__ = ["distillation", "entropy", "retention"]

BATCH = 64
WRONG = 0.3


@lru_cache(maxsize=2)
def _trained(classes: int, steps: int) -> nn.Module:
    """A classifier trained on the digits below ``classes``."""
    images, labels = flat_digits()
    images, labels = images[labels < classes], labels[labels < classes]
    model = classifier(seed=100, hidden=32)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(steps):
        chosen = minibatch(len(images), BATCH, step, 100)
        optimizer.zero_grad()
        functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model.requires_grad_(False)


def distillation(level: float) -> Task:
    """``kl to a teacher <= level, minimize ce`` of a small student on labels of which three in ten are wrong."""
    images, true = flat_digits()
    labels = wrong_labels(true, WRONG, classes=10, generator=torch.Generator().manual_seed(7))
    teacher = _trained(10, 300)
    taught = functional.log_softmax(teacher(images), dim=-1)
    f = ferero.objectives("ce", "kl")

    def both(model: nn.Module, chosen: Tensor) -> Tensor:
        logits = model(images[chosen])
        said = functional.log_softmax(logits, dim=-1)
        kl = (taught[chosen].exp() * (taught[chosen] - said)).sum(dim=-1).mean()
        return torch.stack([functional.cross_entropy(logits, labels[chosen]), kl])

    def losses(model: nn.Module, step: int, seed: int) -> Tensor:
        return both(model, minibatch(len(images), BATCH, step, seed))

    preference = ferero.Preference(f, [f.kl <= level], minimize=f.ce)
    rates = {"adam": 3e-3, "momentum": 3e-2}
    everything = torch.arange(len(images))
    return Task(
        f"distillation {level:g}", preference, classifier, losses, lambda model: both(model, everything), 2000,
        rates, "adam",  # type: ignore[arg-type]
    )  # fmt: skip


def retention(times: float = 1.0) -> Task:
    """A model of the digits 0 to 4 learns 5 to 9: ``old <= times what it was, minimize new``."""
    images, labels = flat_digits()
    old, new = (torch.nonzero(side)[:, 0] for side in (labels < 5, labels >= 5))
    trained = _trained(5, 200)
    f = ferero.objectives("new", "old")

    def model(seed: int) -> nn.Module:
        copy = classifier(seed, hidden=32)
        copy.load_state_dict(trained.state_dict())
        return copy

    def ce(model: nn.Module, chosen: Tensor) -> Tensor:
        return functional.cross_entropy(model(images[chosen]), labels[chosen])

    def losses(model: nn.Module, step: int, seed: int) -> Tensor:
        parts = ((new, seed), (old, 50 + seed))
        return torch.stack([ce(model, own[minibatch(len(own), BATCH, step, s)]) for own, s in parts])

    def evaluate(model: nn.Module) -> Tensor:
        return torch.stack([ce(model, new), ce(model, old)])

    with torch.no_grad():
        before = float(ce(trained, old))
    preference = ferero.Preference(f, [f.old <= times * before], minimize=f.new)
    rates = {"adam": 1e-3, "momentum": 1e-2}
    return Task(f"retention {times:g}", preference, model, losses, evaluate, 2000, rates, "adam")  # type: ignore[arg-type]


def entropy(level: float) -> Task:
    """``entropy >= level, minimize ce``: predictions that stay unsure by that many nats."""
    images, labels = flat_digits()
    f = ferero.objectives("ce", "entropy")

    def both(model: nn.Module, chosen: Tensor) -> Tensor:
        logits = model(images[chosen])
        said = functional.log_softmax(logits, dim=-1)
        return torch.stack([functional.cross_entropy(logits, labels[chosen]), -(said.exp() * said).sum(dim=-1).mean()])

    def losses(model: nn.Module, step: int, seed: int) -> Tensor:
        return both(model, minibatch(len(images), BATCH, step, seed))

    preference = ferero.Preference(f, [f.entropy >= level], minimize=f.ce)
    everything = torch.arange(len(images))
    rates = {"adam": 3e-3, "momentum": 3e-2}
    return Task(
        f"entropy {level:g}", preference, classifier, losses, lambda model: both(model, everything), 2000,
        rates, "adam",  # type: ignore[arg-type]
    )  # fmt: skip
