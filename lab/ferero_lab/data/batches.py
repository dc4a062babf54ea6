"""Which examples each step sees, without end and the same for every method that is compared."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ferero.errors import InputError

__all__ = ["batches"]


def batches(count: int, size: int, *, seed: int = 0) -> Iterator[Tensor]:
    """Endless minibatches of indices: every epoch is a fresh permutation of 0, ..., count - 1.

    Each batch has exactly ``size`` indices; the count % size examples left over at the end of an epoch wait for
    another epoch.

    Args:
        count: the number of examples.
        size: the number of examples in a batch.
        seed: the same seed gives the same batches; torch's own generator is not touched.

    Returns:
        An iterator over int64 tensors (size,).

    Raises:
        InputError: without examples, or unless 1 <= size <= count.

    Example:
        >>> stream = batches(5, 2)
        >>> len({int(i) for _ in range(2) for i in next(stream)})  # an epoch repeats nothing
        4
    """
    if count < 1:
        raise InputError(f"count: expected a positive number of examples, found {count}.")
    if not 1 <= size <= count:
        raise InputError(f"size: expected 1 to {count}, the number of examples, found {size}.")
    return _epochs(count, size, torch.Generator().manual_seed(seed))


def _epochs(count: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    while True:
        order = torch.randperm(count, generator=generator)
        yield from order[: count - count % size].view(-1, size)
