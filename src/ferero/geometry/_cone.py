"""Polyhedral cones, which say which changes of the losses are improvements.

A cone has two descriptions, ``{y : A y >= 0}`` by inequalities and ``{Y c : c >= 0}`` by rays. The double-description
method turns either into the other: the facets of ``cone(Y)`` are the extreme rays of its dual ``{a : Y^T a >= 0}``.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy
import torch
from torch import Tensor

from ferero._arrays import Array, ArrayLike, Mask, check_finite, to_float64, to_vectors
from ferero.errors import ConeError, InputError

__all__ = ["Cone"]

Indices: TypeAlias = npt.NDArray[np.intp]

# The sine of an angle that rounding can produce: twelve bits above the precision of unit vectors in float64.
ROUNDOFF = float(2**12 * np.finfo(np.float64).eps)


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
        return cls._from_dual(_extreme_rays(np.eye(size)), np.eye(size))

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
        dual = _extreme_rays(columns)
        _check_proper(dual, len(columns))
        return cls._from_dual(dual, columns)

    @classmethod
    def _from_dual(cls, dual: _Generators, generators: Array) -> Cone:
        """Wraps the facets of a cone and keeps its generators, which are expensive to recompute."""
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
        return torch.from_numpy(generators[_irredundant(tight)].T.copy())

    @cached_property
    def _generators(self) -> tuple[Array, Mask]:
        """Unit rows (r, m) that generate the cone, and (k, r) on which of them each inequality is tight."""
        rays, lineality, tight = _extreme_rays(self.matrix.numpy())
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

        Under it the step from start to target is an improvement, though some losses rise along it.

        Args:
            start: Losses (m,).
            target: Losses (m,), better than start in at least one row of the matrix.

        Raises:
            InputError: The arguments are not finite (m,), or are equal.
            ConeError: The target is no better than start in any loss, so no proper cone is left.
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
        return Cone._from_dual(_extreme_rays(generators), generators)

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
    return _unit_rows(rows)


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


def _check_proper(dual: _Generators, k: int) -> None:
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
            "target: expected losses that differ from start, found them equal; there is no ascent to allow, "
            "use the cone as it is."
        )
    return _unit_rows(difference[None]).ravel()


def _rank(rows: Array) -> int:
    return int(np.linalg.matrix_rank(rows, tol=ROUNDOFF))


class _Generators(NamedTuple):
    """The cone ``{y : V y >= 0}`` as ``span(lineality) + cone(rays)``.

    Attributes:
        rays: Unit rows (r, m), orthogonal to the lineality, none of them redundant.
        lineality: Orthonormal rows (l, m). The cone is pointed if and only if l is 0.
        tight: (r, n), where inequality j holds with equality on ray i.
    """

    rays: Array
    lineality: Array
    tight: Mask


def _unit_rows(V: Array) -> Array:
    """Returns the rows of ``V`` (n, m), none of them zero, with length one, whatever their magnitude."""
    scaled = V / np.abs(V).max(axis=1, keepdims=True)
    return np.asarray(scaled / np.linalg.norm(scaled, axis=1, keepdims=True), dtype=np.float64)


def _extreme_rays(V: Array) -> _Generators:
    """Finds generators of ``{y : V y >= 0}``.

    The double-description method: start from a largest set of independent inequalities, well conditioned by
    pivoting, whose cone is simplicial, and cut it by the others one at a time. Which inequalities hold with equality
    on a new ray follows from its parents, not from rounded numbers, so degenerate cones (many facets through one ray)
    give each ray once.

    Args:
        V: Unit rows (n, m).
    """
    Q, triangle, pivots = scipy.linalg.qr(V.T, pivoting=True)
    diagonal = np.abs(np.diagonal(triangle))
    rank = int(np.count_nonzero(diagonal > ROUNDOFF * diagonal[0]))
    basis, others = np.sort(pivots[:rank]), np.sort(pivots[rank:])
    inverse = np.linalg.inv(V[basis]) if rank == V.shape[1] else np.linalg.pinv(V[basis])
    rays = _unit_rows(np.asarray(inverse.T, dtype=np.float64))
    tight = np.zeros((rank, len(V)), dtype=np.bool_)
    tight[:, basis] = ~np.eye(rank, dtype=np.bool_)
    for row in others:
        rays, tight = _cut(rays, tight, V[row], row, rank)
    return _Generators(rays, np.asarray(Q[:, rank:].T, dtype=np.float64), tight)


def _irredundant(tight: Mask) -> Indices:
    """Finds which inequalities of a cone with interior are facets, given the rays on which they are tight.

    An inequality is a facet unless another one is tight on the same rays and more. Of several that are tight
    on the same rays, hence equal, the first stands for all.

    Args:
        tight: (r, n), of :class:`_Generators`.

    Returns:
        Indices of inequalities, ascending.
    """
    sets, first = np.unique(tight, axis=1, return_index=True)
    missed = sets.T.astype(np.float32) @ (~sets).astype(np.float32)
    facets = np.count_nonzero(missed == 0, axis=1) == 1
    return np.sort(first[facets])


def _cut(rays: Array, tight: Mask, v: Array, row: int, dimension: int) -> tuple[Array, Mask]:
    """Intersects a pointed cone, given by its extreme rays, with the half-space ``{y : v.y >= 0}``.

    Rays on the right side stay. Each edge that crosses the boundary, between ``p`` with ``v.p > 0`` and ``q``
    with ``v.q < 0``, gives the new ray ``(v.p) q - (v.q) p``.

    Args:
        rays: Unit rows (r, m).
        tight: (r, n), where inequality j holds with equality on ray i.
        v: Unit vector (m,).
        row: The column of ``tight`` that belongs to ``v``.
        dimension: Of the space that the rays span before any cut.

    Returns:
        The rays of the intersection and where they are tight.
    """
    side = rays @ v
    zero = np.abs(side) <= ROUNDOFF
    keep = zero | (side > 0)
    p, q = _edges(tight, np.flatnonzero(keep & ~zero), np.flatnonzero(~keep), dimension)
    crossing = side[p, None] * rays[q] - side[q, None] * rays[p]
    shared = tight[p] & tight[q]
    shared[:, row] = True
    kept = tight[keep]
    kept[:, row] = zero[keep]
    return np.vstack([rays[keep], _unit_rows(crossing)]), np.vstack([kept, shared])


def _edges(tight: Mask, above: Indices, below: Indices, dimension: int) -> tuple[Indices, Indices]:
    """Finds the pairs (i in above, j in below) that span an edge: no third ray is tight wherever both are.

    An edge lies on at least ``dimension - 2`` facets, which rules out most pairs at the price of one product.
    """
    counts = tight.astype(np.float32)  # exact up to 2**24, and as fast as BLAS
    shared = counts[above] @ counts[below].T
    p, q = np.nonzero(shared >= dimension - 2)
    p, q = above[p], below[q]
    is_edge = np.zeros(len(p), dtype=np.bool_)
    size = 1 + 2**22 // max(1, len(tight))
    for start in range(0, len(p), size):
        chunk = slice(start, start + size)
        common = counts[p[chunk]] * counts[q[chunk]]
        holders = np.count_nonzero(common @ (1 - counts).T == 0, axis=1)
        is_edge[chunk] = holders == 2
    return p[is_edge], q[is_edge]
