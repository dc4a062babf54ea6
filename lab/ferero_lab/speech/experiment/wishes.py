"""What each method is asked for: the sum of two losses or of three, or the constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ferero
from ferero.methods import Method
from ferero.preference import Preference
from ferero_lab.speech.experiment.losses import NAMES

__all__ = ["METHODS", "TITLES", "TOLERANCE", "USUAL", "Levels", "levels_after", "method_named", "preference_of"]

METHODS = ("ctc", "cpc", "ls", "ferero", "ferero-sa", "mgda", "stch")
"""By name, in the order in which they are run: the constraints are set by where `ls` ends."""
USUAL = ("ctc", "cpc", "ls", "ferero")
TITLES = {
    "start": "pre-trained",
    "ctc": "CTC losses only",
    "cpc": "CPC loss only",
    "ls": "linear scalarization",
    "ferero": "FERERO",
    "ferero-sa": "FERERO, Algorithm 3",
    "mgda": "MGDA",
    "stch": "smooth Tchebycheff",
}


TOLERANCE = 0.02
"""By how much a level may be missed on the dev set, in nats."""


@dataclass(frozen=True)
class Levels:
    """``cpc <= cpc`` and ``zh - en == gap``.

    Attributes:
        cpc: the first.
        gap: the second.
        floors: for each loss of NAMES, how much of it is out of reach. FERERO measures violations against the size of
            the losses, so it is given what lies above: see docs/steering.md, "Offsets".
    """

    cpc: float
    gap: float
    floors: tuple[float, ...] = (0.0, 0.0, 0.0)

    def violations(self, losses: Mapping[str, float]) -> dict[str, float]:
        """By how much each constraint fails; 0 for one that holds."""
        return {
            "cpc": max(0.0, losses["cpc"] - self.cpc),
            "gap": abs(losses["zh"] - losses["en"] - self.gap),
        }

    def failure(self, losses: Mapping[str, float]) -> float:
        """By how much the worst constraint fails beyond TOLERANCE; 0 where all hold within it."""
        return max(0.0, max(self.violations(losses).values()) - TOLERANCE)


def levels_after(
    losses: Mapping[str, float], *, tightening: float, shift: float, floors: Sequence[float] = (0.0, 0.0, 0.0)
) -> Levels:
    """Levels that both bind: CPC a share under where linear scalarization ended, the gap moved away from its gap.

    Args:
        losses: where linear scalarization ended.
        tightening: the share.
        shift: by how much the gap is moved.
        floors: for each loss of NAMES, the share of its end that is taken to be out of reach.
    """
    return Levels(
        cpc=(1 - tightening) * losses["cpc"],
        gap=losses["zh"] - losses["en"] + shift,
        floors=tuple(share * losses[name] for share, name in zip(floors, NAMES, strict=True)),
    )


def method_named(name: str) -> Method[Any]:
    """An instance."""
    known: dict[str, Method[Any]] = {
        "ctc": ferero.FereroPI(),
        "cpc": ferero.FereroPI(),
        "ls": ferero.LinearScalarization(),
        "ferero": ferero.FereroPI(),
        "ferero-sa": ferero.FereroSA(),
        "mgda": ferero.MGDA(),
        "stch": ferero.SmoothTchebycheff(),
    }
    return known[name]


def preference_of(name: str, levels: Levels | None) -> Preference:
    """What the method of that name is asked for, of losses less their floors; only FERERO understands the constraints.

    It minimises the same sum as linear scalarization under them, so that the constraints are the only difference.
    """
    f = ferero.objectives(*NAMES)
    if name == "ctc":
        return Preference(f, minimize=(f.zh + f.en) / 2)
    if name == "cpc":
        return Preference(f, minimize=f.cpc)
    if name.startswith("ferero") and levels is not None:
        cpc, zh, en = levels.floors
        wanted = [f.cpc <= levels.cpc - cpc, f.zh - f.en == levels.gap - zh + en]
        return Preference(f, wanted, minimize=(f.cpc + f.zh + f.en) / 3)
    return Preference(f)
