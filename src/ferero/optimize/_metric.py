"""The quasi-Newton metric M: an estimate of the inverse Hessian of the weighted losses, for many runs at once.

Steps are ``d = -eta M gradF w``, so the subprogram sees only ``gradF^T M gradF`` and stays m x m. Before a run has seen
positive curvature its metric is the identity and says nothing about lengths (``is_scaled`` is False): the trust radius
alone sets the step.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from ferero._arrays import Array, Mask
from ferero.optimize._evaluator import Indices

__all__ = ["DenseMetric", "Face", "LimitedMetric", "Metric", "make_metric"]

DENSE_LIMIT = 400  # parameters up to which the metric is kept as a matrix
MEMORY = 20  # steps that are remembered beyond that
REMEMBERED = 5_000_000  # numbers in them; beyond that fewer, but no less than LEAST_MEMORY
LEAST_MEMORY = 5
TOO_LONG = 0.1  # the metric is shrunk where the curvature along a step asks for less than this share of its length
DAMPING = 0.2  # Powell's: the curvature kept is at least this share of the metric's own


class Face(NamedTuple):
    """The metric where some parameters have a step of their own, v, and only the others are free.

    With W the fixed parameters, ``d = shift - eta gradF w applied``, and the fixed ones' multipliers are
    ``-(pull w + push / eta)``.

    Attributes:
        applied: ``J (M - M_W M_WW^-1 M_W)``, (P, m, n); zero in the columns of W.
        shift: ``M_W M_WW^-1 v``, (P, n); v on W.
        pull: ``M_WW^-1 (J M)_W``, (P, n, m); zero off W.
        push: ``M_WW^-1 v``, (P, n); zero off W.
    """

    applied: Array
    shift: Array
    pull: Array
    push: Array


class Metric(Protocol):
    """A metric over P runs of n parameters, as the trust region uses it."""

    is_scaled: Mask

    def apply(self, jacobian: Array) -> Array:
        """``J M`` for J (P, m, n)."""
        ...

    def on_face(self, runs: Indices, jacobian: Array, applied: Array, fixed: Mask, step: Array) -> Face:
        """The metric with fixed parameters.

        Args:
            runs: which runs, (R,); the other arguments are theirs.
            jacobian: J, (R, m, n).
            applied: ``J M``, (R, m, n).
            fixed: W, (R, n).
            step: v, (R, n); read on W.
        """
        ...

    def update(self, runs: Mask, step: Array, change: Array, image: Array) -> None:
        """Learn from the steps of the masked runs (all arrays over all P runs).

        Args:
            runs: which runs took their step, (P,).
            step: s, (P, n).
            change: y, the change of the weighted gradient over it, (P, n).
            image: ``M^-1 s``, (P, n).
        """
        ...

    def reset(self, runs: Mask, sizes: Array) -> None:
        """Start the masked runs afresh, with the squares of the parameters' sizes, (P, n), as the diagonal."""
        ...

    def keep(self, runs: Mask) -> None:
        """Forget the runs that are not masked."""
        ...


def make_metric(runs: int, parameters: int) -> Metric:
    """The matrix while it is small, the last steps beyond."""
    return DenseMetric(runs, parameters) if parameters <= DENSE_LIMIT else LimitedMetric(runs, parameters)


class DenseMetric:
    """Inverse BFGS, damped after Powell: ``M <- (I - s y^T / s.y) M (I - y s^T / s.y) + s s^T / s.y``."""

    def __init__(self, runs: int, parameters: int) -> None:
        self.is_scaled: Mask = np.zeros(runs, dtype=bool)
        self._matrix: Array = np.broadcast_to(np.eye(parameters), (runs, parameters, parameters)).copy()

    def apply(self, jacobian: Array) -> Array:
        """``J M``, (P, m, n)."""
        return jacobian @ self._matrix

    def on_face(self, runs: Indices, jacobian: Array, applied: Array, fixed: Mask, step: Array) -> Face:
        """The Schur complement of M on the free parameters: the inverse of the Hessian's own block."""
        del jacobian
        if len(runs) == 1:
            return self._on_one_face(self._matrix[runs[0]], applied, fixed, step)
        M, m = self._matrix[runs], applied.shape[1]
        block = M * fixed[:, :, None] * fixed[:, None, :]
        block += np.eye(M.shape[-1]) * ~fixed[:, :, None]
        right = np.concatenate([applied, step[:, None]], axis=1) * fixed[:, None]
        solved = np.linalg.solve(block, right.transpose(0, 2, 1))
        back = solved.transpose(0, 2, 1) @ M
        free = ~fixed[:, None]
        return Face(
            (applied - back[:, :m]) * free, np.where(fixed, step, back[:, m]), solved[:, :, :m], solved[:, :, m]
        )

    @staticmethod
    def _on_one_face(M: Array, applied: Array, fixed: Mask, step: Array) -> Face:
        W, m = np.flatnonzero(fixed[0]), applied.shape[1]
        rows = M[W]
        right = np.concatenate([applied[0][:, W], step[:, W]]).T
        solved = np.linalg.solve(rows[:, W], right)
        back = solved.T @ rows
        kept, shift = applied - back[None, :m], back[m:]
        kept[0][:, W], shift[0, W] = 0.0, step[0, W]
        pull, push = np.zeros((1, len(M), m)), np.zeros_like(step)
        pull[0, W], push[0, W] = solved[:, :m], solved[:, m]
        return Face(kept, shift, pull, push)

    def update(self, runs: Mask, step: Array, change: Array, image: Array) -> None:
        """One BFGS update of each masked run; the first with positive curvature sets the scale."""
        s, y, image, learns, first = _curvature(runs, self.is_scaled, step, change, image)
        if first.any():
            scale = _dot(s, y)[first] / _dot(y, y)[first]
            self._matrix[first] *= scale[:, None, None]
            image = np.where(first[:, None], s / _per_run(scale, first), image)
            self.is_scaled = self.is_scaled | first
        if not learns.any():
            return
        s, y = s[learns], _damped(s, y, image)[learns]
        inverse = 1.0 / _dot(s, y)[:, None, None]
        M = self._matrix[learns]
        stretched = _dot(s, y) / _dot(y, (M @ y[:, :, None])[:, :, 0])
        M = M * np.where(stretched < TOO_LONG, stretched, 1.0)[:, None, None]
        My = (M @ y[:, :, None])[:, :, 0]
        outer = s[:, :, None] * My[:, None, :]
        square = 1.0 + _dot(y, My)[:, None, None] * inverse
        M = M + inverse * (square * (s[:, :, None] * s[:, None, :]) - outer - outer.transpose(0, 2, 1))
        self._matrix[learns] = M

    def reset(self, runs: Mask, sizes: Array) -> None:
        """Start the masked runs afresh, with the squares of the parameters' sizes as the diagonal."""
        self._matrix[runs] = np.eye(self._matrix.shape[-1]) * (sizes[runs] ** 2)[:, None]
        self.is_scaled = self.is_scaled & ~runs

    def keep(self, runs: Mask) -> None:
        """Forget the runs that are not masked."""
        self.is_scaled, self._matrix = self.is_scaled[runs], self._matrix[runs]


class LimitedMetric:
    """The same from the last steps only, by the two-loop recursion; memory O(n)."""

    def __init__(self, runs: int, parameters: int) -> None:
        self.is_scaled: Mask = np.zeros(runs, dtype=bool)
        memory = max(min(MEMORY, REMEMBERED // parameters), LEAST_MEMORY)
        self._steps: Array = np.zeros((runs, memory, parameters))
        self._changes: Array = np.zeros((runs, memory, parameters))
        self._inverse: Array = np.zeros((runs, memory))  # 1 / s.y; zero where nothing is remembered
        self._scale: Array = np.ones(runs)

    def apply(self, jacobian: Array) -> Array:
        """``J M``, (P, m, n), by the compact form: two products with all steps at once instead of two for each.

        With ``R`` the upper triangle of ``S Y^T`` and ``D`` its diagonal, rows of S and Y the steps and changes,
        ``M = g I + [S; g Y]^T [R^-T (D + g Y Y^T) R^-1, -R^-T; -R^-1, 0] [S; g Y]``.
        """
        out = self._scale[:, None, None] * jacobian
        for run in np.flatnonzero(self._inverse.any(axis=1)):
            used = slice(int(np.flatnonzero(self._inverse[run])[0]), None)
            kept = self._inverse[run, used] > 0
            S, Y, g = self._steps[run, used], self._changes[run, used], self._scale[run]
            if not kept.all():
                S, Y = S[kept], Y[kept]
            products = S @ Y.T
            R, D = np.triu(products), np.diag(products.diagonal())
            along, across = S @ jacobian[run].T, g * (Y @ jacobian[run].T)
            first = np.linalg.solve(R, along)
            second = np.linalg.solve(R.T, (D + g * (Y @ Y.T)) @ first - across)
            out[run] += second.T @ S - g * (first.T @ Y)
        return out

    def update(self, runs: Mask, step: Array, change: Array, image: Array) -> None:
        """Remember the masked runs' steps, forgetting their oldest."""
        s, y, image, learns, first = _curvature(runs, self.is_scaled, step, change, image)
        if first.any():
            scale = _dot(s, y)[first] / _dot(y, y)[first]
            image = np.where(first[:, None], s / _per_run(scale, first), image)
            self._scale[first] = scale
            self.is_scaled = self.is_scaled | first
        if not learns.any():
            return
        y = _damped(s, y, image)
        for memory, newest in ((self._steps, s), (self._changes, y)):
            memory[learns, :-1] = memory[learns, 1:]
            memory[learns, -1] = newest[learns]
        self._inverse[learns, :-1] = self._inverse[learns, 1:]
        self._inverse[learns, -1] = 1.0 / _dot(s, y)[learns]

    def on_face(self, runs: Indices, jacobian: Array, applied: Array, fixed: Mask, step: Array) -> Face:
        """The metric of the steps' free parts. What the fixed parameters' steps do to the free ones is left out."""
        del applied
        part = self._part(runs, ~fixed)
        kept = part.apply(jacobian * ~fixed[:, None])
        pull = jacobian.transpose(0, 2, 1) * fixed[:, :, None]
        return Face(kept, np.where(fixed, step, 0.0), pull, np.zeros_like(step))

    def _part(self, runs: Indices, free: Mask) -> LimitedMetric:
        """The given runs' metric with steps and changes of the free parameters only, (R, n)."""
        part = LimitedMetric.__new__(LimitedMetric)
        part._steps, part._changes = self._steps[runs] * free[:, None], self._changes[runs] * free[:, None]
        bend = _dot(part._steps, part._changes)
        usable = bend > np.finfo(np.float64).eps * np.sqrt(
            _dot(part._steps, part._steps) * _dot(part._changes, part._changes)
        )
        part._inverse = np.where(usable, 1.0 / np.where(usable, bend, 1.0), 0.0)
        part._scale, part.is_scaled = self._scale[runs], self.is_scaled[runs]
        return part

    def reset(self, runs: Mask, sizes: Array) -> None:
        """Start the masked runs afresh, with the identity: a diagonal of its own would cost another pass."""
        del sizes
        self._inverse[runs], self._scale[runs] = 0.0, 1.0
        self.is_scaled = self.is_scaled & ~runs

    def keep(self, runs: Mask) -> None:
        """Forget the runs that are not masked."""
        self.is_scaled, self._scale, self._inverse = (
            self.is_scaled[runs],
            self._scale[runs],
            self._inverse[runs],
        )
        self._steps, self._changes = self._steps[runs], self._changes[runs]


def _curvature(runs: Mask, is_scaled: Mask, s: Array, y: Array, image: Array) -> tuple[Array, Array, Array, Mask, Mask]:
    """The arguments, which runs learn from their step, and which of them for the first time."""
    bends = _dot(s, y) > np.finfo(np.float64).eps * np.sqrt(_dot(s, s) * _dot(y, y))
    first = runs & ~is_scaled & bends
    return s, y, image, first | (runs & is_scaled & (_dot(s, image) > 0)), first


def _damped(s: Array, y: Array, image: Array) -> Array:
    """Y moved towards ``M^-1 s`` until ``s.y`` is a fifth of ``s.M^-1 s``, so that M stays positive definite."""
    bend, own = _dot(s, y), _dot(s, image)
    lacking = bend < DAMPING * own
    share = np.where(lacking, (1.0 - DAMPING) * own / np.where(lacking, own - bend, 1.0), 1.0)
    return share[:, None] * y + (1.0 - share)[:, None] * image


def _per_run(values: Array, runs: Mask) -> Array:
    """``values`` of the masked runs as a column over all of them, 1 elsewhere."""
    out = np.ones(len(runs))
    out[runs] = values
    return out[:, None]


def _dot(u: Array, v: Array) -> Array:
    return np.asarray((u * v).sum(axis=-1))
