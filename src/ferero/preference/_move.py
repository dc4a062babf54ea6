"""A preference's tensors on another device or in another dtype, or about losses that are counted from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ferero.errors import InputError

if TYPE_CHECKING:
    from ferero.preference._preference import Preference

__all__ = ["moved_fields", "shifted"]

_TENSORS = ("A", "B_g", "b_g", "margins", "B_h", "b_h", "_ray", "through")


def moved_fields(
    preference: Preference, device: torch.device | str | None, dtype: torch.dtype | None
) -> dict[str, Any]:
    """The fields that change when all tensors of `preference` and of its members are moved; empty if none does.

    Raises:
        InputError: for a dtype that is not floating, or in the place of the device.
    """
    if isinstance(device, torch.dtype):
        raise InputError(f"device: expected a device, found {device}; write to(dtype={device})")
    if dtype is not None and not dtype.is_floating_point:
        raise InputError(f"dtype: expected a floating dtype such as torch.float32, found {dtype}")
    tensors: dict[str, Tensor] = {
        name: tensor for name in _TENSORS if (tensor := getattr(preference, name)) is not None
    }
    moved: dict[str, Any] = {name: tensor.to(device=device, dtype=dtype) for name, tensor in tensors.items()}
    changed = {name: tensor for name, tensor in moved.items() if tensor is not tensors[name]}
    members = tuple(member.to(device, dtype) for member in preference.members)
    is_same = all(new is old for new, old in zip(members, preference.members, strict=True))
    return changed if is_same else {**changed, "members": members}


def shifted(preference: Preference, lower: Tensor) -> Preference:
    """The same preference about ``F - lower``, for lower (m,); a ray keeps its direction, and starts elsewhere."""
    through = None
    if preference.ray is not None:
        start = -lower if preference.through is None else preference.through - lower
        through = start if bool((start != 0).any()) else None
    values = {"b_g": preference.b_g + preference.B_g @ lower, "b_h": preference.b_h + preference.B_h @ lower}
    return type(preference)._of(**{**vars(preference), **values, "through": through})
