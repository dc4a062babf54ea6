"""The scales behind "relative": the size of a constraint's terms, of a loss's gradient, and of a parameter's share."""

from __future__ import annotations

import math

import numpy as np

from ferero._arrays import Array, Mask

__all__ = [
    "DIVERGED",
    "RowSizes",
    "gradient_scale",
    "norm",
    "norms_of",
    "reach_of",
    "reaches_of",
    "relative_columns",
    "row_scale",
    "still_counts",
    "worst_share",
]

DIVERGED = 1e100  # losses and gradients beyond this are as good as infinite
REACH = 1.0  # of the parameters' size: the change of x over which a loss without another scale is measured

SEEN_SHARE = 1e-5  # of the largest gradient along the run that still counts
LOSS_SHARE = 1e-8  # of the losses at the start that still counts
VISIBLE = 1e-9  # of a row's terms: less than that, times the tolerance, is rounding
COLUMN_SHARE = 1e-8  # of a gradient: parameters that never had more count as having it
COLUMN_WEIGHT = 1e-3  # of one parameter's relative slope in the stationarity of all


def still_counts(losses: Array, first: Array) -> Array:
    """``|F|``, but at least a tiny share of it at the start, so that losses which all vanish have a scale.

    Args:
        losses: F, (..., m).
        first: at the start, (..., m).
    """
    return np.maximum(np.abs(losses), LOSS_SHARE * np.abs(first))


def norm(vector: Array) -> float:
    """The Euclidean norm of a vector (n,)."""
    return math.sqrt(vector.dot(vector))


def norms_of(vectors: Array) -> Array:
    """The Euclidean norms, (...), of vectors (..., n)."""
    return np.asarray(np.sqrt(np.einsum("...i,...i->...", vectors, vectors)))


def reaches_of(point: Array, jacobian: Array) -> Array:
    """By how much each loss changes, to first order, where x changes by its own size; (m,).

    Args:
        point: x, (n,).
        jacobian: gradF^T, (m, n).
    """
    return norms_of(jacobian) * reach_of(point)


def reach_of(point: Array) -> float:
    """The length of a change of x (n,) over which losses without another scale are measured."""
    return REACH * (norm(point) or 1.0)


class RowSizes:
    """The sizes of rows ``B F + b``, with what does not depend on F computed once.

    Args:
        rows: B, (k, m).
        offsets: b, (k,).
        in_x: which rows are constraints in x, (k,); None if none is.
    """

    def __init__(self, rows: Array, offsets: Array, in_x: Mask | None = None) -> None:
        self.magnitude, self._constants, self.in_x = np.abs(rows), np.abs(offsets), in_x
        to_zero = ((rows != 0).sum(axis=-1) == 1) & (offsets == 0)
        self._to_zero = to_zero if to_zero.any() else None
        self._largest = self.magnitude.max(axis=-1, initial=0.0)

    def terms(self, losses: Array) -> Array:
        """``|B||F| + |b|`` for each row, (k,).

        A row that sets one loss to zero has no size of its own there; it is measured against the largest loss.

        Args:
            losses: F, (m,).
        """
        size = np.abs(losses)
        scale = self.magnitude @ size + self._constants
        if self._to_zero is not None:
            scale = np.where(self._to_zero, self._largest * size.max(), scale)
        return scale if scale.all() else np.where(scale > 0, scale, 1.0)

    def varying(self, losses: Array, spans: Array) -> Array:
        """The size against which a violation counts: ``min(|B||F| + |b|, |B| span)`` for each row, (k,).

        A loss of 1e8 that varies by 5 is measured by the 5. A constraint in x is measured by how much it varies alone.
        What no number of that size can show is no violation.

        Args:
            losses: F, as `still_counts` has them, (m,).
            spans: how much each loss varies, (m,).
        """
        terms, varies = self.terms(losses), self.magnitude @ spans
        scale = np.minimum(terms, varies if varies.all() else np.where(varies > 0, varies, np.inf))
        scale = np.maximum(scale, VISIBLE * terms)
        if self.in_x is None:
            return scale
        alone = np.maximum(varies, VISIBLE * (self.magnitude @ np.abs(losses)))
        return np.where(self.in_x, np.where(alone > 0, alone, 1.0), scale)


def row_scale(rows: Array, offsets: Array, losses: Array) -> Array:
    """`RowSizes.terms` of rows (k, m) and offsets (k,) at losses (m,)."""
    return RowSizes(rows, offsets).terms(losses)


def gradient_scale(norms: Array, largest: Array) -> Array:
    """The size that each loss's gradient counts as having, (..., m).

    Its norm here, but no less than a hundred-thousandth of the largest seen, since all may vanish at once. One loss
    alone has nothing to cancel with, and is measured against the largest seen.

    Args:
        norms: at the point, (..., m).
        largest: along the run, with the start, (..., m).
    """
    if norms.shape[-1] == 1:
        return np.maximum(norms, largest)
    return np.maximum(norms, SEEN_SHARE * largest)


def relative_columns(jacobian: Array, norms: Array) -> Array:
    """``max_i |J_ij| / |J_i|``: the largest share of a loss's gradient that each parameter has, (..., n).

    Args:
        jacobian: gradF^T, (..., m, n).
        norms: of its rows, (..., m).
    """
    sizes = norms if norms.all() else np.where(norms > 0, norms, np.inf)
    return np.asarray((np.abs(jacobian) / sizes[..., None]).max(axis=-2))


def worst_share(slopes: Array, columns: Array) -> float:
    """A thousandth of the largest slope of a parameter relative to the largest that it had.

    In units that differ by orders of magnitude the norm of all slopes says nothing about the small ones: each parameter
    must have lost all but a thousandth of the slope that it had, where the norm must have lost all but a millionth.

    Args:
        slopes: of the weighted losses, relative to the size of their parts, (n,).
        columns: as `relative_columns` has them, the largest seen, (n,).
    """
    return COLUMN_WEIGHT * float((np.abs(slopes) / np.maximum(columns, COLUMN_SHARE)).max(initial=0.0))
