"""State in a module's buffers: dataclasses of tensors kept there, and masked writes in place.

In buffers the state is saved and moved with the model. A captured CUDA graph reads tensors where they were when it was
captured, so they are only written in place, and a mask on the device decides what is written without a host sync.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

T = TypeVar("T")


def named(prefix: str, state: Any) -> dict[str, Tensor]:
    """The fields under the names of their buffers, ``prefix_field``."""
    return {key: getattr(state, name) for name, key in _keys(prefix, type(state))}  # type: ignore[arg-type]  # classes can be hashed


def load(module: nn.Module, prefix: str, kind: type[T]) -> T:
    """The dataclass, from the buffers."""
    return kind(**{name: module._buffers[key] for name, key in _keys(prefix, kind)})  # type: ignore[arg-type]


@cache  # every step asks
def _keys(prefix: str, kind: Any) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, f"{prefix}_{field.name}") for field in fields(kind))


def write(targets: Sequence[Tensor], values: Sequence[Tensor], where: Tensor | None = None) -> None:
    """Write values into targets of the same shapes, in few launches.

    Args:
        targets: Written to in place.
        values: In any type, on any device.
        where: Booleans on the device, () for all targets or (K,) for their leading dimension: where it is False
            everything stays as it is. A target without that dimension is written to.
    """
    if not targets:
        return
    if where is None:
        with torch.no_grad():
            torch._foreach_copy_(list(targets), list(values))
        return
    kinds: dict[tuple[torch.dtype, torch.device], list[int]] = {}
    for i, target in enumerate(targets):
        kinds.setdefault((target.dtype, target.device), []).append(i)
    with torch.no_grad():
        for (dtype, device), members in kinds.items():
            old = [targets[i] for i in members]
            new = [values[i].detach().to(device, dtype) for i in members]
            if where.ndim:
                new = [_masked(one, before, where.to(device)) for one, before in zip(new, old, strict=True)]
            else:
                flat = torch.where(where.to(device), _flat(new), _flat(old))
                parts = torch.split(flat, [tensor.numel() for tensor in old])
                new = [part.view(tensor.shape) for part, tensor in zip(parts, old, strict=True)]
            torch._foreach_copy_(old, new)


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def _masked(new: Tensor, old: Tensor, where: Tensor) -> Tensor:
    if old.shape[: where.ndim] != where.shape:
        return new
    return torch.where(where[(...,) + (None,) * (old.ndim - where.ndim)], new, old)
