"""Vectors, matrices and losses as this package wants them: checked copies, with shapes named in the error."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ferero._arrays import ArrayLike, check_finite, to_float64
from ferero.errors import InputError

__all__ = ["as_losses", "as_matrix", "as_vector", "no_preference"]


def as_vector(values: ArrayLike, argument: str, m: int | None = None) -> Tensor:
    """A finite float64 copy (m,) of `values`, on the CPU.

    Raises:
        InputError: for anything else than `m` (any positive number for None) finite numbers.
    """
    vector = to_float64(values, argument).cpu().clone()
    if vector.ndim != 1 or vector.numel() == 0:
        raise InputError(f"{argument}: expected a vector (m,), found shape {tuple(vector.shape)}")
    if m is not None and vector.numel() != m:
        raise InputError(f"{argument}: expected {m} numbers, found {vector.numel()}")
    check_finite(vector, argument)
    return vector


def as_matrix(values: ArrayLike, argument: str) -> Tensor:
    """A finite float64 copy (k, m) of `values`, on the CPU.

    Raises:
        InputError: for anything that is not a finite matrix with at least one column.
    """
    matrix = to_float64(values, argument).cpu().clone()
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise InputError(
            f"{argument}: expected a matrix (k, m), found shape {tuple(matrix.shape)}; "
            f"for several preferences use Preference.stack"
        )
    check_finite(matrix, argument)
    return matrix


def as_losses(losses: ArrayLike, m: int) -> Tensor:
    """`losses` (..., m) as a floating tensor, at least float32; lists and integers become float64.

    Tensors keep their device and their graph.

    Raises:
        InputError: when the last dimension is not `m`.
    """
    tensor = losses if isinstance(losses, Tensor) else _from_array(losses)
    if tensor.ndim == 0 or tensor.shape[-1] != m:
        raise InputError(f"losses: expected shape (..., {m}), found {tuple(tensor.shape)}")
    if not tensor.is_floating_point():
        return to_float64(tensor, "losses")
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _from_array(losses: ArrayLike) -> Tensor:
    """An array in its own precision, anything else in float64."""
    tensor = to_float64(losses, "losses")
    narrow = isinstance(losses, np.ndarray) and losses.dtype in (np.float16, np.float32)
    return tensor.to(torch.float32) if narrow else tensor


def no_preference(found: object) -> str:
    """What to write instead of something that is no preference."""
    instead = ""
    if isinstance(found, (list, tuple)):
        instead = "; constraints go into Preference(f, [...]), a ray into Preference.ray([...])"
    elif isinstance(found, str):
        instead = "; Preference.parse reads text"
    return f"expected a Preference, found {type(found).__name__}{instead}"
