"""What a step must improve: the order's worst row, relative to the wanted direction, plus the price of violations.

    merit(F) = max_i (A (F - z))_i / a_i + rho (|G|_+ + |H|)

For a line the direction is the line itself, ``z = through`` and ``a = A ray``: the losses then meet on the line of
their own accord, one that is below it may rise, and no price is needed unless the line misses the front. Otherwise
``z`` and ``a = A F / sum(A F)`` are those of a point of the run (the paper's adaptive domain), renewed only where every
row has fallen since, so that between renewals the merit is one fixed function and no cycle is possible.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ferero.subprogram.program import EPSILON, Array

__all__ = ["Mask", "Merit"]

CONSTRAINED_FLOOR = 1e-2  # a loss near zero must be able to rise where a constraint asks for it
Mask = NDArray[np.bool_]


@dataclass
class Merit:
    """The merit functions of P runs.

    Attributes:
        order: A, (P, k_f, m); rows of zeros are padding.
        origin: z, (P, m).
        rates: a, (P, k_f).
        rows: the constraints' rows divided by their typical size, inequalities first, (P, k_c, m).
        offsets: likewise, (P, k_c).
        equalities: how many of the last rows are equalities.
        price: rho, (P,).
        follows: which runs renew z and a as they go, (P,).
        lower: what to subtract from the losses before ``a`` is taken from them, (P, m).
        asked: the A of the preferences, which ``order`` may have opened or left rows of, (P, k, m).
    """

    order: Array
    origin: Array
    rates: Array
    rows: Array
    offsets: Array
    equalities: int
    price: Array
    follows: Mask
    lower: Array
    asked: Array
    _divisors: Array = field(init=False)
    _spans: Array = field(init=False)  # from the start to the bounds, (P, m)

    def __post_init__(self) -> None:
        self._spans = np.maximum(self.origin - self.lower, 0.0)
        self._divisors = self._floored()

    def _floored(self) -> Array:
        """The rates with a floor, so that a loss at rest may move by rounding; infinite for padding."""
        largest = self.rates.max(axis=-1, keepdims=True)
        floored = np.maximum(self.rates, np.sqrt(EPSILON) * largest)
        return np.where((self.order != 0).any(axis=-1), floored, np.inf)

    def _floor(self) -> Array:
        """The least share of the largest rate that a row gets, (P, 1); none without constraints (weak optima)."""
        return np.where((self.rows != 0).any(axis=(1, 2)), CONSTRAINED_FLOOR, 0.0)[:, None]

    def order_values(self, losses: Array) -> Array:
        """``A (F - z)``, (P, k_f)."""
        return np.asarray((self.order @ (losses - self.origin)[:, :, None])[:, :, 0])

    def worst(self, order_values: Array) -> Array:
        """``max_i (A (F - z))_i / a_i``, (P,)."""
        relative = order_values / self._divisors
        return np.asarray(np.where(np.isinf(self._divisors), -np.inf, relative).max(axis=-1))

    def constraint_values(self, losses: Array) -> Array:
        """G and H relative to their rows' typical size, (P, k_c)."""
        return np.asarray((self.rows @ losses[:, :, None])[:, :, 0] + self.offsets)

    def violation(self, values: Array) -> Array:
        """``[G]_+`` then ``|H|``, (P, k_c)."""
        inequalities = values.shape[1] - self.equalities
        return np.concatenate([np.maximum(values[:, :inequalities], 0.0), np.abs(values[:, inequalities:])], axis=1)

    def value(self, losses: Array) -> Array:
        """The merit, (P,)."""
        worst = self.worst(self.order_values(losses))
        if not self.price.any():
            return worst
        return np.asarray(worst + self.price * self.violation(self.constraint_values(losses)).sum(axis=-1))

    def magnitude(self, losses: Array) -> Array:
        """What the merit would be if nothing in it cancelled: its rounding is that of these numbers, (P,)."""
        terms = (np.abs(self.order) @ (np.abs(losses) + np.abs(self.origin))[:, :, None])[:, :, 0]
        size = (terms / self._divisors).max(axis=-1)
        if self.price.any():
            parts = (np.abs(self.rows) @ np.abs(losses)[:, :, None])[:, :, 0] + np.abs(self.offsets)
            size = size + self.price * parts.sum(axis=-1)
        return np.asarray(size)

    def renew(self, losses: Array) -> None:
        """Take z and a from the losses of those runs that follow and whose every row has fallen."""
        if not self.follows.any():
            return
        falls = self.follows & (self.order_values(losses) <= 0).all(axis=-1)
        if falls.any():
            self.origin = np.where(falls[:, None], losses, self.origin)
            self._lower_the_bounds(falls, losses)
            values = (self.order @ (losses - self.lower)[:, :, None])[:, :, 0]
            values = np.maximum(values, self._floor() * values.max(axis=-1, keepdims=True)) * (self.order != 0).any(
                axis=-1
            )
            scaled = values * (self.rates.sum(axis=-1) / np.maximum(values.sum(axis=-1), 1e-300))[:, None]
            usable = falls & (values >= 0).all(axis=-1) & (values.sum(axis=-1) > 0)
            self.rates = np.where(usable[:, None], scaled, self.rates)
            self._divisors = self._floored()

    def _lower_the_bounds(self, runs: Mask, losses: Array) -> None:
        """A loss of the masked runs that has gone below its bound is taken to be able to fall as far again."""
        sunk = runs[:, None] & (losses < self.lower)
        self.lower = np.where(sunk, losses - self._spans, self.lower)

    def hold(self, rows: Mask, losses: Array, room: Array) -> None:
        """Ask that the masked rows of the order, (P, k_f), do not rise above where they are: new inequalities.

        Args:
            rows: which.
            losses: where, (P, m).
            room: by how much each may rise all the same, (P, k_f).
        """
        for j in np.flatnonzero(rows.any(axis=0)):
            here = (self.order[:, j] * losses).sum(axis=-1) + room[:, j]
            size = np.where(here != 0, np.abs(here), 1.0)
            row = np.where(rows[:, j, None], self.order[:, j] / size[:, None], 0.0)
            self.rows = np.concatenate([row[:, None], self.rows], axis=1)
            self.offsets = np.concatenate([np.where(rows[:, j], -here / size, -1.0)[:, None], self.offsets], axis=1)

    def drop(self, rows: Mask) -> None:
        """Take the masked rows, (P, k_f), out of the order."""
        self.order = np.where(rows[:, :, None], 0.0, self.order)
        self.rates = np.where(rows, 0.0, self.rates)
        self._divisors = self._floored()

    def keep(self, runs: Mask) -> None:
        """Forget the runs that are not masked."""
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(self, name, value[runs])
