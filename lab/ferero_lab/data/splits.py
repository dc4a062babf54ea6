"""A data set in three parts: images with labels that share no source image, or features that training scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

__all__ = ["Labelled", "Splits", "standardised"]


@dataclass(frozen=True)
class Labelled:
    """Images and one label for each task.

    Attributes:
        images: float32 in [0, 1], or uint8 for `multi_images`, (n, 1, height, width).
        labels: int64, (n, m), one column a task.
        sources: int64, (n, k), which of the source images each image is made of.
    """

    images: Tensor
    labels: Tensor
    sources: Tensor

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True)
class Splits:
    """A data set to train on, one to choose by and one to report; only the first has wrong labels.

    Attributes:
        train: its labels may be noisy.
        validation: clean.
        test: clean.
    """

    train: Labelled
    validation: Labelled
    test: Labelled


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
