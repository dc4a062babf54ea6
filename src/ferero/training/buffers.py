"""Keeps a frozen dataclass of tensors in a module's buffers, so that it is saved and moved with the model."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

__all__ = ["load", "named", "store"]

T = TypeVar("T")


def named(prefix: str, state: Any) -> dict[str, Tensor]:
    """The fields under the names of their buffers, ``prefix_field``."""
    return {key: getattr(state, name) for name, key in _keys(prefix, type(state))}


def load(module: nn.Module, prefix: str, kind: type[T]) -> T:
    """The dataclass, from the buffers."""
    return kind(**{name: module._buffers[key] for name, key in _keys(prefix, kind)})


def store(module: nn.Module, prefix: str, state: Any, accept: Tensor | None) -> None:
    """Write the dataclass into the buffers in place; where ``accept`` (a boolean scalar) is False, leave them."""
    keys = _keys(prefix, type(state))
    old: list[Any] = [module._buffers[key] for _, key in keys]
    new: list[Tensor] = [getattr(state, name) for name, _ in keys]
    if accept is None:
        torch._foreach_copy_(old, new)
        return
    change = torch._foreach_sub(new, old)
    torch._foreach_mul_(change, accept.to(change[0].dtype))
    torch._foreach_add_(old, change)


def _keys(prefix: str, kind: type[Any]) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, f"{prefix}_{field.name}") for field in fields(kind))
