"""Backward passes that must run and leave nothing behind.

Where several processes train together, every one must take part in the backward pass of a refused batch, or the others
wait for ever. A gradient of 0 behind a NaN is NaN, so the zeros are put where gradients arrive: at the parameters.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from ferero.training._leaves import leaves_of

__all__ = ["stop_zeroing", "zero_gradients"]


def zero_gradients(losses: Tensor) -> list[RemovableHandle]:
    """Let every gradient that arrives at a parameter behind the losses be 0, until the handles are removed."""
    return [leaf.register_hook(torch.zeros_like) for leaf in leaves_of(losses)]  # type: ignore[no-untyped-call]


def stop_zeroing(handles: list[RemovableHandle]) -> None:
    """Let gradients through again."""
    while handles:
        handles.pop().remove()
