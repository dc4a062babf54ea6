"""Keeps a frozen dataclass of tensors in a module's buffers, so that it is saved and moved with the model."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

__all__ = ["load", "register", "store"]

T = TypeVar("T")


def register(module: nn.Module, prefix: str, state: Any) -> None:
    """One buffer ``prefix_field`` for each field."""
    for field in fields(state):
        module.register_buffer(f"{prefix}_{field.name}", getattr(state, field.name).clone())


def load(module: nn.Module, prefix: str, kind: type[T]) -> T:
    """The dataclass, from the buffers."""
    return kind(**{f.name: module.get_buffer(f"{prefix}_{f.name}") for f in fields(kind)})  # type: ignore[arg-type]


def store(module: nn.Module, prefix: str, state: Any, accept: Tensor | None) -> None:
    """Write the dataclass into the buffers in place; where ``accept`` (a boolean scalar) is False, leave them."""
    for field in fields(state):
        buffer, new = module.get_buffer(f"{prefix}_{field.name}"), getattr(state, field.name)
        buffer.copy_(new if accept is None else torch.where(accept, new, buffer))
