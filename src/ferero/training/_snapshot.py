"""Snapshots of a model's buffers, and evaluations of a model that leave no trace in its training.

Buffers are BatchNorm statistics and the like, which every forward pass in training mode changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from ferero.errors import UnsupportedError
from ferero.training._cuda import is_capturing
from ferero.training._distributed import fsdp2_modules, reshard

LossSums: TypeAlias = Callable[[nn.Module, Sequence[Any]], tuple[Tensor, Tensor | None]]


class _Slot(NamedTuple):
    """One buffer: its module and name, the tensor itself, a copy of its content, and its version counter."""

    module: nn.Module
    name: str
    tensor: Tensor | None
    content: Tensor | None
    version: int


class Snapshot:
    """The buffers of a model at one moment; see `take_snapshot`."""

    def __init__(self, slots: list[_Slot]) -> None:
        self._slots = slots

    @property
    def is_empty(self) -> bool:
        """Whether the model has no buffers at all."""
        return not self._slots

    def restore(self, unless: Tensor | None = None) -> None:
        """Undo writes into the buffers and replacements of them since.

        Args:
            unless: A boolean scalar on the device; where it is True they stay as they are now.
        """
        for module, name, tensor, content, version in self._slots:
            now = module._buffers.get(name)
            if now is not tensor:
                module._buffers[name] = _merged(unless, now, content if tensor is None else tensor)
            if tensor is not None and content is not None and _may_have_changed(tensor, version):
                with torch.no_grad():
                    tensor.copy_(content if unless is None else torch.where(unless, tensor, content))


def take_snapshot(model: nn.Module, earlier: Snapshot | None = None) -> Snapshot:
    """Copy the buffers of a model.

    Args:
        model: The model.
        earlier: A snapshot whose copies of buffers that were not written to since are used again.
    """
    # a replayed CUDA graph writes to buffers without counting on the host, so under capture nothing is used again
    known = {} if earlier is None or is_capturing() else {id(slot.tensor): slot for slot in earlier._slots}
    slots = []
    for module in model.modules():
        for name, tensor in module._buffers.items():
            old = None if tensor is None else known.get(id(tensor))
            if tensor is None:
                slots.append(_Slot(module, name, None, None, 0))
            elif old is not None and old.tensor is tensor and not _may_have_changed(tensor, old.version):
                slots.append(_Slot(module, name, tensor, old.content, old.version))
            else:
                slots.append(_Slot(module, name, tensor, tensor.detach().clone(), tensor._version))
    return Snapshot(slots)


def _may_have_changed(tensor: Tensor, version: int) -> bool:
    """Whether it was written to: always possible for floats, since BatchNorm's kernels do not count their writes."""
    return tensor.is_floating_point() or tensor._version != version


def _merged(unless: Tensor | None, now: Tensor | None, then: Tensor | None) -> Tensor | None:
    if unless is None or now is None or then is None or now.shape != then.shape:
        return then
    return torch.where(unless, now, then)


class IsolatedEvaluation:
    """Evaluates losses without side effects on training, with the same random numbers before and after a step.

    Buffers are restored, random streams continue as if nothing had been drawn, and under autocast no cast weight comes
    from the cache, which would be that from before the step.

    Args:
        model: What is evaluated.
        sums: ``sums(model, batches)`` gives the sums of the losses over batches, (m,), and how many batches each
            occurred in, (m,); None for all.

    Attributes:
        is_random: Whether an evaluation has drawn random numbers on a GPU.
    """

    def __init__(self, model: nn.Module, sums: LossSums | None = None) -> None:
        self.model, self._sums = model, sums
        self.is_random, self._sharded = False, fsdp2_modules(model)
        self._snapshot: Snapshot | None = None

    def sums(self, batches: Sequence[Any], seed: int) -> tuple[Tensor, Tensor | None]:
        """Sums of the losses and counts, (m,) each, without gradients."""
        assert self._sums is not None
        with torch.no_grad(), self.isolated(seed):
            return self._sums(self.model, batches)

    @contextmanager
    def isolated(self, seed: int) -> Iterator[None]:
        """Evaluations inside leave buffers, random streams and the autocast cache as they are."""
        snapshot = self.take_snapshot()
        try:
            with self._seeded(seed), _uncached_casts():
                yield
        finally:
            snapshot.restore()
            reshard(self._sharded)

    def take_snapshot(self) -> Snapshot:
        """The buffers as they are now."""
        self._snapshot = take_snapshot(self.model, self._snapshot)
        return self._snapshot

    def seed(self) -> int:
        """A seed drawn from torch's random stream, whose state stays as it is."""
        with torch.random.fork_rng(devices=[]):
            return int(torch.randint(2**62, ()))

    @contextmanager
    def _seeded(self, seed: int) -> Iterator[None]:
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
def _uncached_casts() -> Iterator[None]:
    """Autocast as outside, but every weight is cast anew."""
    was_on = torch.is_autocast_cache_enabled()
    torch.clear_autocast_cache()  # which an optimizer's step does not invalidate
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(was_on)
        torch.clear_autocast_cache()
