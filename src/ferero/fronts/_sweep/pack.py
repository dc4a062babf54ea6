"""A result as bytes: what a worker sends and what lies on disk, loadable by ``torch.load(..., weights_only=True)``.

Bytes and not objects, so that no tensor travels in shared memory, which would be gone with its worker, and so that a
file found on disk can run no code. The preference is not part of it: the sweep knows it.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ferero.errors import InputError
from ferero.fronts._trained import Course, Trained
from ferero.geometry import Cone
from ferero.optimize._certificate import KKT
from ferero.optimize._result import History, Result
from ferero.preference import Preference

__all__ = ["pack", "unpack"]

_PARTS = {"course": Course, "kkt": KKT, "history": History}
_ARRAY = "numpy array"  # the key of a tensor that was one


def pack(found: Trained | Result) -> bytes:
    """The result without its preference, its tensors copied to the CPU.

    Raises:
        InputError: for a state_dict that holds more than tensors, numbers, text and containers of these.
    """
    content = {"kind": type(found).__name__, **_fields(found)}
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def unpack(parcel: bytes, preference: Preference) -> Trained | Result:
    """What was packed, with its preference.

    Raises:
        Exception: of many kinds, for bytes that are no such parcel.
    """
    content = torch.load(io.BytesIO(parcel), map_location="cpu", weights_only=True)
    kind = {"Trained": Trained, "Result": Result}[content.pop("kind")]
    found: Trained | Result = kind(preference=preference, **{name: _restored(content[name], name) for name in content})
    if len(found.losses) != preference.m:
        raise InputError(f"parcel: expected {preference.m} losses, found {len(found.losses)}.")
    return found


def _fields(thing: Any) -> dict[str, Any]:
    return {
        field.name: _plain(getattr(thing, field.name), field.name)
        for field in fields(thing)
        if field.name != "preference"
    }


def _plain(value: Any, name: str) -> Any:
    """The value as tensors, numbers, text and containers of these."""
    if isinstance(value, (dict, list, tuple)):
        return _plain_items(value, name)
    if isinstance(value, Cone):
        return value.matrix
    if isinstance(value, tuple(_PARTS.values())):
        return _fields(value)
    if isinstance(value, np.ndarray):
        return {_ARRAY: torch.from_numpy(value.copy())}
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()  # a view would take its whole storage along
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is not None and not isinstance(plain, (bool, int, float, str, bytes)):
        raise InputError(
            f"train_one: {name} of what it returned: expected tensors, numbers, text and containers of these, found "
            f"{type(value).__name__}."
        )
    return plain


def _plain_items(value: dict[Any, Any] | list[Any] | tuple[Any, ...], name: str) -> Any:
    if not isinstance(value, dict):
        items = [_plain(item, f"{name}[{i}]") for i, item in enumerate(value)]
        return tuple(items) if isinstance(value, tuple) else items
    copied: dict[Any, Any] = OrderedDict() if isinstance(value, OrderedDict) else {}
    copied.update((key, _plain(item, f"{name}[{key!r}]")) for key, item in value.items())
    if hasattr(value, "_metadata"):  # of a module's state_dict: the versions of its layers
        copied._metadata = value._metadata  # type: ignore[attr-defined]
    return copied


def _restored(value: Any, name: str) -> Any:
    if name == "cone":
        return Cone(value)
    if name in _PARTS and value is not None:
        return _PARTS[name](**{key: _restored(item, key) for key, item in value.items()})
    if isinstance(value, dict) and set(value) == {_ARRAY}:
        return value[_ARRAY].numpy()
    return value
