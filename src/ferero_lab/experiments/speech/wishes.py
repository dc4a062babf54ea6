"""What each method is asked for: the sum of two losses or of three, or the constraints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ferero
from ferero.methods import Method
from ferero.preference import Preference
from ferero_lab.experiments.speech.losses import NAMES

__all__ = ["METHODS", "TITLES", "USUAL", "Gains", "Levels", "levels_after", "method_named", "preference_of"]

METHODS = ("ctc", "ls", "ferero", "ferero-sa", "mgda", "stch")
"""By name, in the order in which they are run: the constraints are set by where `ls` ends."""
USUAL = ("ctc", "ls", "ferero")
TITLES = {
    "start": "pre-trained",
    "ctc": "CTC losses only",
    "ls": "linear scalarization",
    "ferero": "FERERO",
    "ferero-sa": "FERERO, Algorithm 3",
    "mgda": "MGDA",
    "stch": "smooth Tchebycheff",
}


@dataclass(frozen=True)
class Gains:
    """Of FERERO's controller.

    It measures a violation against the size of the losses. Losses that cannot come near 0, as those of a recogniser
    with little to learn from, move by a small share of their size only, and want larger gains.
    """

    proportional: float = 1.0
    integral_time: float = 100.0


@dataclass(frozen=True)
class Levels:
    """``cpc <= cpc`` and ``zh - en == gap``."""

    cpc: float
    gap: float

    def violations(self, losses: Mapping[str, float]) -> dict[str, float]:
        """By how much each constraint fails; 0 for one that holds."""
        return {
            "cpc": max(0.0, losses["cpc"] - self.cpc),
            "gap": abs(losses["zh"] - losses["en"] - self.gap),
        }


def levels_after(losses: Mapping[str, float], *, tightening: float, shift: float) -> Levels:
    """Levels that both bind: CPC a share under where linear scalarization ended, the gap moved away from its gap."""
    return Levels(cpc=(1 - tightening) * losses["cpc"], gap=losses["zh"] - losses["en"] + shift)


def method_named(name: str, gains: Gains) -> Method[Any]:
    """An instance."""
    known: dict[str, Method[Any]] = {
        "ctc": ferero.FereroPI(),
        "ls": ferero.LinearScalarization(),
        "ferero": ferero.FereroPI(proportional=gains.proportional, integral_time=gains.integral_time),
        "ferero-sa": ferero.FereroSA(),
        "mgda": ferero.MGDA(),
        "stch": ferero.SmoothTchebycheff(),
    }
    return known[name]


def preference_of(name: str, levels: Levels | None) -> Preference:
    """What the method of that name is asked for; only FERERO understands the constraints.

    It minimises the same sum as linear scalarization under them, so that the constraints are the only difference.
    """
    f = ferero.objectives(*NAMES)
    if name == "ctc":
        return Preference(f, minimize=(f.zh + f.en) / 2)
    if name.startswith("ferero") and levels is not None:
        return Preference(f, [f.cpc <= levels.cpc, f.zh - f.en == levels.gap], minimize=(f.cpc + f.zh + f.en) / 3)
    return Preference(f)
