"""Losses and their gradients at many points, for functions of tensors or arrays.

The optimizer works in float64 numpy, (P, n) points and (P, m) losses. Here is the only place that knows whether the
function takes tensors or arrays, can be vmapped, or brings its own Jacobian. Every point that a function gets lies in
the box, in its own dtype. What a function raises at a later point than its first makes the losses there NaN, so that
the search steps back.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.graph import GradientEdge

from ferero._arrays import Array
from ferero.errors import FereroError, InputError
from ferero.optimize._box import Box

__all__ = ["Evaluator", "Function", "Indices", "Point", "UserFunction", "make_evaluator", "read_starts"]

Point = Any  # a torch tensor or a numpy array: what x0 is, fun gets
Function = Callable[[Point], Point]
Indices = NDArray[np.int64]
EPSILON = float(np.finfo(np.float64).eps)


class Evaluator(Protocol):
    """Losses at P points, then the Jacobians at some of them."""

    gradient_cost: int  # calls of fun that one Jacobian takes

    @property
    def m(self) -> int:
        """How many losses there are, known after the first call."""
        ...

    @property
    def precision(self) -> float:
        """The relative rounding of the losses."""
        ...

    @property
    def failures(self) -> list[str]:
        """What fun raised after its first call."""
        ...

    def losses(self, points: Array) -> Array:
        """F (P, m) at points (P, n)."""
        ...

    def jacobians(self, runs: Indices) -> Array:
        """gradF^T (R, m, n) at those of the last points whose indices are given, (R,)."""
        ...

    def restore(self, point: Array) -> Point:
        """A point as the user holds it: x0's type, dtype, device and shape."""
        ...


@dataclass
class UserFunction:
    """How a function is called, and what came of it.

    Attributes:
        fun: ``fun(x) -> (m,)``.
        jac: ``jac(x) -> (m, n)``, or None.
        box: where it may be called; None everywhere.
        name: how messages call it.
        values: how messages call what it returns.
        diff_step: of numpy differences, relative to each parameter's size, one number or (n,); None by the precision.
        noise: the size of the errors in its values, one number or (m,).
        m: how many values it returned first; 0 before.
        precision: their relative rounding.
        failures: what it raised after its first call.
    """

    fun: Function
    jac: Function | None = None
    box: Box | None = None
    name: str = "fun"
    values: str = "losses"
    diff_step: Array | None = None
    noise: Array | None = None
    m: int = 0
    precision: float = EPSILON
    failures: list[str] = field(default_factory=list)

    def evaluate(self, point: Point, kind: str, other: str) -> Point | None:
        """``fun(point)``; None where it raises after its first call."""
        try:
            return self.fun(point)
        except Exception as error:
            cause = error.__cause__ if isinstance(error, FereroError) else error
            if self.m and isinstance(cause, (ArithmeticError, ValueError, np.linalg.LinAlgError, RuntimeError)):
                self.failures.append(f"{type(cause).__name__}: {cause}")
                return None
            if isinstance(error, (AttributeError, TypeError, RuntimeError)) and not isinstance(error, FereroError):
                note = f"{self.name} was called with {kind}, as x0 is; if it works on {other}, pass x0 as one."
                error.add_note(note)
            raise

    def count(self, values: Point) -> None:
        """Take the number of values from the first call.

        Raises:
            InputError: where a later call has another.
        """
        if self.m and len(values) != self.m:
            raise InputError(
                f"{self.name}(x): expected {self.m} {self.values}, as at its first call, found {len(values)}; return "
                "as many at every point."
            )
        self.m = len(values)


def make_evaluator(
    fun: Function, x0: Point, jac: Function | None, runs: int, call: UserFunction | None = None
) -> tuple[Evaluator, Array]:
    """The evaluator for this x0 and the starting points, (P, n).

    Args:
        fun: ``fun(theta) -> (m,)``.
        x0: one start for all runs, or one per run in its first dimension if ``runs > 1`` and it has one more.
        jac: ``jac(theta) -> (m, n)``, or None.
        runs: P.
        call: the function with what else is known of it; by default fun and jac alone.
    """
    if not callable(fun):
        raise InputError(f"fun: expected a function of theta that returns m losses, found {type(fun).__name__}.")
    call = UserFunction(fun, jac) if call is None else call
    first, starts = read_starts(x0, runs)
    if call.box is not None:
        starts = call.box.clip(starts)
    if isinstance(first, Tensor):
        single = _TorchEvaluator(call, first)
        if runs > 1 and jac is None and (batched := _vmapped(single, call, first, starts)) is not None:
            return batched, starts
        return (single if runs == 1 else _Loop(single)), starts
    numpy_single = _NumpyEvaluator(call, first)
    return (numpy_single if runs == 1 else _Loop(numpy_single)), starts


def read_starts(x0: Point, runs: int) -> tuple[Point, Array]:
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


def _check_values(values: Point, kind: type, call: UserFunction) -> None:
    if not issubclass(type(values), kind):
        raise InputError(
            f"{call.name}(x): expected one {kind.__name__} of m {call.values}, as x0 is one, found "
            f"{type(values).__name__}; stack them, for example torch.stack([f1, f2])."
        )
    if values.ndim != 1 or values.shape[0] < 1:
        raise InputError(
            f"{call.name}(x): expected a vector of m {call.values}, shape (m,), found shape {tuple(values.shape)}."
        )
    call.count(values)


def _checked_jacobian(found: Array, call: UserFunction, shape: tuple[int, ...]) -> Array:
    """A user's Jacobian, (m, n) or (m, *x.shape), as (1, m, n); one constraint alone may leave m out."""
    m, n = call.m, math.prod(shape)
    is_single = m == 1 and call.values != "losses" and found.shape in ((n,), shape)
    if found.shape not in ((m, n), (m, *shape)) and not is_single:
        name = "jac(x)" if call.values == "losses" else f"{call.name}, jac(x)"
        row = call.values.removesuffix("s") if call.values != "losses" else "loss"
        raise InputError(f"{name}: expected shape ({m}, {n}), a row for each {row}, found {found.shape}.")
    return found.reshape(1, m, n)


class _OfFunction:
    """What all evaluators of one function say about its call."""

    _call: UserFunction

    @property
    def m(self) -> int:
        """The number of losses."""
        return self._call.m

    @property
    def precision(self) -> float:
        """The relative rounding of the losses."""
        return self._call.precision

    @property
    def failures(self) -> list[str]:
        """What fun raised after its first call."""
        return self._call.failures


class _TorchEvaluator(_OfFunction):
    """One point at a time; m backward passes through one graph."""

    def __init__(self, call: UserFunction, like: Tensor) -> None:
        self._call = call
        self._like = like.detach()
        self._box = _box_of(call, torch.empty(0, dtype=like.dtype))
        self._sides: tuple[Tensor, ...] = ()
        if self._box is not None:
            self._sides = tuple(torch.from_numpy(side).to(self._like) for side in (self._box.lower, self._box.upper))
        self.gradient_cost = 0

    def restore(self, point: Array) -> Tensor:
        exact = torch.from_numpy(point.copy()).to(self._like)
        return (exact.clamp(*self._sides) if self._sides else exact).view(self._like.shape)

    def losses(self, points: Array) -> Array:
        self._point = self.restore(points[0])
        with torch.enable_grad():
            point = self._point.requires_grad_() if self._call.jac is None else self._point
            found = self._call.evaluate(point, "a tensor", "a numpy array")
        if found is None:
            return np.full((1, self.m), np.nan)
        if self._call.values != "losses" and isinstance(found, Tensor):
            found = found.reshape(-1)
        _check_values(found, Tensor, self._call)
        self._values: Tensor = found
        self._call.precision = _precision(self._values)
        return _to_array(found.detach())[None]

    def jacobians(self, runs: Indices) -> Array:
        del runs
        if self._call.jac is not None:
            rows = torch.as_tensor(self._call.jac(self._point.detach())).detach().cpu().double().numpy()
            return _checked_jacobian(rows, self._call, tuple(self._like.shape))
        if not self._values.requires_grad:
            raise InputError(
                f"{self._call.name}: its {self._call.values} carry no gradient; compute them from theta with torch, or "
                "give jac=."
            )
        out = np.zeros((1, self.m, self._point.numel()))
        for i, (output, one) in enumerate(_outputs(self._values)):
            last = i + 1 == self.m
            (row,) = torch.autograd.grad(output, self._point, one, retain_graph=not last, allow_unused=True)
            if row is not None:
                out[0, i] = _to_array(row).reshape(-1)
        return out


def _outputs(values: Tensor) -> list[tuple[Tensor | GradientEdge, Tensor]]:
    """What to differentiate for each of m values, (m,), and from which gradient.

    Values stacked from m numbers are differentiated one by one: going back from the stack would pass through the graphs
    of all of them each time.
    """
    last = values.grad_fn
    if last is not None and last.name() == "StackBackward0":
        one = torch.ones((), dtype=values.dtype, device=values.device)
        edges = [GradientEdge(node, number) for node, number in last.next_functions if node is not None]
        if len(edges) == len(values):  # each depends on a tensor with a gradient
            return [(edge, one) for edge in edges]
    return [(values, one) for one in torch.eye(len(values), dtype=values.dtype, device=values.device)]


def _to_array(values: Tensor) -> Array:
    """The numbers of a tensor without a graph, in float64."""
    is_plain = values.dtype == torch.float64 and values.device.type == "cpu"
    return np.asarray((values if is_plain else values.cpu().double()).numpy())


def _precision(values: Tensor) -> float:
    return EPSILON if values.dtype == torch.float64 else max(float(torch.finfo(values.dtype).eps), EPSILON)


def _box_of(call: UserFunction, like: Tensor | Any) -> Box | None:
    """The call's box with sides that the dtype can hold."""
    if call.box is None:
        return None
    if isinstance(like, Tensor):
        if like.dtype not in (torch.float32, torch.float64):
            return call.box
        return call.box.in_dtype(np.float32 if like.dtype == torch.float32 else np.float64)
    return call.box.in_dtype(like.dtype)


class _VmappedEvaluator(_OfFunction):
    """All points in one graph; m backward passes for all of them, since no loss sees another run's point."""

    def __init__(self, single: _TorchEvaluator, call: UserFunction, like: Tensor) -> None:
        self.restore = single.restore
        self.gradient_cost = 0
        self._call, self._box = call, single._box
        self._like = like.detach()
        self._one_by_one = _Loop(single)
        self._fun = torch.func.vmap(self._function, randomness="different")

    def _function(self, x: Tensor) -> Tensor:
        found: Tensor = self._call.fun(x)
        return found.reshape(-1) if self._call.values != "losses" else found

    def losses(self, points: Array) -> Array:
        clipped = points.copy() if self._box is None else self._box.clip(points)
        shaped = torch.from_numpy(clipped).to(self._like).reshape(-1, *self._like.shape)
        try:
            with torch.enable_grad():
                self._points = shaped.requires_grad_()
                self._values: Tensor | None = self._fun(self._points)
        except (ArithmeticError, ValueError, RuntimeError):
            if not self.m:
                raise
            self._values = None  # one of the points is at fault
            return self._one_by_one.losses(points)
        assert self._values is not None
        self._call.count(self._values[0])
        self._call.precision = _precision(self._values)
        return np.asarray(self._values.detach().cpu().double().numpy())

    def jacobians(self, runs: Indices) -> Array:
        if self._values is None:
            return self._one_by_one.jacobians(runs)
        rows = [
            torch.autograd.grad(self._values[:, i].sum(), self._points, retain_graph=i + 1 < self.m)[0]
            for i in range(self.m)
        ]
        stacked = torch.stack(rows, dim=1).flatten(start_dim=2)
        return np.asarray(stacked.cpu().double().numpy()[runs])


def _vmapped(single: _TorchEvaluator, call: UserFunction, like: Tensor, starts: Array) -> _VmappedEvaluator | None:
    """The vmapped evaluator if vmap takes this function and gives what single calls give, else None."""
    batched = _VmappedEvaluator(single, call, like)
    two = starts[:2]
    try:
        values = batched.losses(two)
        gradients = batched.jacobians(np.arange(2))
    except (
        RuntimeError,
        ValueError,
        TypeError,
    ):  # vmap's refusals: data-dependent control flow, .item(), numpy inside
        call.m = 0
        return None
    call.m = 0
    for i in range(2):
        expected = single.losses(two[i : i + 1])[0]
        slopes = single.jacobians(np.arange(1))[0]
        if not (_agree(values[i], expected) and _agree(gradients[i], slopes)):
            return None
    return batched


def _agree(found: Array, expected: Array) -> bool:
    return bool(np.allclose(found, expected, rtol=1e-4, atol=1e-6 * float(np.abs(expected).max(initial=0.0))))


class _NumpyEvaluator(_OfFunction):
    """One point at a time; the user's Jacobian, or differences."""

    def __init__(self, call: UserFunction, like: Point) -> None:
        self._call = call
        self._like = like
        self._box = _box_of(call, like)
        self.gradient_cost = 0 if call.jac is not None else 2 * like.size

    def restore(self, point: Array) -> Point:
        exact = point.astype(self._like.dtype)
        if self._box is not None:
            exact = self._box.clip(exact.astype(np.float64)).astype(self._like.dtype)
        return exact.reshape(self._like.shape)

    def losses(self, points: Array) -> Array:
        self._point = points[0]
        self._values = self._evaluate(self.restore(self._point))
        return self._values[None]

    def _evaluate(self, point: Point) -> Array:
        call = self._call
        found = call.evaluate(point, "a numpy array", "a tensor")
        if found is None:
            return np.full(self.m, np.nan)
        try:
            values = np.asarray(found, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{call.name}(x): expected m numbers, found {type(found).__name__}; return an array or a list of them, "
                "in the order of the names."
            ) from error
        if call.values != "losses":
            values = values.reshape(-1)
        _check_values(values, np.ndarray, call)
        dtype = getattr(found, "dtype", None)
        if dtype == np.float64:
            call.precision = EPSILON
        elif dtype is not None and dtype.kind == "f":
            call.precision = max(float(np.finfo(dtype).eps), EPSILON)
        return values

    def jacobians(self, runs: Indices) -> Array:
        del runs
        if self._call.jac is not None:
            found = np.asarray(self._call.jac(self.restore(self._point)), dtype=np.float64)
            return _checked_jacobian(found, self._call, self._like.shape)
        return self._differences()[None]

    def _differences(self) -> Array:
        """``(f(x + h e_j) - f(x - h e_j)) / 2h``, at a bound ``(4 f(x + h) - f(x + 2 h) - 3 f(x)) / 2h``; (m, n).

        The width h is the cube root of the precision (or of the noise relative to the losses) times the coordinate's
        size. The start's size counts too, or a solution at zero would be approached with ever smaller differences.
        """
        x = self._point
        widths = self._widths(x)
        low, high = (np.full(x.size, s) for s in (-np.inf, np.inf))
        if self._box is not None:
            low, high = self._box.lower, self._box.upper
        out = np.zeros((self.m, x.size))
        for j, width in enumerate(widths):
            h = min(width, 0.5 * (high[j] - low[j]))
            if h <= 0:
                continue
            if x[j] - h >= low[j] and x[j] + h <= high[j]:
                (above, up), (below, down) = self._moved(x, j, h), self._moved(x, j, -h)
                out[:, j] = (above - below) / (up - down)
            else:
                out[:, j] = self._one_sided(x, j, h if x[j] + 2 * h <= high[j] else -h)
        return out

    def _one_sided(self, x: Array, j: int, h: float) -> Array:
        """The slope at x of the parabola through the values at x and at two points on one side of it."""
        (near, first), (far, second) = self._moved(x, j, h), self._moved(x, j, 2 * h)
        here = float(self.restore(x).flat[j])
        first, second = first - here, second - here
        if first in (0.0, second):
            return np.zeros(self.m)
        rise, further = (near - self._values) / first, (far - self._values) / second
        return np.asarray((rise * second - further * first) / (second - first))

    def _moved(self, x: Array, j: int, by: float) -> tuple[Array, float]:
        """The values with one coordinate moved, and that coordinate as the function saw it."""
        moved = x.copy()
        moved[j] += by
        point = self.restore(moved)
        return self._evaluate(point), float(point.flat[j])

    def _widths(self, x: Array) -> Array:
        start = np.abs(np.asarray(self._like, dtype=np.float64).reshape(-1))
        typical = np.maximum(np.maximum(np.abs(x), start), max(float(np.abs(x).mean()), float(start.mean())) or 1.0)
        if self._call.diff_step is not None:
            return np.asarray(self._call.diff_step * typical)
        rounding = max(float(np.finfo(self._like.dtype).eps), self._call.precision)
        if self._call.noise is not None:
            size = np.abs(self._values)
            relative = np.where(size > 0, self._call.noise / np.where(size > 0, size, 1.0), 0.0)
            rounding = max(rounding, min(float(relative.max()), 1e-3))
        return np.asarray(np.cbrt(rounding) * typical)


class _Loop(_OfFunction):
    """A single evaluator called once per point; each copy keeps its own graph."""

    def __init__(self, single: _TorchEvaluator | _NumpyEvaluator) -> None:
        self._single, self._call = single, single._call
        self.restore = single.restore
        self.gradient_cost = single.gradient_cost

    def losses(self, points: Array) -> Array:
        self._copies = [copy.copy(self._single) for _ in points]
        return np.concatenate([one.losses(point[None]) for one, point in zip(self._copies, points, strict=True)])

    def jacobians(self, runs: Indices) -> Array:
        return np.concatenate([self._copies[i].jacobians(runs) for i in runs])
