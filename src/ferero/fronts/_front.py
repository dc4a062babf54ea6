"""A front: what was asked for, what was found, and how good it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, overload

import torch
from torch import Tensor

from ferero._arrays import ArrayLike, to_float64
from ferero.errors import InputError, UnsupportedError
from ferero.fronts._found import R_co, account_of, check_one_kind, numbers
from ferero.fronts._indicators import hypervolume, ray_error
from ferero.fronts._table import front_table
from ferero.geometry import Cone, nondominated
from ferero.preference import Preference

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Front"]


@dataclass(frozen=True, eq=False, repr=False)
class Front(Generic[R_co]):
    """One point for each preference, in the order in which they were given.

    ``len(front)`` is P, ``front[i]`` the i-th result and ``front[2:5]`` a smaller front; ``print(front)``
    is a table. A preference may occur more than once, as for several seeds.

    Args:
        losses: the points (P, m).
        preferences: what was asked for (P,), over the same names.
        results: what was found (P,), each a `Result` or each a `Trained`.

    Attributes:
        losses: the points (P, m), float64 on the CPU.
        preferences: what was asked for.
        results: what was found, each with its certificate or its verdict.

    Raises:
        InputError: for none, for sizes and names that do not fit each other, or for results of two kinds.

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
        check_one_kind(self.results)

    @classmethod
    def from_results(cls, results: Iterable[R_co]) -> Front[R_co]:
        """The front of results that know their preferences, as those of `ferero.minimize` do."""
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
        """The trained models' (P,).

        Raises:
            UnsupportedError: where results hold none, naming them.
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
        """Marks the points that no other one dominates.

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
        """Degrees between each point and the ray it was asked for, (P,); nan where the preference is no line.

        A line through two points (`Preference.between`) runs both ways: the smaller of its two angles counts.
        """
        return torch.stack([_line_error(F, p) for F, p in zip(self.losses, self.preferences, strict=True)])

    def violations(self) -> Tensor:
        """The largest ``[G]_+`` or ``|H|`` of each point, in the losses' units, (P,); 0 without any."""
        found = [p.violation(F) for F, p in zip(self.losses, self.preferences, strict=True)]
        return torch.stack([v.max() if v.numel() else v.new_zeros(()) for v in found])

    def to_dict(self) -> dict[str, Any]:
        """The front as lists, numbers and strings, one entry per point: what ``json.dumps`` takes.

        Numbers that are not finite become None. Results of `minimize` add their evaluations and certificates, trained
        models their seeds, steps, seconds and evaluated figures.
        """
        return {
            "names": list(self.names),
            "preferences": [str(p) for p in self.preferences],
            "rays": [numbers(p.ray) for p in self.preferences],
            "through": [numbers(p.through) for p in self.preferences],
            "losses": numbers(self.losses),
            "weights": [numbers(r.weights) for r in self.results],
            "statuses": list(self.statuses),
            "messages": [r.message for r in self.results],
            "ray_errors": numbers(self.ray_errors()),
            "violations": numbers(self.violations()),
            "nondominated": self.nondominated().tolist(),
            **account_of(self.results),
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
        return front_table(self)

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
