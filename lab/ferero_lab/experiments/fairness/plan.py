"""What a run of the fairness experiment trains: which gaps are asked for, by which means, and how long."""

from __future__ import annotations

from dataclasses import dataclass, replace

import ferero
from ferero.errors import InputError
from ferero.preference import Preference
from ferero_lab.experiments.chosen import chosen
from ferero_lab.experiments.experiment import Settings

__all__ = ["DRIVING", "GAPS", "TITLES", "WEIGHTS", "FairnessPlan", "preferences", "read_plan"]

TITLES = {
    "plain": "log-loss alone",
    "ferero": "FERERO, held-out gap",
    "ferero-training": "FERERO, training gap",
    "ferero-decisions": "FERERO, held-out decisions",
    "penalty": "fixed penalty",
}
PANELS = ("front",)
GAPS = (0.01, 0.02, 0.05, 0.1, 0.15)
"""The largest gaps between the groups' rates that are asked for."""
WEIGHTS = (0.3, 1.0, 3.0, 10.0, 30.0)
"""Of the squared gap, where it is a fixed penalty."""
DRIVING = {
    "ferero": ("validation", "gap"),
    "ferero-training": ("train", "gap"),
    "ferero-decisions": ("validation", "decision_gap"),
}
"""On which people, and in which figure, each method is to keep the gap."""


@dataclass(frozen=True)
class FairnessPlan:
    """How the models of a mode are trained.

    Attributes:
        mode: "quick" or "ours".
        epochs: passes over the people.
        seeds: how many.
        batch: people in a batch: many, so that both groups are always there.
        width: of the hidden layer.
        step: Adam's, falling to 0 along a cosine.
        methods: which.
    """

    mode: str
    epochs: int
    seeds: int
    batch: int
    width: int
    step: float = 3e-3
    methods: tuple[str, ...] = tuple(TITLES)


_PLANS = {"quick": FairnessPlan("quick", 60, 3, 256, 16), "ours": FairnessPlan("ours", 30, 5, 512, 32)}


def read_plan(settings: Settings) -> FairnessPlan:
    """The mode's plan with what the user changed.

    Raises:
        InputError: a name in ``only`` or ``methods`` that there is not, or the paper's mode.
    """
    if settings.mode not in _PLANS:
        raise InputError(
            f"--{settings.mode}: the paper names this example and does not run it, so it has no settings of its own; "
            "leave it out."
        )
    plan = _PLANS[settings.mode]
    chosen("--only", settings.only, PANELS)
    methods = chosen("--methods", settings.methods, plan.methods)
    return replace(plan, epochs=settings.epochs or plan.epochs, seeds=settings.seeds or plan.seeds, methods=methods)


def preferences(method: str) -> list[Preference]:
    """What the models of a method are asked for, in the order of `GAPS` or `WEIGHTS`."""
    if method == "penalty":
        q = ferero.objectives("log_loss", "penalty")
        return [Preference(q, minimize=q.log_loss + weight * q.penalty) for weight in WEIGHTS]
    f = ferero.objectives("log_loss", "rate_a", "rate_b")
    if method == "plain":
        return [Preference(f, minimize=f.log_loss)]
    return [Preference(f, [abs(f.rate_a - f.rate_b) <= gap], minimize=f.log_loss) for gap in GAPS]
