"""What a training run for one preference answers with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ferero.preference import Preference

__all__ = ["Course", "Trained"]


@dataclass(frozen=True, eq=False)
class Course:
    """How a training run went, at E moments.

    Attributes:
        steps: optimizer steps taken so far, (E,), int64.
        losses: the losses at that moment, (E, m), float64.
        weights: the weights at that moment, (E, m), float64.
        evaluated: what was measured at that moment, (E,) each, by "data/figure"; NaN where it was not.
    """

    steps: Tensor
    losses: Tensor
    weights: Tensor
    evaluated: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def none(cls, m: int) -> Course:
        """Of a run that kept no record."""
        nothing = torch.empty(0, m, dtype=torch.float64)
        return cls(torch.empty(0, dtype=torch.int64), nothing, nothing.clone())

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True, eq=False)
class Trained:
    """One trained model: where its losses ended, and how.

    Attributes:
        preference: what was asked for.
        losses: the losses at the end, (m,), float64.
        status: the verdict of `ferero.Report` ("met", "met_within_noise", "not_met", "saturated", "oscillating"),
            "diverged" where losses or parameters are not finite, or "trained" where nobody judged.
        message: the same in a sentence, with advice.
        weights: of the losses in the last step, (m,); NaN where not known.
        multipliers: of the last step; None where there are none.
        seed: of the model.
        steps: optimizer steps taken.
        seconds: wall time; for one of several trained together, its share.
        evaluated: figures by the name of the data they were measured on, then by their own.
        course: losses and weights along the way.
        state_dict: the model's; None where it was not kept.
    """

    preference: Preference = field(repr=False)
    losses: Tensor
    status: str = "trained"
    message: str = ""
    weights: Tensor | None = None
    multipliers: Tensor | None = None
    seed: int = 0
    steps: int = 0
    seconds: float = 0.0
    evaluated: dict[str, dict[str, float]] = field(default_factory=dict)
    course: Course | None = field(default=None, repr=False)
    state_dict: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def success(self) -> bool:
        """Whether every constraint is met, as far as one can see."""
        return self.status in ("met", "met_within_noise")
