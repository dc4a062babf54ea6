"""The quasi-Newton metric M: an estimate of the inverse Hessian of the weighted losses.

Steps are ``d = -eta M gradF w``, so the subprogram sees only ``gradF^T M gradF`` and stays m x m. Before a run has seen
positive curvature its metric is the identity and says nothing about lengths (``is_scaled`` is False): the trust radius
alone sets the step.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from ferero._arrays import Array, Mask
from ferero.subprogram._lapack import lapack_solver

__all__ = ["DenseMetric", "Face", "LimitedMetric", "Metric", "make_metric"]

DENSE_LIMIT = 400  # parameters up to which the metric is kept as a matrix
MEMORY = 20  # steps that are remembered beyond that
REMEMBERED = 5_000_000  # numbers in them; beyond that fewer, but no less than LEAST_MEMORY
LEAST_MEMORY = 5
TOO_LONG = 0.1  # the metric is shrunk where the curvature along a step asks for less than this share of its length
DAMPING = 0.2  # Powell's: the curvature kept is at least this share of the metric's own
EPSILON = float(np.finfo(np.float64).eps)


class Face(NamedTuple):
    """The metric where some parameters have a step of their own, v, and only the others are free.

    With W the fixed parameters, ``d = shift - eta gradF w applied``, and the fixed ones' multipliers are
    ``-(pull w + push / eta)``.

    Attributes:
        applied: ``J (M - M_W M_WW^-1 M_W)``, (m, n); zero in the columns of W.
        shift: ``M_W M_WW^-1 v``, (n,); v on W.
        pull: ``M_WW^-1 (J M)_W``, (n, m); zero off W.
        push: ``M_WW^-1 v``, (n,); zero off W.
    """

    applied: Array
    shift: Array
    pull: Array
    push: Array


class Metric(Protocol):
    """A metric over n parameters, as the trust region uses it."""

    is_scaled: bool

    def apply(self, jacobian: Array) -> Array:
        """``J M`` for J (m, n)."""
        ...

    def on_face(self, jacobian: Array, applied: Array, fixed: Mask, step: Array) -> Face:
        """The metric with fixed parameters.

        Args:
            jacobian: J, (m, n).
            applied: ``J M``, (m, n).
            fixed: W, (n,), at least one.
            step: v, (n,); zero off W.
        """
        ...

    def update(self, step: Array, change: Array, image: Array) -> None:
        """Learn from a step.

        Args:
            step: s, (n,).
            change: y, the change of the weighted gradient over it, (n,).
            image: ``M^-1 s``, (n,).
        """
        ...

    def reset(self, sizes: Array) -> None:
        """Start afresh, with the squares of the parameters' sizes, (n,), as the diagonal."""
        ...


def make_metric(parameters: int) -> Metric:
    """The matrix while it is small, the last steps beyond."""
    return DenseMetric(parameters) if parameters <= DENSE_LIMIT else LimitedMetric(parameters)


class DenseMetric:
    """Inverse BFGS, damped after Powell: ``M <- (I - s y^T / s.y) M (I - y s^T / s.y) + s s^T / s.y``."""

    def __init__(self, parameters: int) -> None:
        self.is_scaled = False
        self._matrix: Array = np.eye(parameters)

    def apply(self, jacobian: Array) -> Array:
        """``J M``, (m, n)."""
        return jacobian @ self._matrix

    def on_face(self, jacobian: Array, applied: Array, fixed: Mask, step: Array) -> Face:
        """The Schur complement of M on the free parameters: the inverse of the Hessian's own block."""
        del jacobian
        M, m = self._matrix, len(applied)
        W = fixed.nonzero()[0]
        rows = M[W]
        right = np.concatenate([applied[:, W], step[None, W]]).T
        _, _, solved, failed = lapack_solver()(rows[:, W], right)
        if failed:
            raise np.linalg.LinAlgError("the metric of the fixed parameters is singular")
        back = solved.T @ rows
        kept, shift = applied - back[:m], back[m]
        kept[:, W], shift[W] = 0.0, step[W]
        pull, push = np.zeros((len(M), m)), np.zeros(len(M))
        pull[W], push[W] = solved[:, :m], solved[:, m]
        return Face(kept, shift, pull, push)

    def update(self, step: Array, change: Array, image: Array) -> None:
        """One BFGS update; the first with positive curvature sets the scale."""
        s, y = step, change
        if not self.is_scaled:
            if (scale := _first_scale(s, y)) is None:
                return
            self._matrix *= scale
            self.is_scaled, image = True, s / scale
        elif not s.dot(image) > 0:
            return
        y = _damped(s, y, image)
        bend, My = float(s.dot(y)), self._matrix @ y
        own = float(y.dot(My))
        if bend < TOO_LONG * own:
            self._matrix *= bend / own
            My *= bend / own
            own = bend
        half = (0.5 * (1.0 + own / bend) * s - My) / bend
        outer = half[:, None] * s
        self._matrix += outer
        self._matrix += outer.T

    def reset(self, sizes: Array) -> None:
        """Start afresh, with the squares of the parameters' sizes as the diagonal."""
        self._matrix = np.diag(sizes**2)
        self.is_scaled = False


class LimitedMetric:
    """The same from the last steps only, by the two-loop recursion; memory O(n)."""

    def __init__(self, parameters: int) -> None:
        self.is_scaled = False
        self._memory = max(min(MEMORY, REMEMBERED // parameters), LEAST_MEMORY)
        self._steps: Array = np.zeros((self._memory, parameters))
        self._changes: Array = np.zeros((self._memory, parameters))
        self._used = 0
        self._scale = 1.0

    def apply(self, jacobian: Array) -> Array:
        """``J M``, (m, n)."""
        newest = slice(self._memory - self._used, None)
        return self._apply(jacobian, self._steps[newest], self._changes[newest])

    def _apply(self, jacobian: Array, S: Array, Y: Array) -> Array:
        """The compact form: two products with all steps at once instead of two for each.

        With ``R`` the upper triangle of ``S Y^T`` and ``D`` its diagonal, rows of S and Y the steps and changes,
        ``M = g I + [S; g Y]^T [R^-T (D + g Y Y^T) R^-1, -R^-T; -R^-1, 0] [S; g Y]``.
        """
        g = self._scale
        if not len(S):
            return g * jacobian
        products = S @ Y.T
        R, D = np.triu(products), np.diag(products.diagonal())
        along, across = S @ jacobian.T, g * (Y @ jacobian.T)
        first = np.linalg.solve(R, along)
        second = np.linalg.solve(R.T, (D + g * (Y @ Y.T)) @ first - across)
        out = g * jacobian
        out += second.T @ S - g * (first.T @ Y)
        return out

    def update(self, step: Array, change: Array, image: Array) -> None:
        """Remember the step, forgetting the oldest."""
        s, y = step, change
        if not self.is_scaled:
            if (scale := _first_scale(s, y)) is None:
                return
            self.is_scaled, self._scale, image = True, scale, s / scale
        elif not s.dot(image) > 0:
            return
        y = _damped(s, y, image)
        for memory, newest in ((self._steps, s), (self._changes, y)):
            memory[:-1] = memory[1:]
            memory[-1] = newest
        self._used = min(self._used + 1, self._memory)

    def on_face(self, jacobian: Array, applied: Array, fixed: Mask, step: Array) -> Face:
        """The metric of the steps' free parts. What the fixed parameters' steps do to the free ones is left out."""
        del applied
        free, newest = ~fixed, slice(self._memory - self._used, None)
        S, Y = self._steps[newest] * free, self._changes[newest] * free
        bend = np.einsum("ij,ij->i", S, Y)
        sizes = np.einsum("ij,ij->i", S, S) * np.einsum("ij,ij->i", Y, Y)
        usable = bend > EPSILON * np.sqrt(sizes)
        if not usable.all():
            S, Y = S[usable], Y[usable]
        return Face(
            self._apply(jacobian * free, S, Y),
            np.where(fixed, step, 0.0),
            jacobian.T * fixed[:, None],
            np.zeros_like(step),
        )

    def reset(self, sizes: Array) -> None:
        """Start afresh, with the identity: a diagonal of its own would cost another pass."""
        del sizes
        self._used, self._scale, self.is_scaled = 0, 1.0, False


def _first_scale(s: Array, y: Array) -> float | None:
    """``s.y / y.y``, the size of an inverse Hessian that the first step shows; None without positive curvature."""
    bend, growth = float(s.dot(y)), float(y.dot(y))
    return bend / growth if bend > EPSILON * math.sqrt(float(s.dot(s)) * growth) else None


def _damped(s: Array, y: Array, image: Array) -> Array:
    """Y moved towards ``M^-1 s`` until ``s.y`` is a fifth of ``s.M^-1 s``, so that M stays positive definite."""
    bend, own = float(s.dot(y)), float(s.dot(image))
    if bend >= DAMPING * own:
        return y
    share = (1.0 - DAMPING) * own / (own - bend)
    return share * y + (1.0 - share) * image
