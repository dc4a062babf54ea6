"""What a run is made of, in words that a checkpoint keeps: where they differ, it belongs to another run."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ferero.preference import Preference

__all__ = ["describe_optimizer", "describe_preferences", "describe_tensors"]

_FORMS = ("params", "foreach", "fused", "capturable", "differentiable", "initial_lr")  # the same numbers either way


def describe_preferences(stacked: Preference, preferences: Sequence[Preference]) -> str:
    """As they were written, which may round, with a mark of their numbers."""
    numbers = (stacked.A, stacked.B_g, stacked.b_g, stacked.margins, stacked.B_h, stacked.b_h)
    content = b"|".join(tensor.detach().cpu().double().numpy().tobytes() for tensor in numbers)
    return f"{'; '.join(str(preference) for preference in preferences)} (mark {_mark(content)})"


def describe_tensors(tensors: Mapping[str, Tensor]) -> str:
    """How many, with a mark of their names and shapes."""
    shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in tensors.items())
    return f"{len(tensors)} tensors (mark {_mark(shapes.encode())})"


def describe_optimizer(optimizer: torch.optim.Optimizer) -> str:
    """Its kind and the settings of its groups, before a schedule has moved them."""
    groups = [{key: value for key, value in group.items() if key not in _FORMS} for group in optimizer.param_groups]
    texts = [", ".join(f"{key}={_plain(value)}" for key, value in group.items()) for group in groups]
    return f"{type(optimizer).__name__}({'; '.join(texts)})"


def _plain(value: Any) -> Any:
    return f"{float(value):.6g}" if isinstance(value, Tensor | float) else value


def _mark(content: bytes) -> str:
    return f"{zlib.crc32(content):08x}"
