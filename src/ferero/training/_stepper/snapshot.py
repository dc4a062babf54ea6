"""Buffers of a model as they were: BatchNorm statistics and the like, which every forward pass in training moves."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ferero.training._stepper.branch import is_capturing

__all__ = ["Kept", "keep"]


class _Slot(NamedTuple):
    """One buffer: where it hangs, the tensor itself, what was in it, and how often it had been written to."""

    module: nn.Module
    name: str
    tensor: Tensor | None
    content: Tensor | None
    version: int


class Kept:
    """What the buffers of a model were at one moment; see `keep`."""

    def __init__(self, slots: list[_Slot]) -> None:
        self._slots = slots

    @property
    def is_empty(self) -> bool:
        """Whether the model has no buffers at all."""
        return not self._slots

    def put_back(self, unless: Tensor | None = None) -> None:
        """Undo what was written into the buffers or put in their places since.

        Args:
            unless: A boolean scalar on the device; where it is True they stay as they are now.
        """
        for module, name, tensor, content, version in self._slots:
            now = module._buffers.get(name)
            if now is not tensor:
                module._buffers[name] = _merge(unless, now, content if tensor is None else tensor)
            if tensor is not None and content is not None and _may_have_changed(tensor, version):
                with torch.no_grad():
                    tensor.copy_(content if unless is None else torch.where(unless, tensor, content))


def keep(model: nn.Module, earlier: Kept | None = None) -> Kept:
    """Remember the buffers of a model.

    Args:
        model: The model.
        earlier: What was kept before: copies of buffers that nobody has written to since serve again.
    """
    # what a CUDA graph replays writes to buffers without telling the host: there nothing serves again
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
    return Kept(slots)


def _may_have_changed(tensor: Tensor, version: int) -> bool:
    """Whether it was written to; BatchNorm's kernels do not count what they write, so numbers always may have been."""
    return tensor.is_floating_point() or tensor._version != version


def _merge(unless: Tensor | None, now: Tensor | None, then: Tensor | None) -> Tensor | None:
    if unless is None or now is None or then is None or now.shape != then.shape:
        return then
    return torch.where(unless, now, then)
