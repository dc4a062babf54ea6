"""Two rows in the order and no constraints: the multipliers lie on a segment, and a parabola has one foot."""

from __future__ import annotations

import numpy as np

from ferero._arrays import Array

__all__ = ["on_segment"]


def on_segment(quadratic: Array, linear: Array, simplex: Array) -> Array:
    """Minimise ``1/2 lam.Q lam - q.lam`` over ``lam >= 0``, ``a.lam = 1`` for two multipliers.

    Args:
        quadratic: Q, (..., 2, 2), symmetric positive semidefinite.
        linear: q, (..., 2).
        simplex: a, (..., 2), positive.

    Returns:
        lam, (..., 2).
    """
    first, second = 1.0 / simplex[..., 0], 1.0 / simplex[..., 1]
    own, mixed, other = (
        quadratic[..., 0, 0] * first * first,
        quadratic[..., 0, 1] * first * second,
        quadratic[..., 1, 1] * second * second,
    )
    curvature = own - 2.0 * mixed + other
    slope = other - mixed + linear[..., 0] * first - linear[..., 1] * second
    flat = curvature <= 0
    share = np.where(flat, slope > 0, slope / np.where(flat, 1.0, curvature))
    share = np.minimum(np.maximum(share, 0.0), 1.0)
    return np.stack([share * first, (1.0 - share) * second], axis=-1)
