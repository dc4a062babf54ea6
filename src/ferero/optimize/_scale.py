"""The scales behind "relative": the size of a constraint's terms, of a loss's gradient, and of a parameter's share."""

from __future__ import annotations

import numpy as np

from ferero._arrays import Array, Mask

__all__ = [
    "DIVERGED",
    "constraint_scale",
    "gradient_scale",
    "relative_columns",
    "row_scale",
    "still_counts",
    "worst_share",
]

DIVERGED = 1e100  # losses and gradients beyond this are as good as infinite

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


def row_scale(rows: Array, offsets: Array, losses: Array) -> Array:
    """``|B||F| + |b|`` for each row, (..., k).

    A row that sets one loss to zero has no size of its own there; it is measured against the largest loss.

    Args:
        rows: B, (..., k, m).
        offsets: b, (..., k).
        losses: F, (..., m).
    """
    magnitude, size = np.abs(rows), np.abs(losses)
    scale = (magnitude @ size[..., None])[..., 0] + np.abs(offsets)
    to_zero = ((rows != 0).sum(axis=-1) == 1) & (offsets == 0)
    if to_zero.any():
        scale = np.where(to_zero, magnitude.max(axis=-1) * size.max(axis=-1, keepdims=True), scale)
    return np.where(scale > 0, scale, 1.0)


def constraint_scale(rows: Array, offsets: Array, losses: Array, spans: Array, in_x: Mask | None) -> Array:
    """The size against which a violation counts: ``min(|B||F| + |b|, |B| span)`` for each row, (..., k).

    A loss of 1e8 that varies by 5 is measured by the 5. A constraint in x is measured by how much it varies alone.
    What no number of that size can show is no violation.

    Args:
        rows: B, (..., k, m).
        offsets: b, (..., k).
        losses: F, as `still_counts` has them, (..., m).
        spans: how much each loss varies, (..., m).
        in_x: which rows are constraints in x, (..., k); None if none is.
    """
    terms = row_scale(rows, offsets, losses)
    varies = (np.abs(rows) @ spans[..., None])[..., 0]
    scale = np.minimum(terms, np.where(varies > 0, varies, np.inf))
    if in_x is None:
        return np.maximum(scale, VISIBLE * terms)
    own = (np.abs(rows) @ np.abs(losses)[..., None])[..., 0]
    alone = np.maximum(varies, VISIBLE * own)
    return np.where(in_x, np.where(alone > 0, alone, 1.0), np.maximum(scale, VISIBLE * terms))


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
    return np.asarray((np.abs(jacobian) / np.where(norms > 0, norms, np.inf)[..., None]).max(axis=-2))


def worst_share(slopes: Array, columns: Array) -> float:
    """A thousandth of the largest slope of a parameter relative to the largest that it had.

    In units that differ by orders of magnitude the norm of all slopes says nothing about the small ones: each parameter
    must have lost all but a thousandth of the slope that it had, where the norm must have lost all but a millionth.

    Args:
        slopes: of the weighted losses, relative to the size of their parts, (n,).
        columns: as `relative_columns` has them, the largest seen, (n,).
    """
    return COLUMN_WEIGHT * float((np.abs(slopes) / np.maximum(columns, COLUMN_SHARE)).max(initial=0.0))
