"""The relative preference: a polyhedral cone that says which changes of the losses are improvements."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
import torch
from torch import Tensor

from ferero._arrays import ArrayLike, check_finite, to_float64, to_vectors
from ferero.errors import ConeError, InputError
from ferero.geometry._duality import ROUNDOFF, Array, Generators, Mask, extreme_rays, irredundant, unit_rows

__all__ = ["Cone"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Cone:
    """The cone ``C = {y : A y >= 0}``: ``u`` is better than ``v`` where ``v - u`` is in C.

    Any number of rows is allowed, so long as the cone has an interior. One row is a half-space, whose order
    is that of a weighted sum. A cone that contains a line is not pointed: it orders losses as any other, but
    has no extreme rays.

    Args:
        A: Rows (k, m), k >= 1, of any length but zero, of any real type. The order of the rows is kept.

    Attributes:
        matrix: A with unit rows, float64 (k, m), on the CPU.

    Raises:
        InputError: ``A`` is not a finite matrix of real numbers.
        ConeError: ``A`` has no rows or a zero row, or the cone has no interior.

    Example:
        >>> cone = Cone.from_rays([[2, -1], [-1, 2]])
        >>> cone.contains([2, -1]).item(), cone.contains([3, -2]).item()
        (True, False)
        >>> Cone.orthant(2).allowing_ascent(start=[1, 1], target=[0, 2])
        Cone([[1, 0], [0.7071, 0.7071]])
    """

    matrix: Tensor

    def __init__(self, A: ArrayLike) -> None:
        given = to_float64(A, "A")
        _check_matrix(given, "A", "(k, m), one row per inequality")
        rows = _read_vectors(given, "A", "row")
        _check_interior(rows)
        object.__setattr__(self, "matrix", torch.from_numpy(rows))

    @classmethod
    def orthant(cls, m: int) -> Cone:
        """Returns the cone of the Pareto order: every loss counts, and none may rise.

        Raises:
            InputError: ``m`` is not a positive integer.
        """
        try:
            size = operator.index(m)
        except TypeError:
            size = 0
        if size < 1:
            raise InputError(f"m: expected the number of losses, an integer of at least 1, found {m!r}.")
        return cls._from_dual(extreme_rays(np.eye(size)), np.eye(size))

    @classmethod
    def from_rays(cls, Y: ArrayLike) -> Cone:
        """Returns the cone ``{Y c : c >= 0}``.

        Args:
            Y: Rays (m, k), one per column, of any length but zero. Redundant and repeated rays are allowed.

        Raises:
            InputError: ``Y`` is not a finite matrix of real numbers.
            ConeError: ``Y`` has no columns or a zero column, or the rays span too little (no interior) or
                generate the whole space.
        """
        rays = to_float64(Y, "Y")
        _check_matrix(rays, "Y", "(m, k), one column per ray")
        columns = _read_vectors(rays.T, "Y", "column")
        dual = extreme_rays(columns)
        _check_proper(dual, len(columns))
        return cls._from_dual(dual, columns)

    @classmethod
    def _from_dual(cls, dual: Generators, generators: Array) -> Cone:
        """Wraps the facets of a cone, and remembers its generators: to find them again can take long."""
        cone = object.__new__(cls)
        cone.__dict__.update(matrix=torch.from_numpy(dual.rays), _generators=(generators, dual.tight))
        return cone

    @property
    def m(self) -> int:
        """The number of losses."""
        return self.matrix.shape[1]

    @cached_property
    def rays(self) -> Tensor:
        """Extreme rays (m, r): unit columns, none of them redundant, that generate the cone.

        Raises:
            ConeError: The cone is not pointed.
        """
        rank = _rank(self.matrix.numpy())
        if rank < self.m:
            raise ConeError(
                f"rays: the cone is not pointed (its matrix has rank {rank} and not m = {self.m}, so it "
                "contains a line) and has no extreme rays; use its matrix, or add rows."
            )
        generators, tight = self._generators
        return torch.from_numpy(generators[irredundant(tight)].T.copy())

    @cached_property
    def _generators(self) -> tuple[Array, Mask]:
        """Unit rows (r, m) that generate the cone, and (k, r) on which of them each inequality is tight."""
        rays, lineality, tight = extreme_rays(self.matrix.numpy())
        lines = np.vstack([lineality, -lineality])
        return np.vstack([rays, lines]), np.pad(tight.T, ((0, 0), (0, len(lines))), constant_values=True)

    def contains(self, y: ArrayLike) -> Tensor:
        """Tells whether ``A y >= 0``, up to the rounding of y's own type relative to its largest entry.

        Args:
            y: (..., m). What is not finite is in no cone.

        Returns:
            Booleans (...), on the device of ``y``.
        """
        vectors = to_vectors(y, "y", self.m)
        slack = _roundoff_of(y, self.m) * vectors.abs().amax(dim=-1, keepdim=True)
        inside = vectors @ self.matrix.T.to(vectors.device) >= -slack
        return inside.all(dim=-1) & vectors.isfinite().all(dim=-1)

    def dominates(self, u: ArrayLike, v: ArrayLike, strict: bool = False) -> Tensor:
        """Tells whether ``u`` is better than ``v``: ``A (u - v) <= 0`` and not 0, or ``< 0`` if strict.

        The comparison is exact. What is not finite dominates nothing and is dominated by nothing.

        Args:
            u: (..., m).
            v: (..., m); broadcasts against ``u``.
            strict: Ask for an improvement in every row.

        Returns:
            Booleans (...), on the device of ``u``.
        """
        better, worse = to_vectors(u, "u", self.m), to_vectors(v, "v", self.m)
        try:
            change = better - worse.to(better.device)
        except RuntimeError:
            raise InputError(
                f"u, v: expected shapes that broadcast, found {tuple(better.shape)} and {tuple(worse.shape)}."
            ) from None
        slopes = change @ self.matrix.T.to(change.device)
        if strict:
            return (slopes < 0).all(dim=-1)
        return (slopes <= 0).all(dim=-1) & (slopes != 0).any(dim=-1)

    def allowing_ascent(self, start: ArrayLike, target: ArrayLike) -> Cone:
        """Returns the smallest cone that contains this one and ``start - target``.

        Under it the way from start to target is an improvement, though some losses rise along it.

        Args:
            start: Losses (m,).
            target: Losses (m,), better than start in at least one row of the matrix.

        Raises:
            InputError: The arguments are not finite (m,), or are equal.
            ConeError: The target is no better than start in any loss, so that no proper cone is left.
        """
        ascent = _read_direction(start, target, self.m)
        gains = self.matrix.numpy() @ ascent
        if (gains >= -ROUNDOFF).all():
            return self
        if (gains <= ROUNDOFF).all():
            raise ConeError(
                "target: expected A (start - target) > 0 in some row of the cone's matrix, found a target "
                "that is no better than start in any loss the cone counts, so that no proper cone is left; "
                "choose a target that improves at least one of them."
            )
        generators = np.vstack([self._generators[0], ascent])
        return Cone._from_dual(extreme_rays(generators), generators)

    def __repr__(self) -> str:
        k, m = self.matrix.shape
        if torch.equal(self.matrix, torch.eye(m, dtype=torch.float64)):
            return f"Cone.orthant({m})"
        if k * m > 36:
            return f"Cone({k} rows, m={m})"
        rows = ("[" + ", ".join(f"{entry:.4g}" for entry in row) + "]" for row in self.matrix.tolist())
        return "Cone([" + ", ".join(rows) + "])"


def _check_matrix(matrix: Tensor, name: str, shape: str) -> None:
    if matrix.ndim != 2:
        raise InputError(f"{name}: expected a matrix {shape}, found shape {tuple(matrix.shape)}.")
    check_finite(matrix, name)


def _read_vectors(matrix: Tensor, name: str, vector: str) -> Array:
    """Returns the rows of ``matrix`` (k, m) as new unit rows; the caller calls one of them a ``vector``."""
    if 0 in matrix.shape:
        raise ConeError(f"{name}: expected at least one {vector}, found none in shape {tuple(matrix.shape)}; add one.")
    rows: Array = matrix.cpu().numpy()
    zero = np.flatnonzero(~rows.any(axis=1))
    if len(zero):
        raise ConeError(
            f"{name}: expected no zero {vector}, found {vector} {zero[0]} zero; it says nothing, remove it."
        )
    return unit_rows(rows)


def _check_interior(rows: Array) -> None:
    """Raises where ``{y : A y > 0}`` is empty.

    Independent rows never contradict each other. Others are put to a linear program, the largest t with
    ``A y >= t`` and ``|y_i| <= 1``, whose multipliers name the rows that do (Gordan's theorem).
    """
    k, m = rows.shape
    if _rank(rows) == k:
        return
    answer = scipy.optimize.linprog(
        np.append(np.zeros(m), -1.0),
        A_ub=np.hstack([-rows, np.ones((k, 1))]),
        b_ub=np.zeros(k),
        bounds=[(-1.0, 1.0)] * (m + 1),
    )
    if (rows @ np.asarray(answer.x)[:m] > ROUNDOFF).all():
        return
    guilty = np.flatnonzero(answer.ineqlin.marginals < 0).tolist()
    raise ConeError(
        f"A: the cone {{y : A y >= 0}} has no interior, since rows {guilty} contradict each other (a sum of "
        "them with positive weights is zero); change or remove one of them, so that some y has A y > 0."
    )


def _check_proper(dual: Generators, k: int) -> None:
    """Raises unless the cone of k rays, whose dual is given, has an interior and is not the whole space."""
    lines, m = dual.lineality.shape
    if lines:
        raise ConeError(
            f"Y: the cone of these {k} rays has no interior, since they span only {m - lines} of {m} "
            "dimensions; add rays until they span all of them."
        )
    if len(dual.rays) == 0:
        raise ConeError(
            f"Y: these {k} rays generate the whole space, under which every change is an improvement; "
            "remove rays until all of them lie in a half-space."
        )


def _roundoff_of(y: ArrayLike, m: int) -> float:
    """The rounding that y's own type carries into a row of ``A y``, relative to y's largest entry."""
    if isinstance(y, Tensor):
        return max(ROUNDOFF, 4 * m * torch.finfo(y.dtype).eps) if y.is_floating_point() else ROUNDOFF
    dtype = np.asarray(y).dtype
    return max(ROUNDOFF, 4 * m * float(np.finfo(dtype).eps)) if dtype.kind == "f" else ROUNDOFF


def _read_direction(start: ArrayLike, target: ArrayLike, m: int) -> Array:
    """Returns ``(start - target) / |start - target|`` (m,)."""
    ends = []
    for value, name in ((start, "start"), (target, "target")):
        end = to_float64(value, name).cpu()
        if end.shape != (m,):
            raise InputError(f"{name}: expected losses of shape ({m},), found {tuple(end.shape)}.")
        check_finite(end, name)
        ends.append(end)
    difference: Array = (ends[0] - ends[1]).numpy()
    if not difference.any():
        raise InputError(
            "target: expected losses that differ from start, found them equal; there is no way to allow, "
            "use the cone as it is."
        )
    return unit_rows(difference[None]).ravel()


def _rank(rows: Array) -> int:
    return int(np.linalg.matrix_rank(rows, tol=ROUNDOFF))
