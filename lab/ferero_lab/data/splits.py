"""What every data set here is: images with labels, in three parts that share no source image."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

__all__ = ["Labelled", "Splits"]


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
