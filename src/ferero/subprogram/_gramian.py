"""The gramian of the losses' gradients: its factor, and the checks of a matrix passed as one."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy
import torch
from torch import Tensor

from ferero._arrays import Array
from ferero.errors import InputError
from ferero.subprogram._program import EPSILON

__all__ = ["check_gramian", "check_gramians", "factor", "without_asymmetry"]

WELL_CONDITIONED = 1e-8  # the squared sine above which plain Cholesky is as good as any
TOLERANCE = 1e-6  # relative, or what the rounding of the given dtype can do where that is more


def factor(gramian: Array, tolerance: float | None = None) -> Array:
    """R (m, r) with ``R R^T = K``, by pivoted Cholesky of K scaled to unit diagonal: small gradients count.

    Args:
        gramian: K, (m, m).
        tolerance: The squared sine below which a gradient lies in the span of others; None for m roundings.
    """
    m = len(gramian)
    lower, failed = scipy.linalg.lapack.dpotrf(gramian, lower=1)
    if failed == 0 and (np.square(lower.diagonal()) > WELL_CONDITIONED * gramian.diagonal()).all():
        return np.asarray(lower)
    size, unit = _sizes(gramian)
    lower, pivots, rank, _ = scipy.linalg.lapack.dpstrf(
        gramian / (unit[:, None] * unit), tolerance or m * EPSILON, lower=1
    )
    root = np.empty((m, rank))
    root[pivots - 1] = (lower * _lower_triangle(m))[:, :rank]
    return np.asarray(size[:, None] * root)


def check_gramian(gramian: Array, rounding: float = EPSILON) -> Array:
    """Returns a finite matrix as the gramian that it is up to rounding: symmetric, positive semidefinite.

    Args:
        gramian: (m, m).
        rounding: Relative rounding of the type that it was given in.

    Raises:
        InputError: It is not symmetric, or has a negative eigenvalue, by more than rounding explains.
    """
    m = len(gramian)
    tolerance = max(TOLERANCE, 4 * m * rounding)
    if (gramian != gramian.T).any():
        skew = float(np.abs(gramian - gramian.T).max())
        if skew > tolerance * float(np.abs(gramian).max()):
            raise InputError(
                f"gramian: expected a symmetric matrix, gradF^T gradF, found entries that differ from their "
                f"mirror image by {skew:.3g}; compute it as J @ J.T from the (m, n) Jacobian J."
            )
        gramian = 0.5 * (gramian + gramian.T)
    raised = gramian.copy()
    raised.flat[:: m + 1] *= 1 + 4 * m * EPSILON
    return gramian if scipy.linalg.lapack.dpotrf(raised, clean=0)[1] == 0 else _positive_part(gramian, tolerance)


def check_gramians(gramians: Tensor) -> Array:
    """The same for several of any type, (P, m, m), each by the rounding of that type.

    Raises:
        InputError: One of them is no gramian.
    """
    rounding = torch.finfo(gramians.dtype if gramians.is_floating_point() else torch.float64).eps
    return np.array([check_gramian(one, rounding) for one in gramians.double().cpu().numpy()])


def without_asymmetry(gramian: Tensor) -> Tensor:
    """A gramian in float64, symmetric, and positive semidefinite by a ridge of its type's rounding; no host sync."""
    rounding = torch.finfo(gramian.dtype if gramian.is_floating_point() else torch.float64).eps
    K = gramian.double()
    ridge = gramian.shape[-1] * rounding * K.diagonal(dim1=-2, dim2=-1)
    return 0.5 * (K + K.mT) + torch.diag_embed(ridge)


def _positive_part(gramian: Array, tolerance: float) -> Array:
    """What is left of K without the negative eigenvalues that rounding made; K itself if there is none."""
    lowest, largest = np.linalg.eigvalsh(gramian)[[0, -1]]
    if lowest < -tolerance * max(largest, -lowest * tolerance):
        raise InputError(
            f"gramian: expected a positive semidefinite matrix, gradF^T gradF, found an eigenvalue of "
            f"{lowest:.3g} beside {largest:.3g}; compute it as J @ J.T from the (m, n) Jacobian J."
        )
    size, unit = _sizes(gramian)
    values, vectors = np.linalg.eigh(gramian / (unit[:, None] * unit))
    empty = size == 0
    if values[0] >= -4 * len(values) * EPSILON * values[-1] and not gramian[empty].any():
        return gramian
    root = size[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(root @ root.T)


def _sizes(gramian: Array) -> tuple[Array, Array]:
    """The gradients' norms (m,), and the same with 1 for 0."""
    size = np.sqrt(np.maximum(gramian.diagonal(), 0.0))
    return size, size if size.all() else np.where(size > 0, size, 1.0)


@lru_cache(maxsize=64)
def _lower_triangle(m: int) -> Array:
    return np.tri(m)
