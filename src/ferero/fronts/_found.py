"""What a front may hold: answers of different makers, alike in what a front reads of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from ferero._arrays import Array, ArrayLike, to_float64
from ferero.errors import InputError
from ferero.fronts._trained import Trained
from ferero.optimize._evaluator import Point
from ferero.optimize._result import Result
from ferero.preference import Preference

__all__ = ["Found", "R_co", "account_of", "check_one_kind", "numbers", "shortfall_of", "trajectory_of"]


class Found(Protocol):
    """The answer for one preference: a `ferero.Result`, or a `Trained` model."""

    @property
    def preference(self) -> Preference:
        """What was asked for."""

    @property
    def losses(self) -> Point:
        """What was found, (m,)."""

    @property
    def weights(self) -> Point | None:
        """Of the losses, (m,); None where not known."""

    @property
    def status(self) -> str:
        """How the run ended."""

    @property
    def message(self) -> str:
        """The same in a sentence."""

    @property
    def success(self) -> bool:
        """Whether it is what was asked for."""


if TYPE_CHECKING:
    import typing_extensions as typing_13

    R_co = typing_13.TypeVar("R_co", bound=Found, default=Result, covariant=True)
else:
    R_co = TypeVar("R_co", bound=Found, covariant=True)


def check_one_kind(results: Sequence[Found]) -> None:
    """Raises InputError where a front would mix kinds, which have no table in common."""
    kinds = sorted({type(result).__name__ for result in results})
    if len(kinds) > 1:
        raise InputError(f"results: expected all of one kind, found {' and '.join(kinds)}; make a front of each.")


def shortfall_of(found: Found) -> str:
    """What is missing, in a word or two; empty where nothing is, or where nobody judged."""
    if found.success or found.status == "trained":
        return ""
    return "not converged" if isinstance(found, Result) else "not met"


def trajectory_of(found: Found) -> tuple[Array, bool]:
    """The losses along the way, (T, m), and whether their first row is the start; T may be 0."""
    if isinstance(found, Result):
        return found.history.losses, True
    course = found.course if isinstance(found, Trained) else None
    if course is None or not len(course):
        return np.empty((0, len(found.losses))), False
    return course.losses.detach().cpu().numpy(), int(course.steps[0]) == 0


def account_of(results: Sequence[Found]) -> dict[str, Any]:
    """What only this kind of result knows, by name, one entry per point, as ``json.dumps`` takes it."""
    if trained := [r for r in results if isinstance(r, Trained)]:
        return {
            "seeds": [int(r.seed) for r in trained],
            "steps": [int(r.steps) for r in trained],
            "seconds": numbers([r.seconds for r in trained]),
            "evaluated": [
                {data: {name: numbers(value) for name, value in of.items()} for data, of in r.evaluated.items()}
                for r in trained
            ],
        }
    found = [r for r in results if isinstance(r, Result)]
    kkt = ("stationarity", "complementarity", "feasibility")
    return {
        "iterations": [int(r.iterations) for r in found],
        "evaluations": [int(r.evaluations) for r in found],
        "gradient_evaluations": [int(r.gradient_evaluations) for r in found],
        "kkt": {part: numbers([getattr(r.kkt, part) for r in found]) for part in kkt},
    }


def numbers(values: ArrayLike | None) -> Any:
    """Nested lists of floats, None for what is not finite."""
    if values is None:
        return None
    array = to_float64(values, "values").cpu().numpy()
    listed = array.astype(object)
    listed[~np.isfinite(array)] = None
    return listed.tolist()
