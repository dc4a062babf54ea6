"""Lines and half-lines in loss space, as rows: what `ray`, `from_weights` and `between` are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ferero.errors import InputError
from ferero.preference._expression import Constraint, LinearForm

__all__ = ["Line", "complement", "unit_vector"]


@dataclass(frozen=True)
class Line:
    """The losses with `F - through` parallel to `direction`.

    Args:
        direction: the unit vector (m,).
        through: a point (m,) on the line; None is the origin.
        is_half: whether only the half on the direction's side counts.
        label: the sentence that describes the line.
    """

    direction: Tensor
    through: Tensor | None
    is_half: bool
    label: str

    def constraints(self, names: Sequence[str]) -> tuple[Constraint, ...]:
        """`B_h (F - through) == 0` with orthonormal rows, and `-v . (F - through) <= 0` for a half-line."""
        rows = complement(self.direction)
        equalities = tuple(self._row(names, row, "==", self.label) for row in rows)
        if not self.is_half:
            return equalities
        label = f"(F - {vector_text(self._origin)}) . {vector_text(self.direction)} >= 0"
        return (*equalities, self._row(names, self.direction, ">=", label))

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence where no non-negative losses (but zero) lie on the line."""
        if self.through is None and not bool((self.direction < 0).any()):
            return ()
        if self.through is None:
            return (
                f"no non-negative losses other than 0 lie along {vector_text(self.direction)}: it has "
                f"negative components; give through= the point that the ray should start from",
            )
        return () if self._meets_nonnegative() else (f"no non-negative losses can meet '{self.label}'",)

    @property
    def _origin(self) -> Tensor:
        return torch.zeros_like(self.direction) if self.through is None else self.through

    def _row(self, names: Sequence[str], row: Tensor, relation: str, label: str) -> Constraint:
        left = LinearForm.from_row(names, row.tolist())
        right = LinearForm(constant=0.0 if self.through is None else float(row @ self.through))
        return Constraint(left, "==" if relation == "==" else ">=", right, label=label)

    def _meets_nonnegative(self) -> bool:
        """Whether `through + t * direction >= 0` for some t (some t >= 0 on a half-line)."""
        v, origin = self.direction, self._origin
        t = -origin / v  # where each loss is zero; unused where v == 0
        low = torch.cat([t[v > 0], t.new_zeros(1) if self.is_half else t.new_full((1,), -torch.inf)]).max()
        high = torch.cat([t[v < 0], t.new_full((1,), torch.inf)]).min()
        return bool((origin[v == 0] >= 0).all() and low <= high)


def unit_vector(vector: Tensor, argument: str) -> Tensor:
    """`vector` (m,) over its length, safe for components of any size.

    Raises:
        InputError: when all components are zero.
    """
    largest = vector.abs().max()
    if largest == 0:
        raise InputError(f"{argument}: expected a direction, found all zeros; make one component non-zero")
    scaled = vector / largest
    unit: Tensor = scaled / torch.linalg.vector_norm(scaled)
    return unit


def complement(unit: Tensor) -> Tensor:
    """An orthonormal basis of the complement of a unit vector.

    The rows 1..m-1 of the Householder reflection that takes `unit` to -+e_0: with s = sign(v_0),
    `row_i = e_i - v_i (v + s e_0) / (1 + |v_0|)`. Its diagonal is computed as
    `(|v_0| + v_0^2 + sum_{j != 0, i} v_j^2) / (1 + |v_0|)`, so that tiny components keep their digits. It
    varies continuously over the positive orthant.

    Args:
        unit: the unit vector (m,).

    Returns:
        The rows (m - 1, m).
    """
    v = unit.numpy()
    first, rest = float(v[0]), v[1:]
    rows = np.empty((len(rest), len(v)))
    rows[:, 0] = rest if first < 0 else -rest
    np.divide(-rest[:, None] * rest, 1 + abs(first), out=rows[:, 1:])
    others = (rest * rest * (1 - np.eye(len(rest)))).sum(axis=1)
    np.fill_diagonal(rows[:, 1:], (abs(first) + first * first + others) / (1 + abs(first)))
    return torch.from_numpy(rows)


def vector_text(vector: Tensor) -> str:
    """A vector for people, two digits a component: `(0.45, 0.89)`."""
    return "(" + ", ".join(f"{x:.2g}" for x in vector.tolist()) + ")"
