"""Random subprograms that solvers fail on: gradients from 1e-6 to 1e6, duplicates, too few, or none."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ferero.preference import Preference
from ferero.subprogram import Domain

__all__ = ["SubprogramInstance", "random_instance"]

Array: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SubprogramInstance:
    """One subprogram, and whether its linearised constraints can be met.

    Attributes:
        A: The order's rows, (k, m), of unit length.
        B_g: Inequalities, (m_g, m).
        b_g: Their constants, (m_g,).
        B_h: Equalities, (m_h, m).
        b_h: Their constants, (m_h,).
        losses: F, (m,), positive.
        jacobian: The gradients, (m, n).
        c_g: The inequalities' rate.
        c_h: The equalities' rate.
        domain: "adaptive" or "simplex".
        is_consistent: Whether some direction meets the linearised constraints.
    """

    A: Array
    B_g: Array
    b_g: Array
    B_h: Array
    b_h: Array
    losses: Array
    jacobian: Array
    c_g: float
    c_h: float
    domain: Domain
    is_consistent: bool

    @property
    def gramian(self) -> Array:
        """The products of the gradients, (m, m)."""
        return np.asarray(self.jacobian @ self.jacobian.T)

    @cached_property
    def preference(self) -> Preference:
        """The preference that the matrices make."""
        return Preference.from_matrices(self.A, self.B_g, self.b_g, self.B_h, self.b_h)


def random_instance(rng: np.random.Generator, consistent: bool = True) -> SubprogramInstance:
    """Draws a subprogram of 2 to 40 losses.

    Consistent ones are made around a direction that meets all constraints. Inconsistent ones need a loss with
    a parallel gradient, an opposite one or none at all to move by itself, or more than the gradients span.

    Args:
        rng: Where the numbers come from.
        consistent: Whether the linearised constraints can be met.
    """
    m = int(rng.choice([2, 3, 6, 20, 40]))
    F = rng.uniform(0.01, 2.0, m) * 10 ** rng.uniform(-2, 2)
    A = np.eye(m) if rng.random() < 0.6 else np.abs(rng.standard_normal((m + int(rng.integers(3)), m)))
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    J = rng.standard_normal((m, int(rng.choice([max(1, m // 2), m, 3 * m]))))
    domain: Domain = "adaptive" if rng.random() < 0.5 else "simplex"
    c_g, c_h = 10 ** rng.uniform(-2, 2, 2)
    if consistent:
        J = _degrade(rng, J)
        B_g, B_h = (
            rng.standard_normal((int(rng.integers(4)), m)),
            rng.standard_normal((rng.choice([0, 1, m - 1]), m)),
        )
        if len(B_g) > 1 and rng.random() < 0.3:
            B_g[1] = B_g[0]
        if len(B_g) and len(B_h):
            c_h = c_g  # else the constraints themselves might contradict each other
        longest = max(float(np.linalg.norm(J, axis=1).max()), 1e-9)
        d = rng.standard_normal(J.shape[1]) * float(F.max()) * 10 ** rng.uniform(-3, 3) / longest
        room = np.abs(rng.standard_normal(len(B_g))) * (rng.random(len(B_g)) < 0.5)
        G, H = -(B_g @ J @ d) - room * np.abs(B_g @ J @ d), -(B_h @ J @ d)
    else:
        J, B_g, G, B_h, H = _contradict(rng, J * 10 ** rng.uniform(-6, 6))
        G, H = G * float(F.max()), H * float(F.max())
    return SubprogramInstance(
        A=A,
        B_g=B_g,
        b_g=G / c_g - B_g @ F,
        B_h=B_h,
        b_h=H / c_h - B_h @ F,
        losses=F,
        jacobian=J,
        c_g=float(c_g),
        c_h=float(c_h),
        domain=domain,
        is_consistent=consistent,
    )


def _degrade(rng: np.random.Generator, J: Array) -> Array:
    """Repeated, opposite and vanishing gradients, of very different sizes."""
    J, m = J.copy(), len(J)
    if rng.random() < 0.3:
        J[rng.integers(m)] = J[0]
    if rng.random() < 0.2:
        J[rng.integers(1, m)] = -J[0]
    if rng.random() < 0.1:
        J[rng.integers(m)] = 0.0
    return np.asarray(J * 10 ** rng.uniform(-6, 6, (m if rng.random() < 0.6 else 1, 1)))


def _contradict(rng: np.random.Generator, J: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Gradients, inequalities with ``c_g G`` and equalities with ``c_h H``, not to be met at once."""
    J, m = J.copy(), len(J)
    none, nothing = np.zeros((0, m)), np.zeros(0)
    ratio = 10 ** rng.uniform(-1, 1)
    kind = int(rng.integers(4))
    if kind == 0:
        J[1] = ratio * J[0]
        row = np.zeros((1, m))
        row[0, :2] = ratio, -1.0
        return J, none, nothing, row, rng.standard_normal(1)
    if kind == 1:
        J[1] = -ratio * J[0]
        return J, np.eye(m)[:2], rng.uniform(0.1, 1.0, 2), none, nothing
    if kind == 2:
        J[0] = 0.0
        return J, none, nothing, np.eye(m)[:1], rng.uniform(0.1, 1.0, 1)
    B_h = rng.standard_normal((max(m - 1, 2), m))
    return J[:, : max(1, (m - 1) // 2)], none, nothing, B_h, rng.standard_normal(len(B_h))
