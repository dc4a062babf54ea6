"""Losses beside the training: evaluated as often as one likes, and training never notices.

Buffers are put back, random numbers are the same at every look and the stream they come from goes on as if none had
been drawn, and under autocast no cast weight is taken from the cache: it would be that from before the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from ferero.errors import UnsupportedError
from ferero.training._stepper.branch import is_capturing
from ferero.training._stepper.snapshot import Kept, keep
from ferero.training._stepper.wrappers import reshard, sharded_parts

__all__ = ["Look", "forget_casts", "uncached"]

LossSums: TypeAlias = Callable[[nn.Module, Sequence[Any]], tuple[Tensor, Tensor | None]]


class Look:
    """Sees the same losses before and after a step.

    Args:
        model: What is looked at.
        sums: ``sums(model, batches)`` gives the sums of the losses over batches, (m,), and how many batches each
            occurred in, (m,); None for all.

    Attributes:
        is_random: Whether a look has drawn random numbers on a GPU.
    """

    def __init__(self, model: nn.Module, sums: LossSums | None = None) -> None:
        self.model, self._sums = model, sums
        self.is_random, self._sharded = False, sharded_parts(model)
        self._kept: Kept | None = None

    def sums(self, batches: Sequence[Any], seed: int) -> tuple[Tensor, Tensor | None]:
        """Sums of the losses and counts, (m,) each, without gradients."""
        assert self._sums is not None
        with torch.no_grad(), self.aside(seed):
            return self._sums(self.model, batches)

    @contextmanager
    def aside(self, seed: int) -> Iterator[None]:
        """Whatever is evaluated inside leaves buffers, random numbers and the autocast cache alone."""
        kept = self.keep()
        try:
            with self._same_random(seed), uncached():
                yield
        finally:
            kept.put_back()
            reshard(self._sharded)

    def keep(self) -> Kept:
        """The buffers as they are now."""
        self._kept = keep(self.model, self._kept)
        return self._kept

    def seed(self) -> int:
        """A seed that follows from the state of torch's random numbers, which stays as it is."""
        with torch.random.fork_rng(devices=[]):
            return int(torch.randint(2**62, ()))

    @contextmanager
    def _same_random(self, seed: int) -> Iterator[None]:
        if is_capturing():
            if self.is_random:
                raise UnsupportedError(
                    "model: it draws random numbers (dropout), which a captured CUDA graph cannot draw twice, so the "
                    'losses before and after a step would differ by them; take slopes="forward", or do not capture.'
                )
            yield
            return
        devices = _cuda_devices(self.model)
        with torch.random.fork_rng(devices=devices, device_type="cuda"):
            torch.default_generator.manual_seed(seed)
            for device in devices:
                torch.cuda.default_generators[device].manual_seed(seed)
            yield
            self.is_random |= any(torch.cuda.default_generators[device].get_offset() for device in devices)


def _cuda_devices(model: nn.Module) -> list[int]:
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return []
    return sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})


@contextmanager
def uncached() -> Iterator[None]:
    """Autocast as it is around, but every weight is cast anew."""
    was_on = torch.is_autocast_cache_enabled()
    forget_casts()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(was_on)
        forget_casts()


def forget_casts() -> None:
    """Empty the cache of cast weights, which knows nothing of optimizers."""
    torch.clear_autocast_cache()
