"""Rows of the order that constraints hold, whatever the gradients."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from ferero.subprogram.program import Array

__all__ = ["held_rows"]


def held_rows(order: Array, inequalities: Array, equalities: Array) -> NDArray[np.bool_]:
    """Which rows have ``lam_f_i > 0`` in some ``A^T lam_f + B_g^T lam_g + B_h^T lam_h = 0``, lam_f, lam_g >= 0; (k,).

    Such a combination cannot fall while the constraints hold, so it proves every point weakly optimal. The solutions
    are a cone, and one linear program finds its largest support.

    Args:
        order: A, (k, m).
        inequalities: the active rows of B_g, (g, m).
        equalities: B_h, (h, m).
    """
    k, g, h = len(order), len(inequalities), len(equalities)
    if not k or not g + h:
        return np.zeros(k, dtype=bool)
    A, B_g, B_h = _unit(order), _unit(inequalities), _unit(equalities)
    is_row = np.abs(A).sum(axis=1) > 0
    columns = np.concatenate([A, A, B_g, B_h]).T  # shares of at most 1, the rest of lam_f, lam_g, lam_h
    bounds = [(0.0, float(one)) for one in is_row] + [(0.0, None)] * (k + g) + [(None, None)] * h
    gain = np.concatenate([-np.ones(k), np.zeros(k + g + h)])
    found = scipy.optimize.linprog(gain, A_eq=columns, b_eq=np.zeros(len(columns)), bounds=bounds, method="highs")
    if found.status != 0 or found.x is None:
        return np.zeros(k, dtype=bool)
    return np.asarray(found.x[:k] > 0.5)


def _unit(rows: Array) -> Array:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms > 0, norms, 1.0))
