"""What must hold at a solution, as rows over the losses and the constraints in x together.

The optimizer sees ``[F; c]``: the m losses, then the values of all constraints in x, each written so that ``c <= 0`` or
``c == 0``. A preference over F becomes rows over both, with the constraints in x as rows of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ferero._arrays import Array, Mask
from ferero.optimize._constraint_rows import Source
from ferero.optimize._evaluator import Evaluator, Function, Indices, Point, UserFunction, make_evaluator
from ferero.optimize._scale import RowSizes
from ferero.preference import Preference

__all__ = ["Conditions", "ConstraintLayout", "JointEvaluator", "ScaledEvaluator", "make_joint_evaluator"]


@dataclass(frozen=True, eq=False)
class ConstraintLayout:
    """Which value of which constraint each row in x is: ``sign (v - offset)``, to be ``<= 0`` or ``== 0``.

    Attributes:
        source: the constraint that a row belongs to, (p,).
        value: the index among that constraint's values, (p,).
        sign: 1 for an upper bound or an equality, -1 for a lower bound, (p,).
        offset: the bound, (p,).
        is_equality: (p,).
        counts: how many values each constraint has.
        names: of the constraints.
    """

    source: NDArray[np.int64]
    value: NDArray[np.int64]
    sign: Array
    offset: Array
    is_equality: Mask
    counts: tuple[int, ...] = ()
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, sources: Sequence[Source], counts: Sequence[int]) -> ConstraintLayout:
        """The rows of constraints with that many values."""
        rows: list[tuple[int, int, float, float, bool]] = []
        for s, (source, count) in enumerate(zip(sources, counts, strict=True)):
            low, high = source.sides(count)
            for j in range(count):
                if low[j] == high[j]:
                    rows.append((s, j, 1.0, float(low[j]), True))
                    continue
                if np.isfinite(high[j]):
                    rows.append((s, j, 1.0, float(high[j]), False))
                if np.isfinite(low[j]):
                    rows.append((s, j, -1.0, float(low[j]), False))
        table = np.array(rows, dtype=np.float64).reshape(-1, 5)
        return cls(
            source=table[:, 0].astype(np.int64),
            value=table[:, 1].astype(np.int64),
            sign=table[:, 2],
            offset=table[:, 3],
            is_equality=table[:, 4] > 0,
            counts=tuple(counts),
            names=tuple(source.name for source in sources),
        )

    def __len__(self) -> int:
        return len(self.sign)

    @cached_property
    def place(self) -> NDArray[np.int64]:
        """The index of each row's value among all values, (p,)."""
        firsts = np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)
        return np.asarray(firsts[self.source] + self.value)

    def labels(self, rows: Mask) -> tuple[str, ...]:
        """The masked rows in words."""
        out = []
        for i in np.flatnonzero(rows):
            relation = "==" if self.is_equality[i] else "<=" if self.sign[i] > 0 else ">="
            value = "" if self.counts[self.source[i]] == 1 else f"[{self.value[i]}]"
            out.append(f"{self.names[self.source[i]]}{value} {relation} {self.offset[i]:g}")
        return tuple(out)

    def by_source(self, multipliers: Array) -> tuple[Array, ...]:
        """One multiplier for each value of each constraint, positive at its upper bound, negative at its lower."""
        if not self.counts:
            return ()
        flat = np.zeros(sum(self.counts))
        np.add.at(flat, self.place, self.sign * multipliers)
        return tuple(np.split(flat, np.cumsum(self.counts)[:-1]))


NO_CONSTRAINTS = ConstraintLayout.of((), ())


@dataclass(frozen=True, eq=False)
class Conditions:
    """A preference and the constraints in x as rows over ``[F; c]``, (m + p,).

    Attributes:
        preference: the preference.
        layout: the constraints in x.
    """

    preference: Preference
    layout: ConstraintLayout = NO_CONSTRAINTS

    @cached_property
    def m(self) -> int:
        """How many losses there are."""
        return self.preference.m

    @cached_property
    def A(self) -> Array:
        """The order's rows, (k, m + p)."""
        return self.widen(self.preference.A.numpy())

    @cached_property
    def B_g(self) -> Array:
        """The preference's inequalities, then those in x, (m_g, m + p)."""
        return self._rows(self.preference.B_g.numpy(), ~self.layout.is_equality)

    @cached_property
    def b_g(self) -> Array:
        """Their constants, (m_g,)."""
        return self._constants(self.preference.b_g.numpy(), ~self.layout.is_equality)

    @cached_property
    def B_h(self) -> Array:
        """The preference's equalities, then those in x, (m_h, m + p)."""
        return self._rows(self.preference.B_h.numpy(), self.layout.is_equality)

    @cached_property
    def b_h(self) -> Array:
        """Their constants, (m_h,)."""
        return self._constants(self.preference.b_h.numpy(), self.layout.is_equality)

    @cached_property
    def rows(self) -> Array:
        """``[B_g; B_h]``, (k_c, m + p)."""
        return np.concatenate([self.B_g, self.B_h])

    @cached_property
    def offsets(self) -> Array:
        """``[b_g; b_h]``, (k_c,)."""
        return np.concatenate([self.b_g, self.b_h])

    @cached_property
    def in_x(self) -> Mask:
        """Which of ``rows`` are constraints in x, (k_c,)."""
        if not len(self.layout):
            return np.zeros(len(self.rows), dtype=bool)
        return np.asarray((self.rows[:, self.m :] != 0).any(axis=1))

    @cached_property
    def sizes(self) -> RowSizes:
        """Of the rows."""
        return RowSizes(self.rows, self.offsets, self.in_x if self.in_x.any() else None)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The rows in words."""
        p, layout = self.preference, self.layout
        return (
            *p.labels_g,
            *layout.labels(~layout.is_equality),
            *p.labels_h,
            *layout.labels(layout.is_equality),
        )

    @property
    def equalities(self) -> int:
        """How many of the last rows are equalities."""
        return len(self.B_h)

    def violation(self, losses: Array) -> Array:
        """``[G]_+`` then ``|H|`` of losses and constraints (m + p,), (k_c,)."""
        values = self.rows @ losses + self.offsets
        first = len(values) - self.equalities
        return np.concatenate([np.maximum(values[:first], 0.0), np.abs(values[first:])])

    def split(self, multipliers: Array) -> tuple[Array, Array]:
        """``[lam_g; lam_h]`` over all rows, (k_c,), as the preference's and those in x, in the layout's order."""
        if not len(self.layout):
            return multipliers, np.zeros(0)
        mine = multipliers[~self.in_x]
        in_x, is_h = np.zeros(len(self.layout)), self.layout.is_equality
        found = multipliers[self.in_x]
        in_x[~is_h], in_x[is_h] = found[: int((~is_h).sum())], found[int((~is_h).sum()) :]
        return mine, in_x

    def widen(self, rows: Array) -> Array:
        """Rows over the losses as rows over all values, (k, m + p)."""
        if not len(self.layout):
            return rows
        return np.concatenate([rows, np.zeros((len(rows), len(self.layout)))], axis=1)

    def _rows(self, rows: Array, in_x: Mask) -> Array:
        if not len(self.layout):
            return rows
        own = np.eye(len(self.layout))[in_x]
        return np.concatenate([self.widen(rows), np.concatenate([np.zeros((len(own), self.m)), own], axis=1)])

    def _constants(self, offsets: Array, in_x: Mask) -> Array:
        return np.concatenate([offsets, np.zeros(int(in_x.sum()))]) if len(self.layout) else offsets


class JointEvaluator:
    """The losses and, behind them, the constraints in x, each by an evaluator of its own."""

    def __init__(self, own: Evaluator, others: Sequence[Evaluator], sources: Sequence[Source]) -> None:
        self._own, self._others, self._sources = own, others, sources
        self.gradient_cost = own.gradient_cost
        self.restore = own.restore
        self.layout = NO_CONSTRAINTS

    @property
    def m(self) -> int:
        """The number of losses and constraints."""
        return self._own.m + len(self.layout)

    @property
    def losses_only(self) -> int:
        """The number of losses."""
        return self._own.m

    @property
    def precision(self) -> float:
        """The relative rounding of the losses."""
        return self._own.precision

    @property
    def failures(self) -> list[str]:
        """What any of the functions raised after its first call."""
        return [line for one in (self._own, *self._others) for line in one.failures]

    def losses(self, points: Array) -> Array:
        """``[F; c]`` at points (P, n), (P, m + p)."""
        losses = self._own.losses(points)
        if not self._sources:
            return losses
        values = np.concatenate([one.losses(points) for one in self._others], axis=1)
        if not len(self.layout):
            self.layout = ConstraintLayout.of(self._sources, [one.m for one in self._others])
        rows = self.layout
        return np.concatenate([losses, rows.sign * (values[:, rows.place] - rows.offset)], axis=1)

    def jacobians(self, runs: Indices) -> Array:
        """Their gradients at those of the last points whose indices are given, (R, m + p, n)."""
        own = self._own.jacobians(runs)
        if not self._sources:
            return own
        values = np.concatenate([one.jacobians(runs) for one in self._others], axis=1)
        return np.concatenate([own, self.layout.sign[:, None] * values[:, self.layout.place]], axis=1)


class ScaledEvaluator:
    """The same for ``u = x / scale``."""

    def __init__(self, evaluator: JointEvaluator, scale: Array) -> None:
        self._evaluator, self._scale = evaluator, scale
        self.gradient_cost = evaluator.gradient_cost

    @property
    def m(self) -> int:
        """The number of losses and constraints."""
        return self._evaluator.m

    @property
    def precision(self) -> float:
        """The relative rounding of the losses."""
        return self._evaluator.precision

    @property
    def failures(self) -> list[str]:
        """What any of the functions raised after its first call."""
        return self._evaluator.failures

    def losses(self, points: Array) -> Array:
        """``[F; c]`` at points (P, n), (P, m + p)."""
        return self._evaluator.losses(points * self._scale)

    def jacobians(self, runs: Indices) -> Array:
        """Their gradients in u, (R, m + p, n)."""
        return self._evaluator.jacobians(runs) * self._scale

    def restore(self, point: Array) -> Point:
        """A point as the user holds it."""
        return self._evaluator.restore(point * self._scale)


def make_joint_evaluator(
    call: UserFunction, x0: Point, runs: int, sources: Sequence[Source] = ()
) -> tuple[JointEvaluator, Array]:
    """The evaluator of the function and its constraints, and the starts, (P, n), moved into the box.

    Args:
        call: the function.
        x0: as in `make_evaluator`.
        runs: P.
        sources: the constraints in x.
    """
    own, starts = make_evaluator(call.fun, x0, call.jac, runs, call)
    others = [_evaluator_of(source, call, x0, runs) for source in sources]
    return JointEvaluator(own, others, sources), starts


def _evaluator_of(source: Source, call: UserFunction, x0: Point, runs: int) -> Evaluator:
    function: Function = source.fun
    mine = UserFunction(function, source.jac, call.box, f"{source.name}.fun", "values", call.diff_step)
    return make_evaluator(function, x0, source.jac, runs, mine)[0]
