"""Evenly spread directions in the positive orthant, one for each preference of a front."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import scipy
import torch
from torch import Tensor

from ferero.errors import InputError

__all__ = ["spread"]

_Array = npt.NDArray[np.float64]

_EDGE = math.pi / 20  # the angle that rays keep from the axes when there are two losses
_ROUNDS = 200
_MANY = 250  # rays from which on only near ones repel each other: the others' forces fall as the fourth power
_NEAR = 16  # how many of these, and
_KEPT = 10  # for how many rounds


def spread(m: int, n: int, low: float | None = None, high: float | None = None) -> Tensor:
    """Exactly n unit vectors, evenly spread over the positive directions; the same ones in every call.

    For m = 2 they are (cos t, sin t) at equal angles t from `low` to `high` (the middle for n = 1). For
    m >= 3 they start as a low-discrepancy sequence and repel each other until their smallest distance is
    large, inside the region where every component is at least sin(low).

    Args:
        m: the number of losses.
        n: the number of rays.
        low: the smallest angle, in radians. For m = 2 from the first axis, pi/20 by default; for m >= 3 from
            any face of the orthant, with sin(low) = sin(pi/20) sqrt(2/m) by default; None for m = 1.
        high: the largest angle from the first axis for m = 2, 9 pi/20 by default; None for any other m.

    Returns:
        Unit rows (n, m), float64, all components positive.

    Raises:
        InputError: for sizes below one, angles that leave no room inside the orthant, or angles that mean nothing.

    Example:
        >>> spread(2, 1)
        tensor([[0.7071, 0.7071]], dtype=torch.float64)
    """
    _check_count(m, "m")
    _check_count(n, "n")
    if m == 1:
        for name, angle in (("low", low), ("high", high)):
            if angle is not None:
                raise InputError(f"{name}: expected None for m = 1, where there is one direction, found {angle}")
        return torch.ones(n, 1, dtype=torch.float64)
    if m == 2:
        return _equal_angles(n, _EDGE if low is None else low, math.pi / 2 - _EDGE if high is None else high)
    if high is not None:
        raise InputError(f"high: expected None for m >= 3, found {high}; use low, the angle from every face")
    floor = math.sin(_EDGE) * math.sqrt(2 / m) if low is None else _floor(low, m)
    return torch.from_numpy(_repelled(_initial(m, n, floor), floor))


def _check_count(value: object, argument: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{argument}: expected a positive integer, found {value!r}")


def _equal_angles(n: int, low: float, high: float) -> Tensor:
    if not 0 < low < high < math.pi / 2:
        raise InputError(f"low, high: expected 0 < low < high < pi/2, found {low:g} and {high:g}")
    angles = torch.linspace(low, high, n, dtype=torch.float64)
    if n == 1:
        angles = angles.new_tensor([(low + high) / 2])
    return torch.stack([angles.cos(), angles.sin()], dim=1)


def _floor(low: float, m: int) -> float:
    centre = math.asin(1 / math.sqrt(m))
    if not 0 < low < centre:
        raise InputError(
            f"low: expected 0 < low < {centre:.4g} for m = {m} (the angle of the diagonal from every face), "
            f"found {low:g}"
        )
    return math.sin(low)


def _initial(m: int, n: int, floor: float) -> _Array:
    """A Kronecker sequence in the cube, carried to the sphere's positive part by normal quantiles.

    `x_i -> sqrt(floor^2 + (1 - m floor^2) x_i^2)` then takes it one to one into the region above the floor.
    """
    ratio = _generalized_golden_ratio(m)
    steps = ratio ** -np.arange(1.0, m + 1)
    cube = (0.5 + np.arange(n)[:, None] * steps) % 1.0  # 0.5 first: the diagonal, and the answer for n = 1
    points = np.asarray(scipy.special.ndtri(0.5 + 0.5 * np.clip(cube, 1e-6, 1 - 1e-6)), dtype=np.float64)
    squares = points**2 / (points**2).sum(axis=1, keepdims=True)
    return np.asarray(np.sqrt(floor**2 + (1 - m * floor**2) * squares), dtype=np.float64)


def _generalized_golden_ratio(m: int) -> float:
    """The positive root of x^(m+1) = x + 1, by its contraction."""
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (m + 1))
    return root


def _repelled(points: _Array, floor: float) -> _Array:
    """Move points along their Riesz forces `sum_j (x_i - x_j) / |x_i - x_j|^(s + 2)`, in shrinking steps.

    A step is a share of each point's distance to its nearest neighbour, so that no scale needs choosing. The
    sums are einsum's and not BLAS's: the same bits whatever the number of threads, and no waiting for them.
    """
    if len(points) == 1:
        return points
    if len(points) > _MANY:
        return _repelled_by_near(points, floor)
    power = points.shape[1] + 1.0
    for round_ in range(_ROUNDS):
        cosines = np.einsum("ik,jk->ij", points, points)
        distances = np.sqrt(np.maximum(2 - 2 * cosines, 0))
        np.fill_diagonal(distances, np.inf)
        nearest = np.maximum(distances.min(axis=1, keepdims=True), 1e-9)
        pull = (nearest / np.maximum(distances, 1e-9)) ** (power + 2)
        force = points * pull.sum(axis=1, keepdims=True) - np.einsum("ij,jk->ik", pull, points)
        force -= (force * points).sum(axis=1, keepdims=True) * points
        length = np.linalg.norm(force, axis=1, keepdims=True)
        step = 0.3 * (1 - round_ / _ROUNDS) * nearest * force / np.maximum(length, nearest)
        points = _onto_region(points + step, floor)
    return points


def _repelled_by_near(points: _Array, floor: float) -> _Array:
    """The same with the nearest neighbours alone, in time that grows with their number."""
    for round_ in range(_ROUNDS):
        if round_ % _KEPT == 0:
            near = min(max(_NEAR, 2 * points.shape[1]), len(points) - 1)
            found = np.asarray(scipy.spatial.cKDTree(points).query(points, k=near + 1)[1])
            places = np.ascontiguousarray(found[:, 1:].T)
        by_axis = np.ascontiguousarray(points.T)
        apart = by_axis[:, None, :] - by_axis[:, places]  # (m, near, n)
        squares = np.maximum((apart * apart).sum(axis=0), 1e-18)
        nearest = squares.min(axis=0)
        ratio = nearest / squares
        pull = _power(ratio, (points.shape[1] + 3) // 2) * (np.sqrt(ratio) if points.shape[1] % 2 == 0 else 1.0)
        force = (pull * apart).sum(axis=1)
        force -= (force * by_axis).sum(axis=0) * by_axis
        length, nearest = np.sqrt((force * force).sum(axis=0)), np.sqrt(nearest)
        step = 0.3 * (1 - round_ / _ROUNDS) * nearest * force / np.maximum(length, nearest)
        points = _onto_region((by_axis + step).T, floor)
    return points


def _power(x: _Array, n: int) -> _Array:
    """``x^n`` for n >= 1 by products, which are many times faster than powers."""
    found = x
    for _ in range(n - 1):
        found = found * x
    return found


def _onto_region(points: _Array, floor: float) -> _Array:
    """Unit rows with components of at least `floor`: what is below is raised, the rest rescaled."""
    at_floor = np.zeros(points.shape, dtype=np.bool_)
    for _ in range(points.shape[1]):
        free = np.where(at_floor, 0.0, points)
        rest = 1 - at_floor.sum(axis=1, keepdims=True) * floor**2
        scaled = free * np.sqrt(rest) / np.linalg.norm(free, axis=1, keepdims=True)
        below = ~at_floor & (scaled < floor)
        if not below.any():
            break
        at_floor |= below
    return np.where(at_floor, floor, scaled)
