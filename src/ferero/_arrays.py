"""Reads arrays of any library as float64 tensors; errors name the argument."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ferero.errors import InputError

__all__ = ["Array", "ArrayLike", "Mask", "check_finite", "to_float64", "to_vectors"]

Array: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
ArrayLike: TypeAlias = Tensor | npt.ArrayLike


def to_float64(value: ArrayLike, name: str) -> Tensor:
    """Returns ``value`` as a float64 tensor of the same shape that never requires a gradient.

    Args:
        value: Tensor (of any real dtype, on any device), array or nested lists.
        name: What the caller calls the argument; errors begin with it.

    Raises:
        InputError: ``value`` is not an array of real numbers.
    """
    if isinstance(value, Tensor):
        if value.is_complex():
            raise InputError(f"{name}: expected real numbers, found dtype {value.dtype}.")
        return value.detach().to(torch.float64)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name}: expected an array of numbers, found {type(value).__name__}: {error}") from None
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name}: expected an array of real numbers, found dtype {array.dtype}.")
    return torch.from_numpy(np.array(array, dtype=np.float64, order="C"))


def to_vectors(value: ArrayLike, name: str, m: int) -> Tensor:
    """Returns ``value`` as float64 (..., m).

    Raises:
        InputError: The last dimension is not ``m``.
    """
    vectors = to_float64(value, name)
    if vectors.ndim == 0 or vectors.shape[-1] != m:
        raise InputError(f"{name}: expected shape (..., {m}), a number for each loss, found {tuple(vectors.shape)}.")
    return vectors


def check_finite(tensor: Tensor, name: str, error: type[Exception] = InputError) -> None:
    """Raises ``error`` where ``tensor`` has an entry that is NaN or infinite, and says where."""
    if tensor.numel() and math.isfinite(tensor.detach().sum().item()):
        return  # one operation instead of five, at every training step; a sum that overflows is checked entry by entry
    bad = ~torch.isfinite(tensor)
    if bad.any():
        index = tuple(torch.nonzero(bad)[0].tolist())
        raise error(
            f"{name}: expected finite numbers, found {tensor[index].item()} at index {index}; "
            "remove it or replace it by a finite number."
        )
