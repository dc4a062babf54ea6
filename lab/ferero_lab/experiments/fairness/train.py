"""Trains the classifiers of the fairness experiment, all bounds and seeds of a method at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ferero.fronts import train_front
from ferero_lab.data import Census, CensusPart, adult, adult_like
from ferero_lab.experiments.experiment import Context, Found, Settings
from ferero_lab.experiments.fairness.plan import GAPS, WEIGHTS, FairnessPlan, preferences

__all__ = ["PARTS", "figures", "group_losses", "load_people", "penalised_losses", "train_method"]

PARTS = ("train", "validation", "test")

Batch = tuple[Tensor, Tensor, Tensor]
"""Features (n, d), labels (n,) and groups (n,), 0 or 1, all float32."""


def load_people(settings: Settings) -> Census:
    """The true data, or for a quick run without a data folder the stand-in."""
    return adult_like() if _is_stand_in(settings) else adult(settings.data)


def group_losses(model: Any, batch: Batch) -> dict[str, Tensor]:
    """The log-loss, and each group's mean predicted probability of a high income."""
    features, labels, groups = batch
    logits = model(features)[:, 0]
    rate_a, rate_b = _rates(torch.sigmoid(logits), groups)
    return {"log_loss": functional.binary_cross_entropy_with_logits(logits, labels), "rate_a": rate_a, "rate_b": rate_b}


def penalised_losses(model: Any, batch: Batch) -> dict[str, Tensor]:
    """The log-loss and the squared gap, for fixed weights."""
    found = group_losses(model, batch)
    return {"log_loss": found["log_loss"], "penalty": (found["rate_a"] - found["rate_b"]).square()}


def figures(model: Any, batch: Batch) -> dict[str, Tensor]:
    """What is reported: accuracy, and the gaps of probabilities and of decisions (probability above a half)."""
    features, labels, groups = batch
    logits = model(features)[:, 0]
    rate_a, rate_b = _rates(torch.sigmoid(logits), groups)
    yes_a, yes_b = _rates((logits > 0).to(logits.dtype), groups)
    return {
        "accuracy": ((logits > 0) == (labels > 0.5)).to(logits.dtype).mean(),
        "gap": (rate_a - rate_b).abs(),
        "decision_gap": (yes_a - yes_b).abs(),
        "decisions_a": yes_a,
        "decisions_b": yes_b,
    }


def train_method(plan: FairnessPlan, method: str, context: Context) -> Found:
    """One model for each bound (or weight) and seed."""
    settings, people = context.settings, load_people(context.settings)
    # Evaluated in one batch: a rate is a mean over a group, and means of batches' rates would not add up to it.
    whole = {name: [_tensors(getattr(people, name))] for name in PARTS}

    def schedule(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, plan.epochs)

    width, inputs = plan.width, people.train.features.shape[1]
    front = train_front(
        lambda _: nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, 1)),
        penalised_losses if method == "penalty" else group_losses,
        _tensors(people.train),
        preferences(method),
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=plan.step),
        epochs=plan.epochs,
        seeds=plan.seeds,
        device=settings.device,
        batch_size=min(plan.batch, len(people.train)),
        order="seed",
        schedule=schedule,
        evaluate=whole,
        metrics=_decisions_as_rates if method == "ferero-decisions" else figures,
        held_out="validation" if method in ("ferero", "ferero-decisions") else None,
        checkpoint=context.folder / "models.pt",
        progress=context.advance,
    )
    asked: dict[str, tuple[float | None, ...]] = {"plain": (None,), "penalty": WEIGHTS}
    values = asked.get(method, GAPS)
    names = ("log_loss", "accuracy", "gap", "decision_gap")
    runs = [
        {
            "asked": values[index // plan.seeds],
            "seed": model.seed,
            "status": model.status,
            "measured": {part: {name: model.evaluated[part][name] for name in names} for part in PARTS},
        }
        for index, model in enumerate(front.results)
    ]
    return {
        "data": "stand-in" if _is_stand_in(settings) else "adult",
        "people": {name: len(getattr(people, name)) for name in PARTS},
        "epochs": plan.epochs,
        "runs": runs,
        "seconds": front.results[0].seconds / plan.epochs,
    }


def _decisions_as_rates(model: Any, batch: Batch) -> dict[str, Tensor]:
    """The same figures, with the groups' decisions in place of their rates, so that these drive the constraint."""
    found = figures(model, batch)
    return {**found, "rate_a": found["decisions_a"], "rate_b": found["decisions_b"]}


def _rates(scores: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
    """The means of groups 0 and 1; 0 for one that is not there."""
    rate_a, rate_b = ((scores * members).sum() / members.sum().clamp(min=1) for members in (1 - groups, groups))
    return rate_a, rate_b


def _tensors(people: CensusPart) -> Batch:
    return people.features, people.labels, people.groups.to(people.features.dtype)


def _is_stand_in(settings: Settings) -> bool:
    return settings.mode == "quick" and settings.data is None
