"""Features on a common scale, which the training part alone decides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["standardised"]


def standardised(train: np.ndarray, others: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Every part less the mean of the training rows, divided by their standard deviation.

    A column that is constant in the training part is only centred.

    Args:
        train: (n, d).
        others: parts (n_i, d) on the scale of the training part.

    Returns:
        The training part and the others, float32.
    """
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    constant = train.min(axis=0) == train.max(axis=0)
    scale = np.where(constant, 1.0, deviation)
    return [((part - mean) / scale).astype(np.float32) for part in (train, *others)]
