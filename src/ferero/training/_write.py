"""Masked writes in place: what a captured graph reads stays where it is, and nobody asks the device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["write"]


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
