"""Losses and their gradients at many points, for functions of tensors or arrays.

The optimizer works in float64 numpy, (P, n) points and (P, m) losses. Here is the only place that knows whether the
function takes tensors or arrays, can be vmapped, or brings its own Jacobian.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ferero._arrays import Array
from ferero.errors import InputError

__all__ = ["Evaluator", "Function", "Indices", "Point", "make_evaluator"]

Point = Any  # a torch tensor or a numpy array: what x0 is, fun gets
Function = Callable[[Point], Point]
Indices = NDArray[np.int64]


class Evaluator(Protocol):
    """Losses at P points, then the Jacobians at some of them."""

    m: int  # known after the first call of losses
    gradient_cost: int  # calls of fun that one Jacobian takes

    def losses(self, points: Array) -> Array:
        """F (P, m) at points (P, n)."""
        ...

    def jacobians(self, runs: Indices) -> Array:
        """gradF^T (R, m, n) at those of the last points whose indices are given, (R,)."""
        ...

    def restore(self, point: Array) -> Point:
        """A point as the user holds it: x0's type, dtype, device and shape."""
        ...


def make_evaluator(fun: Function, x0: Point, jac: Function | None, runs: int) -> tuple[Evaluator, Array]:
    """The evaluator for this x0 and the starting points, (P, n).

    Args:
        fun: ``fun(theta) -> (m,)``.
        x0: one start for all runs, or one per run in its first dimension if ``runs > 1`` and it has one more.
        jac: ``jac(theta) -> (m, n)``, or None.
        runs: P.
    """
    if not callable(fun):
        raise InputError(f"fun: expected a function of theta that returns m losses, found {type(fun).__name__}.")
    first, starts = _starts(x0, runs)
    if isinstance(first, Tensor):
        single = _TorchEvaluator(fun, first, jac)
        if runs > 1 and jac is None and (batched := _vmapped(single, fun, first, starts)) is not None:
            return batched, starts
        return (single if runs == 1 else _Loop(single)), starts
    numpy_single = _NumpyEvaluator(fun, first, jac)
    return (numpy_single if runs == 1 else _Loop(numpy_single)), starts


def _starts(x0: Point, runs: int) -> tuple[Point, Array]:
    """One start in the user's form, and all of them flat, (P, n)."""
    if not isinstance(x0, Tensor):
        x0 = np.asarray(x0)
        if x0.dtype.kind not in "fiu":
            raise InputError(f"x0: expected numbers, found dtype {x0.dtype}.")
        x0 = x0.astype(np.float64) if x0.dtype.kind != "f" else x0
    elif not x0.is_floating_point():
        raise InputError(f"x0: expected a floating point tensor, found {x0.dtype}.")
    numbers = x0.detach().cpu().double().numpy() if isinstance(x0, Tensor) else np.asarray(x0, dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise InputError("x0: expected finite numbers, found NaN or infinity.")
    if numbers.size == 0:
        raise InputError("x0: expected at least one parameter, found none.")
    many = runs > 1 and x0.ndim > 1 and x0.shape[0] == runs
    if many:
        return x0[0], numbers.reshape(runs, -1).copy()
    return x0, np.repeat(numbers.reshape(1, -1), runs, axis=0)


def _called(fun: Function, point: Point, kind: str, other: str) -> Point:
    """``fun(point)``; what it raises says which kind of point it was given."""
    try:
        return fun(point)
    except (AttributeError, TypeError, RuntimeError) as error:
        error.add_note(f"fun was called with {kind}, as x0 is; if it works on {other}, pass x0 as one.")
        raise


def _check_losses(losses: Point, kind: type) -> None:
    if not issubclass(type(losses), kind):
        raise InputError(
            f"fun(x): expected one {kind.__name__} of m losses, as x0 is one, found {type(losses).__name__}; stack "
            "them, for example torch.stack([f1, f2])."
        )
    if losses.ndim != 1 or losses.shape[0] < 1:
        raise InputError(f"fun(x): expected a vector of m losses, shape (m,), found shape {tuple(losses.shape)}.")


def _checked_jacobian(found: Array, m: int, shape: tuple[int, ...]) -> Array:
    """A user's Jacobian, (m, n) or (m, *x.shape), as (1, m, n)."""
    n = int(np.prod(shape))
    if found.shape not in ((m, n), (m, *shape)):
        raise InputError(f"jac(x): expected shape ({m}, {n}), a row for each loss, found {found.shape}.")
    return found.reshape(1, m, n)


class _TorchEvaluator:
    """One point at a time; m backward passes through one graph."""

    def __init__(self, fun: Function, like: Tensor, jac: Function | None) -> None:
        self._fun, self._jac = fun, jac
        self._like = like.detach()
        self.gradient_cost = 0

    def restore(self, point: Array) -> Tensor:
        return torch.from_numpy(point.copy()).to(self._like.device, self._like.dtype).view(self._like.shape)

    def losses(self, points: Array) -> Array:
        self._point = self.restore(points[0])
        with torch.enable_grad():
            point = self._point.requires_grad_() if self._jac is None else self._point
            self._values = _called(self._fun, point, "a tensor", "a numpy array")
        _check_losses(self._values, Tensor)
        self.m = len(self._values)
        return np.asarray(self._values.detach().cpu().double().numpy()[None])

    def jacobians(self, runs: Indices) -> Array:
        del runs
        if self._jac is not None:
            rows = torch.as_tensor(self._jac(self._point.detach())).detach().cpu().double().numpy()
            return _checked_jacobian(rows, self.m, tuple(self._like.shape))
        if not self._values.requires_grad:
            raise InputError("fun: its losses carry no gradient; compute them from theta with torch, or give jac=.")
        out = np.zeros((1, self.m, self._point.numel()))
        for i, one in enumerate(torch.eye(self.m, dtype=self._values.dtype, device=self._values.device)):
            last = i + 1 == self.m
            (row,) = torch.autograd.grad(self._values, self._point, one, retain_graph=not last, allow_unused=True)
            if row is not None:
                out[0, i] = row.reshape(-1).cpu().double().numpy()
        return out


class _VmappedEvaluator:
    """All points in one graph; m backward passes for all of them, since no loss sees another run's point."""

    def __init__(self, single: _TorchEvaluator, fun: Function, like: Tensor) -> None:
        self.restore = single.restore
        self.gradient_cost = 0
        self._like = like.detach()
        self._fun = torch.func.vmap(fun, randomness="different")

    def losses(self, points: Array) -> Array:
        shaped = torch.from_numpy(points.copy()).to(self._like).reshape(-1, *self._like.shape)
        with torch.enable_grad():
            self._points = shaped.requires_grad_()
            self._values = self._fun(self._points)
        self.m = self._values.shape[1]
        return np.asarray(self._values.detach().cpu().double().numpy())

    def jacobians(self, runs: Indices) -> Array:
        rows = [
            torch.autograd.grad(self._values[:, i].sum(), self._points, retain_graph=i + 1 < self.m)[0]
            for i in range(self.m)
        ]
        stacked = torch.stack(rows, dim=1).flatten(start_dim=2)
        return np.asarray(stacked.cpu().double().numpy()[runs])


def _vmapped(single: _TorchEvaluator, fun: Function, like: Tensor, starts: Array) -> _VmappedEvaluator | None:
    """The vmapped evaluator if vmap takes this function and gives what single calls give, else None."""
    batched = _VmappedEvaluator(single, fun, like)
    two = starts[:2]
    try:
        values = batched.losses(two)
        gradients = batched.jacobians(np.arange(2))
    except (
        RuntimeError,
        ValueError,
        TypeError,
    ):  # vmap's refusals: data-dependent control flow, .item(), numpy inside
        return None
    for i in range(2):
        expected = single.losses(two[i : i + 1])[0]
        slopes = single.jacobians(np.arange(1))[0]
        if not (_agree(values[i], expected) and _agree(gradients[i], slopes)):
            return None
    return batched


def _agree(found: Array, expected: Array) -> bool:
    return bool(np.allclose(found, expected, rtol=1e-4, atol=1e-6 * float(np.abs(expected).max(initial=0.0))))


class _NumpyEvaluator:
    """One point at a time; the user's Jacobian, or central differences."""

    def __init__(self, fun: Function, like: Point, jac: Function | None) -> None:
        self._fun, self._jac = fun, jac
        self._like = like
        self.gradient_cost = 0 if jac is not None else 2 * like.size

    def restore(self, point: Array) -> Point:
        return point.astype(self._like.dtype).reshape(self._like.shape)

    def losses(self, points: Array) -> Array:
        self._point = points[0]
        found = _called(self._fun, self.restore(self._point), "a numpy array", "a tensor")
        try:
            values = np.asarray(found, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"fun(x): expected m numbers, found {type(found).__name__}; return an array or a list of them, in the "
                "order of the names."
            ) from error
        _check_losses(values, np.ndarray)
        self.m = len(values)
        return values[None]

    def jacobians(self, runs: Indices) -> Array:
        del runs
        if self._jac is not None:
            found = np.asarray(self._jac(self.restore(self._point)), dtype=np.float64)
            return _checked_jacobian(found, self.m, self._like.shape)
        return self._differences()[None]

    def _differences(self) -> Array:
        """``(f(x + h e_j) - f(x - h e_j)) / 2h`` with h the cube root of the precision times the coordinate's size.

        The start's size counts too, or a solution at zero would be approached with ever smaller differences.
        """
        x, start = self._point, np.abs(np.asarray(self._like, dtype=np.float64).reshape(-1))
        typical = np.maximum(np.maximum(np.abs(x), start), max(float(np.abs(x).mean()), float(start.mean())) or 1.0)
        widths = np.cbrt(np.finfo(self._like.dtype).eps) * typical
        columns = []
        for j, h in enumerate(widths):
            ahead, behind = x.copy(), x.copy()
            ahead[j] += h
            behind[j] -= h
            above, below = self.restore(ahead), self.restore(behind)
            rise = np.asarray(self._fun(above), dtype=np.float64) - np.asarray(self._fun(below), dtype=np.float64)
            columns.append(rise / float(above.flat[j] - below.flat[j]))
        return np.stack(columns, axis=1)


class _Loop:
    """A single evaluator called once per point; each copy keeps its own graph."""

    def __init__(self, single: _TorchEvaluator | _NumpyEvaluator) -> None:
        self._single = single
        self.restore = single.restore
        self.gradient_cost = single.gradient_cost

    def losses(self, points: Array) -> Array:
        self._copies = [copy.copy(self._single) for _ in points]
        values = [one.losses(point[None]) for one, point in zip(self._copies, points, strict=True)]
        self.m = self._copies[0].m
        return np.concatenate(values)

    def jacobians(self, runs: Indices) -> Array:
        return np.concatenate([self._copies[i].jacobians(runs) for i in runs])
