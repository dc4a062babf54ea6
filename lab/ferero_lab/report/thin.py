"""Fewer points where a screen cannot show them all: a page must stay small."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["thin_columns", "thin_curve", "thin_path"]


def thin_path(points: Any, most: int = 120) -> np.ndarray[Any, Any]:
    """The rows of a path that matter for its shape: even steps along its length, with both ends.

    Args:
        points: (T, m); lengths are measured in units of each column's range.
        most: rows to keep.

    Returns:
        (at most ``most``, m).
    """
    rows = np.asarray(points, dtype=float)
    if len(rows) <= most:
        return rows
    known = np.isfinite(rows)
    reach = np.where(known, rows, -np.inf).max(axis=0) - np.where(known, rows, np.inf).min(axis=0)
    steps = np.where(known[1:] & known[:-1], np.abs(np.diff(np.where(known, rows, 0.0), axis=0)), 0.0)
    length = np.concatenate([[0.0], np.cumsum((steps / np.where(reach > 0, reach, 1.0)).sum(axis=1))])
    if length[-1] == 0:
        return rows[[0, -1]]
    chosen = np.searchsorted(length, np.linspace(0.0, length[-1], most), side="left")
    chosen[-1] = len(rows) - 1
    return rows[np.unique(chosen)]


def thin_curve(x: Any, y: Any, *, log: bool = False, buckets: int = 300) -> np.ndarray[Any, Any]:
    """The indices of a curve that keep its envelope and its gaps.

    Of each of many buckets the lowest and the highest point stay, and of each gap its first point.

    Args:
        x: (T,).
        y: (T,).
        log: buckets are even in log x.
        buckets: how many; at most twice as many points are kept, besides gaps and the two ends.

    Returns:
        Indices in order.
    """
    across, values = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(across) <= 2 * buckets:
        return np.arange(len(across))
    if log:
        across = np.log(np.where(across > 0, across, np.nan))
    known = np.isfinite(across) & np.isfinite(values)
    if not known.any():
        return np.array([0, len(across) - 1])
    low, high = across[known].min(), across[known].max()
    which = np.zeros(len(across), dtype=int)
    if high > low:
        which[known] = np.minimum((across[known] - low) / (high - low) * buckets, buckets - 1).astype(int)
    gaps = np.flatnonzero(~known & np.concatenate([[True], known[:-1]]))
    keep = {0, len(across) - 1, *gaps.tolist()}
    for bucket in np.unique(which[known]):
        members = np.flatnonzero(known & (which == bucket))
        keep |= {int(members[values[members].argmin()]), int(members[values[members].argmax()])}
    return np.array(sorted(keep))


def thin_columns(x: Any, values: Any, most: int = 600) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A matrix with fewer columns: neighbours become their mean, over what is known of them.

    Args:
        x: positions of the columns, (T,).
        values: (rows, T).
        most: columns to keep.

    Returns:
        Positions (t,) and values (rows, t), t at most ``most``; NaN where nothing is known.
    """
    across, matrix = np.asarray(x, dtype=float), np.asarray(values, dtype=float)
    if len(across) <= most:
        return across, matrix
    starts = np.arange(0, len(across), -(-len(across) // most))
    known = np.isfinite(matrix)
    counts = np.add.reduceat(known, starts, axis=1, dtype=float)
    sums = np.add.reduceat(np.where(known, matrix, 0.0), starts, axis=1)
    sizes = np.diff(np.append(starts, len(across)))
    return np.add.reduceat(across, starts) / sizes, np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
