"""The scales behind "relative": the size of a constraint's terms and of a loss's gradient at a point."""

from __future__ import annotations

import numpy as np

from ferero._arrays import Array

__all__ = ["DIVERGED", "gradient_scale", "row_scale", "still_counts"]

DIVERGED = 1e100  # losses and gradients beyond this are as good as infinite

SEEN_SHARE = 1e-5  # of the largest gradient along the run that still counts
LOSS_SHARE = 1e-8  # of the losses at the start that still counts


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
