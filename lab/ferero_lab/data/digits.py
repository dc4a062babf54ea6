"""The 1,797 handwritten digits of 8x8 pixels that scikit-learn carries: no download, so every test can train."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ferero.errors import MissingExtraError

__all__ = ["COUNT", "digits"]

COUNT = 1797


def digits() -> tuple[Tensor, Tensor]:
    """All digits in scikit-learn's order.

    Returns:
        The images, float32 in [0, 1], (1797, 8, 8), and which digit each shows, int64, (1797,).

    Raises:
        MissingExtraError: without scikit-learn; it comes with ``ferero-lab``.
    """
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError(
            "digits: scikit-learn is not installed; it comes with pip install ferero-lab."
        ) from None
    images, labels = load_digits(return_X_y=True)
    return (
        torch.from_numpy(np.asarray(images, dtype=np.float32) / 16).reshape(-1, 8, 8),
        torch.from_numpy(np.asarray(labels, dtype=np.int64)),
    )
