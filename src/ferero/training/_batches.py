"""The batches of an ensemble: from any loader, or from tensors that stay on the device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, Protocol, TypeAlias

import torch
from torch import Tensor

from ferero.errors import InputError
from ferero.training._evaluate import moved

_LARGE = 2048  # examples at a time where no gradient is needed
_SHARED = 0  # the seed of an order that all members share
Order: TypeAlias = Literal["shared", "seed"]


class BatchSource(Protocol):
    """Gives the batches of an epoch, on the device.

    Attributes:
        is_own: Whether every member has a batch of its own.
    """

    is_own: bool

    @property
    def steps(self) -> int | None:
        """The number of batches in an epoch; None if unknown."""

    def epoch(self, number: int) -> Iterator[Any]:
        """The batches of one epoch."""

    def whole(self) -> Iterator[Any]:
        """All examples once, the same for every member; for evaluation, which leaves the next epoch as it is."""

    def state(self) -> list[Tensor]:
        """What the next epoch depends on, besides its number."""

    def go_on(self, state: list[Tensor]) -> None:
        """Restore that."""


class LoaderBatches:
    """The batches of a loader, moved to the device; in its order, the same for all members."""

    def __init__(self, loader: Iterable[Any], device: torch.device) -> None:
        self._loader, self._device, self.is_own = loader, device, False

    @property
    def steps(self) -> int | None:
        """The loader's length, if it has one."""
        try:
            return len(self._loader)  # type: ignore[arg-type]
        except TypeError:  # none, or that of a stream
            return None

    def epoch(self, number: int) -> Iterator[Any]:
        """One pass over the loader."""
        sampler = getattr(self._loader, "sampler", None)
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(number)  # type: ignore[union-attr]
        for batch in self._loader:
            yield moved(batch, self._device)

    def whole(self) -> Iterator[Any]:
        """One pass over the loader, whose generators are then restored."""
        state = self.state()
        try:
            for batch in self._loader:
                yield moved(batch, self._device)
        finally:
            self.go_on(state)

    def state(self) -> list[Tensor]:
        """The states of the loader's own generators."""
        return [generator.get_state() for generator in self._generators()]

    def go_on(self, state: list[Tensor]) -> None:
        """Restore them."""
        for generator, its_state in zip(self._generators(), state, strict=False):
            generator.set_state(its_state)

    def _generators(self) -> list[torch.Generator]:
        owners = (self._loader, getattr(self._loader, "sampler", None))
        found = [getattr(owner, "generator", None) for owner in owners]
        return [generator for generator in found if isinstance(generator, torch.Generator)]

    def __str__(self) -> str:
        return f"{self.steps} an epoch"


class TensorBatches:
    """Examples that stay on the device, shuffled at every epoch; an incomplete last batch is dropped.

    The order depends on seed and epoch only, so a resumed run sees the batches that it would have seen.

    Args:
        tensors: (n, ...) each.
        size: Examples in a batch.
        device: Where they are kept.
        seeds: The seeds of the members' orders, (K,); one seed for an order that all share.
    """

    def __init__(self, tensors: tuple[Tensor, ...], size: int, device: torch.device, seeds: list[int]) -> None:
        self._tensors = tuple(tensor.to(device) for tensor in tensors)
        self._size, self._device, self._seeds = size, device, seeds
        self.is_own = len(seeds) > 1

    @property
    def steps(self) -> int:
        """Whole batches in an epoch."""
        return len(self._tensors[0]) // self._size

    def order(self, number: int) -> Tensor:
        """Which examples each step of an epoch sees, (steps, size), or (steps, K, size) where orders differ."""
        n, used = len(self._tensors[0]), self.steps * self._size
        orders = {seed: _permutation(n, seed, number)[:used].view(self.steps, self._size) for seed in set(self._seeds)}
        order = torch.stack([orders[seed] for seed in self._seeds], dim=1) if self.is_own else orders[self._seeds[0]]
        return order.to(self._device)

    def take(self, indices: Tensor) -> tuple[Tensor, ...]:
        """The examples of a step."""
        return tuple(tensor[indices] for tensor in self._tensors)

    def epoch(self, number: int) -> Iterator[tuple[Tensor, ...]]:
        """The batches of one epoch."""
        for indices in self.order(number):
            yield self.take(indices)

    def whole(self) -> Iterator[tuple[Tensor, ...]]:
        """All examples, in order, in larger batches."""
        size = max(self._size, _LARGE)
        yield from zip(*(torch.split(tensor, size) for tensor in self._tensors), strict=True)

    def state(self) -> list[Tensor]:
        """Nothing: the order follows from the epoch's number."""
        return []

    def go_on(self, state: list[Tensor]) -> None:
        """Nothing to do."""

    def __str__(self) -> str:
        order = "of each seed's own" if self.is_own else "that all share"
        return f"{self.steps} an epoch, of {self._size} out of {len(self._tensors[0])} examples in an order {order}"


def read_batches(
    loader: Any, size: int | None, order: Order, device: torch.device, seeds: list[int], what: str = "loader"
) -> LoaderBatches | TensorBatches:
    """Read what a user passes as training data.

    Args:
        loader: An iterable of batches, or a tuple of tensors (n, ...).
        size: Examples in a batch, for tensors.
        order: "shared", or "seed" for members with an order of their own.
        device: Where to train.
        seeds: Of the members, (K,).
        what: The argument's name, for messages.

    Raises:
        InputError: Neither a loader nor tensors, a batch that is too large, or an order that a loader cannot give.
    """
    if isinstance(loader, tuple) and loader and all(isinstance(part, Tensor) for part in loader):
        n = _one_length(loader, what)
        if not isinstance(size, int) or not 1 <= size <= n:
            raise InputError(f"batch_size: expected a number from 1 to {n} to go with tensors, found {size!r}.")
        return TensorBatches(loader, size, device, seeds if order == "seed" else [_SHARED])
    if order != "shared":
        raise InputError(
            f'order: expected "shared" with a loader, whose batches all models see, found {order!r}; pass the data as '
            "a tuple of tensors with batch_size=."
        )
    if size is not None:
        raise InputError(
            f"batch_size: expected None with a loader, which has its own, found {size!r}; data to be split into "
            "batches are passed as a tuple of tensors."
        )
    if not isinstance(loader, Iterable) or iter(loader) is loader:
        raise InputError(
            f"{what}: expected a loader that can be iterated once an epoch, or a tuple of tensors, found "
            f"{type(loader).__name__}; pass a DataLoader or a list of batches."
        )
    return LoaderBatches(loader, device)


def read_examples(data: Any, device: torch.device, what: str) -> LoaderBatches | TensorBatches:
    """Read data that are only evaluated, in batches of any size."""
    is_tensors = isinstance(data, tuple) and bool(data) and all(isinstance(part, Tensor) for part in data)
    if is_tensors and _one_length(data, what) == 0:
        raise InputError(f"{what}: expected at least one example, found none.")
    return read_batches(data, 1 if is_tensors else None, "shared", device, [_SHARED], what)


def _one_length(tensors: tuple[Tensor, ...], what: str) -> int:
    shapes = [tuple(tensor.shape) for tensor in tensors]
    if len({shape[:1] for shape in shapes}) > 1 or not shapes[0]:
        raise InputError(f"{what}: expected tensors of one length, found shapes {', '.join(map(str, shapes))}.")
    return len(tensors[0])


def _permutation(n: int, seed: int, epoch: int) -> Tensor:
    generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)
    return torch.randperm(n, generator=generator)
