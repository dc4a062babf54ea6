"""From inequalities to rays and back, by the double-description method.

A cone has two descriptions, ``{y : A y >= 0}`` and ``{Y c : c >= 0}``, and one algorithm turns either into
the other: the facets of ``cone(Y)`` are the extreme rays of its dual ``{a : Y^T a >= 0}``. Which inequalities
hold with equality on a new ray follows from its parents and is not read off from rounded numbers, so that
degenerate cones (many facets through one ray) yield each ray once.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy

__all__ = ["ROUNDOFF", "Array", "Generators", "Mask", "extreme_rays", "irredundant", "unit_rows"]

Array: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Indices: TypeAlias = npt.NDArray[np.intp]

# The sine of an angle that rounding can produce: twelve bits above the precision of unit vectors in float64.
ROUNDOFF = float(2**12 * np.finfo(np.float64).eps)


class Generators(NamedTuple):
    """The cone ``{y : V y >= 0}`` as ``span(lineality) + cone(rays)``.

    Attributes:
        rays: Unit rows (r, m), orthogonal to the lineality, none of them redundant.
        lineality: Orthonormal rows (l, m). The cone is pointed if and only if l is 0.
        tight: (r, n), where inequality j holds with equality on ray i.
    """

    rays: Array
    lineality: Array
    tight: Mask


def unit_rows(V: Array) -> Array:
    """Returns the rows of ``V`` (n, m), none of them zero, with length one, whatever their magnitude."""
    scaled = V / np.abs(V).max(axis=1, keepdims=True)
    return np.asarray(scaled / np.linalg.norm(scaled, axis=1, keepdims=True), dtype=np.float64)


def extreme_rays(V: Array) -> Generators:
    """Finds generators of ``{y : V y >= 0}``.

    The search starts from a largest set of independent inequalities, well conditioned by pivoting, whose cone
    is simplicial; the others then cut it one at a time.

    Args:
        V: Unit rows (n, m).
    """
    Q, triangle, pivots = scipy.linalg.qr(V.T, pivoting=True)
    diagonal = np.abs(np.diagonal(triangle))
    rank = int(np.count_nonzero(diagonal > ROUNDOFF * diagonal[0]))
    basis, others = np.sort(pivots[:rank]), np.sort(pivots[rank:])
    inverse = np.linalg.inv(V[basis]) if rank == V.shape[1] else np.linalg.pinv(V[basis])
    rays = unit_rows(np.asarray(inverse.T, dtype=np.float64))
    tight = np.zeros((rank, len(V)), dtype=np.bool_)
    tight[:, basis] = ~np.eye(rank, dtype=np.bool_)
    for row in others:
        rays, tight = _cut(rays, tight, V[row], row, rank)
    return Generators(rays, np.asarray(Q[:, rank:].T, dtype=np.float64), tight)


def irredundant(tight: Mask) -> Indices:
    """Finds which inequalities of a cone with interior are facets, given the rays on which they are tight.

    An inequality is a facet unless another one is tight on the same rays and more. Of several that are tight
    on the same rays, hence equal, the first stands for all.

    Args:
        tight: (r, n), of :class:`Generators`.

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
    return np.vstack([rays[keep], unit_rows(crossing)]), np.vstack([kept, shared])


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
