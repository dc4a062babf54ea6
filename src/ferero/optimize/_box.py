"""Bounds on the parameters, ``lower <= x <= upper``, as SciPy writes them, and the units in which the search runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray
from torch import Tensor

from ferero._arrays import Array, ArrayLike, Mask, to_float64
from ferero.errors import InputError

__all__ = ["Bounds", "Box", "choose_scale", "read_bounds", "read_scale"]

IDLE = 1e-12  # of the largest share of a gradient: parameters with less are at rest, and keep their unit
UNLIKE = 1e3  # shares of gradients that differ by more than this, times n, are made alike
STEEP = 30.0  # times the typical slope over the box: a width with more is no unit

Bounds: TypeAlias = "scipy.optimize.Bounds | Sequence[tuple[float | None, float | None]] | ArrayLike"


@dataclass(frozen=True, eq=False)
class Box:
    """``lower <= x <= upper``; infinite where a side is open.

    Attributes:
        lower: (n,).
        upper: (n,).
    """

    lower: Array
    upper: Array

    @cached_property
    def is_fixed(self) -> Mask:
        """Which parameters have one bound on both sides, (n,)."""
        return np.asarray(self.lower == self.upper)

    def clip(self, points: Array) -> Array:
        """The nearest points of the box, (..., n)."""
        return np.minimum(np.maximum(points, self.lower), self.upper)

    def in_units(self, scale: Array) -> Box:
        """The same box for ``x / scale``; exact for powers of two."""
        return Box(self.lower / scale, self.upper / scale)

    def in_dtype(self, dtype: Any) -> Box:
        """The largest box inside this one whose sides the dtype can hold."""
        low, high = self.lower.astype(dtype), self.upper.astype(dtype)
        up, down = np.asarray(np.inf, dtype=dtype), np.asarray(-np.inf, dtype=dtype)
        low = np.where(low.astype(np.float64) < self.lower, np.nextafter(low, up), low)
        high = np.where(high.astype(np.float64) > self.upper, np.nextafter(high, down), high)
        return Box(low.astype(np.float64), np.maximum(high, low).astype(np.float64))

    def widths(self) -> Array:
        """``upper - lower``, (n,); infinite where a side is open."""
        return self.upper - self.lower

    def sides(self, points: Array) -> NDArray[np.int8]:
        """-1 at the lower bound, 1 at the upper, 0 between, 2 where the two are one, for points (..., n)."""
        at = np.where(points <= self.lower, -1, np.where(points >= self.upper, 1, 0))
        return np.where(self.lower == self.upper, 2, at).astype(np.int8)


def read_bounds(bounds: Bounds | None, size: int) -> Box | None:
    """The box of n parameters; None where nothing is bounded.

    Args:
        bounds: a SciPy ``Bounds``, n pairs with None (or an infinity) for an open side, or an array (n, 2).
        size: n.

    Raises:
        InputError: for other kinds or sizes, NaN, or bounds that cross.
    """
    if bounds is None:
        return None
    if isinstance(bounds, scipy.optimize.Bounds):
        low, high = (_side(side, name, size) for side, name in ((bounds.lb, "lb"), (bounds.ub, "ub")))
    else:
        low, high = _pairs(bounds, size)
    for values, name in ((low, "lower"), (high, "upper")):
        if np.isnan(values).any():
            raise InputError(
                f"bounds: expected numbers, found NaN as the {name} bound of parameter {int(np.isnan(values).argmax())}"
                "; an open side is None or an infinity."
            )
    crossed = (low > high) | (low == np.inf) | (high == -np.inf)
    if crossed.any():
        j = int(crossed.argmax())
        raise InputError(
            f"bounds: expected lower <= upper, found {low[j]:g} and {high[j]:g} for parameter {j}; swap or widen them."
        )
    return None if np.isinf(low).all() and np.isinf(high).all() else Box(low, high)


def _side(values: Any, name: str, size: int) -> Array:
    found = to_float64(values, f"bounds.{name}").numpy().reshape(-1)
    if found.size not in (1, size):
        raise InputError(f"bounds: expected {name} of one number or of {size}, one a parameter, found {found.size}.")
    return np.broadcast_to(found, (size,)).copy()


def _pairs(bounds: Any, size: int) -> tuple[Array, Array]:
    advice = "expected a scipy.optimize.Bounds or a pair (lower, upper) for each parameter, None for an open side"
    if isinstance(bounds, Tensor):
        bounds = bounds.detach().cpu().tolist()
    try:
        rows = [tuple(pair) for pair in bounds]
    except TypeError:
        raise InputError(f"bounds: {advice}, found {bounds!r:.60}.") from None
    if len(rows) != size:
        raise InputError(f"bounds: expected {size} pairs, one a parameter, found {len(rows)}.")
    low, high = np.full(size, -np.inf), np.full(size, np.inf)
    for j, pair in enumerate(rows):
        if len(pair) != 2:
            raise InputError(f"bounds: {advice}, found {pair!r:.60} for parameter {j}.")
        for side, value in zip((low, high), pair, strict=True):
            try:
                side[j] = side[j] if value is None else float(value)
            except (TypeError, ValueError):
                raise InputError(f"bounds: {advice}, found {value!r:.60} for parameter {j}.") from None
    return low, high


def read_scale(x_scale: ArrayLike | None, size: int) -> Array | None:
    """The typical size of each parameter, (n,), rounded to powers of two so that scaling is exact.

    Raises:
        InputError: for other sizes, or numbers that are not positive.
    """
    if x_scale is None:
        return None
    found = to_float64(x_scale, "x_scale").numpy().reshape(-1)
    if found.size not in (1, size):
        raise InputError(f"x_scale: expected one number or {size}, one a parameter, found {found.size}.")
    if not (np.isfinite(found).all() and (found > 0).all()):
        raise InputError("x_scale: expected positive sizes, found one that is not; give the size of a typical change.")
    return power_of_two(np.broadcast_to(found, (size,)))


def power_of_two(sizes: Array) -> Array:
    """The nearest powers of two, (n,)."""
    return np.asarray(np.exp2(np.round(np.log2(sizes))))


def choose_scale(box: Box | None, given: Array | None, points: Array, jacobian: Array) -> Array:
    """The unit of each parameter in which the search runs, powers of two, (n,).

    As given. Otherwise the width of its bounds, less where its slope over that width is far above the others'; without
    bounds 1, unless shares of the gradients differ by more than a thousand n: then what makes them alike.

    Args:
        box: the bounds.
        given: `x_scale`, or None.
        points: starts, (P, n).
        jacobian: there, (P, m, n).
    """
    if given is not None:
        return given
    with np.errstate(invalid="ignore", over="ignore"):
        norms = np.sqrt(np.einsum("pmn,pmn->pm", jacobian, jacobian))
        share = (np.abs(jacobian) / np.where(norms > 0, norms, np.inf)[:, :, None]).max(axis=(0, 1))
    share = share if np.isfinite(share).all() else np.nan_to_num(share)
    matters = share > IDLE * share.max(initial=0.0)
    if not matters.any():
        return np.ones(len(share))
    if box is None:
        if share[matters].max() <= UNLIKE * len(share) * share[matters].min():  # one of many may be small by chance
            return np.ones(len(share))
        return power_of_two(np.where(matters, share.max() / np.where(matters, share, 1.0), 1.0))
    size = np.abs(points).max(axis=0)
    widths = box.widths()
    unit = np.where(np.isfinite(widths) & (widths > 0), widths, np.where(size > 0, size, 1.0))
    slope = share * unit
    typical = float(np.median(slope[matters]))
    return power_of_two(unit * np.minimum(1.0, STEEP * typical / np.where(slope > 0, slope, 1e-300)))
