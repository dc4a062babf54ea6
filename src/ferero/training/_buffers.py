"""Keeps a frozen dataclass of tensors in a module's buffers, so that it is saved and moved with the model."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

from torch import Tensor, nn

__all__ = ["load", "named"]

T = TypeVar("T")


def named(prefix: str, state: Any) -> dict[str, Tensor]:
    """The fields under the names of their buffers, ``prefix_field``."""
    return {key: getattr(state, name) for name, key in _keys(prefix, type(state))}


def load(module: nn.Module, prefix: str, kind: type[T]) -> T:
    """The dataclass, from the buffers."""
    return kind(**{name: module._buffers[key] for name, key in _keys(prefix, kind)})


def _keys(prefix: str, kind: type[Any]) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, f"{prefix}_{field.name}") for field in fields(kind))
