"""`Front`: one result for each preference, its indicators, its dictionary and its table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

import numpy as np
import torch
from torch import Tensor

from ferero._arrays import Array, ArrayLike, to_float64
from ferero.errors import InputError, UnsupportedError
from ferero.fronts._indicators import hypervolume, ray_error
from ferero.fronts._trained import Trained
from ferero.geometry import Cone, nondominated
from ferero.optimize._evaluator import Point
from ferero.optimize._result import Result
from ferero.preference import Preference

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Found", "Front", "preference_text", "shortfall_of", "trajectory_of"]

_WIDEST = 44  # characters of a preference in a table


class Found(Protocol):
    """The result for one preference, as far as a front reads it: a `ferero.Result` or a `Trained`."""

    @property
    def preference(self) -> Preference:
        """Which preference it is the result for."""

    @property
    def losses(self) -> Point:
        """The final losses, (m,)."""

    @property
    def weights(self) -> Point | None:
        """The final weights of the losses, (m,); None if unknown."""

    @property
    def status(self) -> str:
        """How the run ended."""

    @property
    def message(self) -> str:
        """The status as a sentence."""

    @property
    def success(self) -> bool:
        """Whether the run reached its preference."""


if TYPE_CHECKING:
    import typing_extensions as typing_13

    R_co = typing_13.TypeVar("R_co", bound=Found, default=Result, covariant=True)
else:
    R_co = TypeVar("R_co", bound=Found, covariant=True)


@dataclass(frozen=True, eq=False, repr=False)
class Front(Generic[R_co]):
    """One point for each preference, in the order in which they were given.

    ``len(front)`` is P, ``front[i]`` the i-th result and ``front[2:5]`` a smaller front; ``print(front)``
    is a table. A preference may occur more than once, as for several seeds.

    Args:
        losses: the points (P, m).
        preferences: (P,), over the same names.
        results: (P,), all of them `Result` or all of them `Trained`.

    Attributes:
        losses: the points (P, m), float64 on the CPU.
        preferences: of the points.
        results: of the points, each with its certificate or its verdict.

    Raises:
        InputError: for an empty front, sizes or names that do not fit each other, or results of two kinds.

    Example:
        >>> import torch, ferero
        >>> fun = lambda x: torch.stack([(x - 1).square().sum(), (x + 1).square().sum()])
        >>> front = ferero.trace(fun, torch.zeros(1), [[1.0, 1.0], [1.0, 9.0]])
        >>> front
        Front(2 points in f1, f2: 2 converged)
        >>> front.losses.round(decimals=3)
        tensor([[1.0000, 1.0000],
                [0.2500, 2.2500]], dtype=torch.float64)
    """

    losses: Tensor
    preferences: tuple[Preference, ...]
    results: tuple[R_co, ...]

    def __post_init__(self) -> None:
        losses = to_float64(self.losses, "losses").cpu().clone()
        object.__setattr__(self, "losses", losses)
        object.__setattr__(self, "preferences", tuple(Preference.stack(self.preferences).members))
        object.__setattr__(self, "results", tuple(self.results))
        P, m = len(self.preferences), self.preferences[0].m
        if losses.shape != (P, m) or len(self.results) != P:
            raise InputError(
                f"losses, results: expected shape ({P}, {m}) and {P} of them, one for each preference, "
                f"found {tuple(losses.shape)} and {len(self.results)}."
            )
        _check_one_kind(self.results)

    @classmethod
    def from_results(cls, results: Iterable[R_co]) -> Front[R_co]:
        """The front of results that carry their preferences, such as those of `ferero.minimize`."""
        found = tuple(results)
        if not found:
            raise InputError("results: expected at least one, found none.")
        losses = torch.stack([to_float64(r.losses, "losses").cpu() for r in found])
        return cls(losses, tuple(r.preference for r in found), found)

    @property
    def names(self) -> tuple[str, ...]:
        """The losses' names (m,)."""
        return self.preferences[0].names

    @property
    def statuses(self) -> tuple[str, ...]:
        """How each run ended (P,)."""
        return tuple(r.status for r in self.results)

    @property
    def state_dicts(self) -> tuple[dict[str, Any], ...]:
        """The state dicts of the trained models, (P,).

        Raises:
            UnsupportedError: if results hold none; the message names them.
        """
        kept = [getattr(r, "state_dict", None) for r in self.results]
        missing = [str(i) for i, state in enumerate(kept) if state is None]
        if missing:
            which = "no result" if len(missing) == len(kept) else f"not results {', '.join(missing)}"
            raise UnsupportedError(
                f"state_dicts: expected results of training that kept their models, found that {which} did; keep them "
                "when training, or select those that have one."
            )
        return tuple(state for state in kept if state is not None)

    def nondominated(self, cone: Cone | None = None) -> Tensor:
        """Marks the points that no other point dominates.

        Args:
            cone: the order; the orthant if None.

        Returns:
            Booleans (P,); False where a loss is not finite.
        """
        finite = self._finite
        mask = torch.zeros(len(self), dtype=torch.bool)
        mask[finite] = nondominated(self.losses[finite], cone)
        return mask

    def hypervolume(self, ref: ArrayLike) -> float:
        """The volume that the points dominate below ``ref`` (m,), as `ferero.hypervolume` measures it.

        Points that are not finite are left out.
        """
        return hypervolume(self.losses[self._finite], ref)

    def ray_errors(self) -> Tensor:
        """Degrees between each point and its preference's ray, (P,); nan where the preference is no line.

        A line through two points (`Preference.between`) runs both ways: the smaller of its two angles counts.
        """
        return torch.stack([_line_error(F, p) for F, p in zip(self.losses, self.preferences, strict=True)])

    def violations(self) -> Tensor:
        """The largest ``[G]_+`` or ``|H|`` of each point, in the losses' units, (P,); 0 without constraints."""
        found = [p.violation(F) for F, p in zip(self.losses, self.preferences, strict=True)]
        return torch.stack([v.max() if v.numel() else v.new_zeros(()) for v in found])

    def to_dict(self) -> dict[str, Any]:
        """The front as lists, numbers and strings for ``json.dumps``, one entry per point.

        Numbers that are not finite become None. Results of `minimize` add their evaluations and certificates, trained
        models their seeds, steps, seconds and evaluations.
        """
        return {
            "names": list(self.names),
            "preferences": [str(p) for p in self.preferences],
            "rays": [_numbers(p.ray) for p in self.preferences],
            "through": [_numbers(p.through) for p in self.preferences],
            "losses": _numbers(self.losses),
            "weights": [_numbers(r.weights) for r in self.results],
            "statuses": list(self.statuses),
            "messages": [r.message for r in self.results],
            "ray_errors": _numbers(self.ray_errors()),
            "violations": _numbers(self.violations()),
            "nondominated": self.nondominated().tolist(),
            **_account(self.results),
        }

    def plot(
        self,
        ax: Axes | None = None,
        *,
        truth: ArrayLike | None = None,
        trajectories: bool = True,
        rays: bool = True,
        labels: Sequence[str] | None = None,
    ) -> Axes:
        """Draws the front; see `ferero.plot.plot_front`. Needs ``ferero[plot]``."""
        from ferero.plot import plot_front  # the one import that points upwards: plotting is optional

        return plot_front(self, ax, truth=truth, trajectories=trajectories, rays=rays, labels=labels)

    @property
    def _finite(self) -> Tensor:
        return self.losses.isfinite().all(dim=1)

    def __len__(self) -> int:
        return len(self.results)

    @overload
    def __getitem__(self, index: int) -> R_co: ...

    @overload
    def __getitem__(self, index: slice) -> Front[R_co]: ...

    def __getitem__(self, index: int | slice) -> R_co | Front[R_co]:
        if isinstance(index, slice):
            return Front(self.losses[index], self.preferences[index], self.results[index])
        return self.results[index]

    def __iter__(self) -> Iterator[R_co]:
        return iter(self.results)

    def __str__(self) -> str:
        return _table(self)

    def __repr__(self) -> str:
        counts = {status: self.statuses.count(status) for status in dict.fromkeys(self.statuses)}
        ends = ", ".join(f"{count} {status}" for status, count in counts.items())
        points = "1 point" if len(self) == 1 else f"{len(self)} points"
        return f"Front({points} in {', '.join(self.names)}: {ends})"


def _line_error(losses: Tensor, preference: Preference) -> Tensor:
    if preference.ray is None:
        return losses.new_tensor(torch.nan)
    error = ray_error(losses, preference.ray, preference.through)
    runs_both_ways = preference.through is not None and preference.m_g == 0
    return torch.minimum(error, 180 - error) if runs_both_ways else error


def _check_one_kind(results: Sequence[Found]) -> None:
    """Refuses results of different kinds, which have no common table."""
    kinds = sorted({type(result).__name__ for result in results})
    if len(kinds) > 1:
        raise InputError(f"results: expected all of one kind, found {' and '.join(kinds)}; make a front of each.")


def shortfall_of(found: Found) -> str:
    """A label for a result that missed its preference; empty for one that did not, or that nobody judged."""
    if found.success or found.status == "trained":
        return ""
    return "not converged" if isinstance(found, Result) else "not met"


def trajectory_of(found: Found) -> tuple[Array, bool]:
    """The recorded losses, (T, m), and whether their first row is the start; T may be 0."""
    if isinstance(found, Result):
        return found.history.losses, True
    course = found.course if isinstance(found, Trained) else None
    if course is None or not len(course):
        return np.empty((0, len(found.losses))), False
    return course.losses.detach().cpu().numpy(), int(course.steps[0]) == 0


def _account(results: Sequence[Found]) -> dict[str, Any]:
    """The entries of `Front.to_dict` that only this kind of result has, by name, one value per point."""
    if trained := [r for r in results if isinstance(r, Trained)]:
        return {
            "seeds": [int(r.seed) for r in trained],
            "steps": [int(r.steps) for r in trained],
            "seconds": _numbers([r.seconds for r in trained]),
            "evaluated": [
                {data: {name: _numbers(value) for name, value in of.items()} for data, of in r.evaluated.items()}
                for r in trained
            ],
        }
    found = [r for r in results if isinstance(r, Result)]
    kkt = ("stationarity", "complementarity", "feasibility")
    return {
        "iterations": [int(r.iterations) for r in found],
        "evaluations": [int(r.evaluations) for r in found],
        "gradient_evaluations": [int(r.gradient_evaluations) for r in found],
        "kkt": {part: _numbers([getattr(r.kkt, part) for r in found]) for part in kkt},
    }


def _numbers(values: ArrayLike | None) -> Any:
    """Nested lists of floats, with None in place of NaN and infinities."""
    if values is None:
        return None
    array = to_float64(values, "values").cpu().numpy()
    listed = array.astype(object)
    listed[~np.isfinite(array)] = None
    return listed.tolist()


def _table(front: Front[Found]) -> str:
    """One aligned row per point: preference, seed, losses, status, ray error, violation, effort.

    The seed is shown if there are several, the ray error if any preference is a line, the violation if any is none.
    The effort is evaluations, or steps if they are known.
    """
    account = _account(front.results)
    is_line = [p.ray is not None for p in front.preferences]
    header = ["preference", *front.names, "status"]
    columns: list[Sequence[str]] = [
        [preference_text(p) for p in front.preferences],
        *([f"{value:.5g}" for value in column] for column in front.losses.T.tolist()),
        front.statuses,
    ]
    if len(set(account.get("seeds", ()))) > 1:
        header.insert(1, "seed")
        columns.insert(1, [str(seed) for seed in account["seeds"]])
    if any(is_line):
        header.append("ray error")
        errors = zip(is_line, front.ray_errors().tolist(), strict=True)
        columns.append([f"{_short(error)} deg" if line else "-" for line, error in errors])
    if not all(is_line):
        header.append("violation")
        columns.append([_short(value) for value in front.violations().tolist()])
    effort = "steps" if "steps" in account else "evaluations"
    if effort != "steps" or any(account["steps"]):
        header.append(effort)
        columns.append([str(count) for count in account[effort]])
    return _aligned(header, columns, left={"preference", "status"})


def preference_text(preference: Preference, widest: int = _WIDEST) -> str:
    """A single preference in one line of at most ``widest`` characters: its constraints, or its order."""
    order, *constraints = str(preference).splitlines()
    text = "; ".join(line.removeprefix("subject to").strip() for line in constraints) or order
    return text if len(text) <= widest else text[: widest - 3].rstrip() + "..."


def _short(value: float) -> str:
    return "0" if value == 0 else f"{value:.2g}" if 1e-3 <= abs(value) < 1e4 else f"{value:.0e}"


def _aligned(header: Sequence[str], columns: Sequence[Sequence[str]], left: set[str]) -> str:
    widths = [max(map(len, (name, *column))) for name, column in zip(header, columns, strict=True)]
    rows = [tuple(header), tuple("-" * width for width in widths), *zip(*columns, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if name in left else cell.rjust(width)
            for cell, width, name in zip(row, widths, header, strict=True)
        ).rstrip()
        for row in rows
    )
