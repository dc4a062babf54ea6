"""The digits that most tasks train on, flattened, and which of them each step sees."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice

import torch
from torch import Tensor, nn

from ferero_lab.data import batches
from ferero_lab.data.digits import digits
from ferero_lab.data.seeding import seeded

__all__ = ["classifier", "flat_digits", "minibatch"]


@lru_cache(maxsize=1)
def flat_digits() -> tuple[Tensor, Tensor]:
    """Images (1797, 64) in [0, 1], and which digit each shows (1797,)."""
    images, labels = digits()
    return images.reshape(-1, 64), labels


def minibatch(count: int, size: int, step: int, seed: int) -> Tensor:
    """Which of ``count`` examples the step sees, (size,)."""
    block = 1000
    return _block(count, size, seed, step // block * block, block)[step % block]


@lru_cache(maxsize=4)
def _block(count: int, size: int, seed: int, first: int, length: int) -> Tensor:
    return torch.stack(list(islice(batches(count, size, seed=seed), first, first + length)))


def classifier(seed: int, hidden: int = 16, outputs: int = 10) -> nn.Module:
    """One hidden layer of tanh units."""
    with seeded(seed):
        return nn.Sequential(nn.Linear(64, hidden), nn.Tanh(), nn.Linear(hidden, outputs))
