"""`Trained`: the result of training for one preference, and `Course`, its trajectory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ferero.preference import Preference

__all__ = ["Course", "Trained"]


@dataclass(frozen=True, eq=False)
class Course:
    """The trajectory of a training run, recorded E times.

    Attributes:
        steps: optimizer steps taken so far, (E,), int64.
        losses: (E, m), float64.
        weights: (E, m), float64.
        evaluated: evaluations, (E,) each, by "data/figure"; NaN where there was none.
    """

    steps: Tensor
    losses: Tensor
    weights: Tensor
    evaluated: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def none(cls, m: int) -> Course:
        """The trajectory of a run that recorded nothing."""
        nothing = torch.empty(0, m, dtype=torch.float64)
        return cls(torch.empty(0, dtype=torch.int64), nothing, nothing.clone())

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True, eq=False)
class Trained:
    """One trained model: its final losses and the verdict on them.

    Attributes:
        preference: which it was trained for.
        losses: the final losses, (m,), float64.
        status: the verdict of `ferero.Report` ("met", "met_within_noise", "not_met", "saturated", "oscillating"),
            "diverged" if losses or parameters are not finite, or "trained" if nobody judged.
        message: the status as a sentence, with advice.
        weights: of the losses in the last step, (m,); NaN if unknown.
        multipliers: of the last step; None if there are none.
        seed: of the model.
        steps: optimizer steps taken.
        seconds: wall time; its share, if several were trained together.
        evaluated: figures by the name of their data, then by their own.
        course: the trajectory of losses and weights.
        state_dict: of the model; None if it was not kept.
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
        """Whether every constraint is met, within batch noise."""
        return self.status in ("met", "met_within_noise")
