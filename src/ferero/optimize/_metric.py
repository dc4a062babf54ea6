"""The quasi-Newton metric M: an estimate of the inverse Hessian of the weighted losses, for many runs at once.

Steps are ``d = -eta M gradF w``, so the subprogram sees only ``gradF^T M gradF`` and stays m x m. Before a run has seen
positive curvature its metric is the identity and says nothing about lengths (``is_scaled`` is False): the trust radius
alone sets the step.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ferero._arrays import Array, Mask

__all__ = ["DenseMetric", "LimitedMetric", "Metric", "make_metric"]

DENSE_LIMIT = 400  # parameters up to which the metric is kept as a matrix
MEMORY = 20  # steps that are remembered beyond that
TOO_LONG = 0.1  # the metric is shrunk where the curvature along a step asks for less than this share of its length
DAMPING = 0.2  # Powell's: the curvature kept is at least this share of the metric's own


class Metric(Protocol):
    """A metric over P runs of n parameters, as the trust region uses it."""

    is_scaled: Mask

    def apply(self, jacobian: Array) -> Array:
        """``J M`` for J (P, m, n)."""
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

    def reset(self, runs: Mask) -> None:
        """Start the masked runs afresh, with the identity."""
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

    def reset(self, runs: Mask) -> None:
        """Start the masked runs afresh, with the identity."""
        self._matrix[runs] = np.eye(self._matrix.shape[-1])
        self.is_scaled = self.is_scaled & ~runs

    def keep(self, runs: Mask) -> None:
        """Forget the runs that are not masked."""
        self.is_scaled, self._matrix = self.is_scaled[runs], self._matrix[runs]


class LimitedMetric:
    """The same from the last steps only, by the two-loop recursion; memory O(n)."""

    def __init__(self, runs: int, parameters: int) -> None:
        self.is_scaled: Mask = np.zeros(runs, dtype=bool)
        self._steps: Array = np.zeros((runs, MEMORY, parameters))
        self._changes: Array = np.zeros((runs, MEMORY, parameters))
        self._inverse: Array = np.zeros((runs, MEMORY))  # 1 / s.y; zero where nothing is remembered
        self._scale: Array = np.ones(runs)

    def apply(self, jacobian: Array) -> Array:
        """``J M``, (P, m, n)."""
        q = jacobian.copy()
        shares = np.zeros((MEMORY, *jacobian.shape[:2]))
        for j in reversed(range(MEMORY)):
            shares[j] = self._inverse[:, j, None] * (q @ self._steps[:, j, :, None])[:, :, 0]
            q -= shares[j][:, :, None] * self._changes[:, j, None, :]
        q *= self._scale[:, None, None]
        for j in range(MEMORY):
            back = self._inverse[:, j, None] * (q @ self._changes[:, j, :, None])[:, :, 0]
            q += (shares[j] - back)[:, :, None] * self._steps[:, j, None, :]
        return q

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

    def reset(self, runs: Mask) -> None:
        """Start the masked runs afresh, with the identity."""
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
