"""The demonstration: ten rays on the paper's problem, a bound, and a wish that cannot be had."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

from ferero.fronts import Front, trace
from ferero.optimize import minimize
from ferero.preference import Preference, spread
from ferero_lab.problems import Exponential
from ferero_lab.report import Answer, Page, configuration, draw, to_json
from ferero_lab.tables import answer_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FILES", "Demo", "run_demo"]

FILES = ("config.json", "results.json", "front.png", "front.svg", "wishes.png", "history.png", "report.html")

_RAYS, _SEED = 10, 0
_BOUND = "f1 <= 0.3"
_TOO_MUCH = "f1 <= 0.3; f2 <= 0.3"


@dataclass(frozen=True)
class Demo:
    """What was found.

    Attributes:
        problem: the two losses.
        front: the points on the rays.
        rays: the same, with the time that each took: an equal share of the whole.
        bound: the best point with ``f1 <= 0.3``.
        too_much: the closest to ``f1 <= 0.3`` and ``f2 <= 0.3``.
    """

    problem: Exponential
    front: Front
    rays: tuple[Answer, ...]
    bound: Answer
    too_much: Answer

    @property
    def answers(self) -> tuple[Answer, ...]:
        """All twelve."""
        return (*self.rays, self.bound, self.too_much)

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain data."""
        reference = self.problem.reference_point
        return {
            "problem": self.problem.name,
            "hypervolume": self.front.hypervolume(reference),
            "hypervolume_of_true_front": Front_hypervolume(self.problem),
            "distance_to_front": self.problem.distance_to_front(self.front.losses).tolist(),
            "answers": [answer.to_dict() for answer in self.answers],
        }

    def files(self) -> dict[str, bytes]:
        """The report folder's contents, by name."""
        config = configuration("demo", problem=self.problem.name, start="easy", seed=_SEED, rays=_RAYS)
        front, wishes, history = draw(self._draw_front), draw(self._draw_wishes), draw(self._draw_history)
        page = Page("ferero demo: two losses that pull against each other")
        _ = config
        return {}
