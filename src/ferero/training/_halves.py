"""Splits a batch of any nesting into two halves, for slopes that are independent of the gradient's noise."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import fields, is_dataclass
from enum import Enum
from numbers import Number
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from ferero.errors import InputError

Splitter: TypeAlias = Callable[[Any], tuple[Any, Any]]
Index: TypeAlias = slice | Tensor
_ATOMS = (str, bytes, Number, Enum, torch.dtype, torch.device, type(None))


def halve(batch: Any, generator: torch.Generator | None = None) -> tuple[Any, Any]:
    """The two halves of a batch along the first dimension of its tensors; of an odd number the first gets more.

    Tuples, lists, mappings, named tuples and dataclasses are traversed and rebuilt. Tensors and arrays are split,
    and so are lists of plain values (texts, numbers) of the batch's length, and lists of mappings, one an example;
    scalars and other plain values go to both.

    Args:
        batch: Any nesting of tensors (n, ...).
        generator: Draws the halves at random; None takes the first n / 2 examples and the rest, as views.

    Raises:
        InputError: Fewer than two examples, tensors of different lengths, or something that cannot be split.

    Example:
        >>> halve({"x": torch.arange(5), "text": list("abcde"), "scale": 2.0})[1]
        {'x': tensor([3, 4]), 'text': ['d', 'e'], 'scale': 2.0}
    """
    n = next(_lengths(batch), None)
    if n is None:
        n = next((len(item) for item in _plain_lists(batch)), None)
    if n is None:
        raise InputError(
            f"batch: expected tensors to halve, found none in {type(batch).__name__}; pass split=, a function from a "
            "batch to its two halves, or a second batch as twin=."
        )
    if n < 2:
        raise InputError(
            f"batch: expected at least two examples to halve, found {n}; use larger batches (and drop_last=True), or "
            "pass a second batch as twin=, or double_sampling=False."
        )
    border = (n + 1) // 2
    first: Index = slice(0, border)
    second: Index = slice(border, n)
    if generator is not None:
        order = torch.randperm(n, generator=generator, device=generator.device)
        first, second = order[:border], order[border:]
    return _take(batch, first, n, "batch"), _take(batch, second, n, "batch")


def _take(item: Any, index: Index, n: int, where: str) -> Any:
    """The examples of an index; ``where`` is how the item is reached, for messages."""
    if isinstance(item, Tensor | np.ndarray):
        return _take_rows(item, index, n, where)
    if _is_plain_list(item) or _is_list_of_examples(item):
        return _take_values(item, index, n, where)
    if isinstance(item, PackedSequence):
        raise InputError(_cannot(where, item))
    if isinstance(item, Mapping):
        return _rebuild(item, {key: _take(value, index, n, f"{where}[{key!r}]") for key, value in item.items()})
    if isinstance(item, tuple | list):
        parts = [_take(value, index, n, f"{where}[{i}]") for i, value in enumerate(item)]
        return type(item)(*parts) if hasattr(item, "_fields") else type(item)(parts)
    if is_dataclass(item) and not isinstance(item, type):
        parts_by_name = {f.name: _take(getattr(item, f.name), index, n, f"{where}.{f.name}") for f in fields(item)}
        return _with_parts(item, parts_by_name)
    if isinstance(item, _ATOMS):
        return item
    raise InputError(_cannot(where, item))


def _take_rows(item: Any, index: Index, n: int, where: str) -> Any:
    if item.ndim == 0:
        return item
    if isinstance(item, Tensor) and (item.is_nested or item.layout != torch.strided):
        raise InputError(_cannot(where, item))
    if len(item) != n:
        raise InputError(
            f"{where}: expected length {n}, that of the batch's first tensor, found shape {tuple(item.shape)}; pass "
            "split=, a function from a batch to its two halves, or a second batch as twin=."
        )
    if isinstance(index, slice):
        return item[index]
    return item.index_select(0, index.to(item.device)) if isinstance(item, Tensor) else item[index.cpu().numpy()]


def _take_values(item: Any, index: Index, n: int, where: str) -> Any:
    if len(item) != n and _is_list_of_examples(item):
        raise InputError(
            f"{where}: expected {n} examples, as the batch's first part has, found {len(item)}; pass split=, a "
            "function from a batch to its two halves, or a second batch as twin=."
        )
    if len(item) != n:
        return item
    return item[index] if isinstance(index, slice) else type(item)(item[i] for i in index.tolist())


def _with_parts(item: Any, parts: dict[str, Any]) -> Any:
    """A copy of a dataclass with other values, its frozen and computed fields included."""
    made = copy.copy(item)
    for name, part in parts.items():
        object.__setattr__(made, name, part)
    return made


def _rebuild(item: Mapping[Any, Any], parts: dict[Any, Any]) -> Any:
    if not isinstance(item, MutableMapping):
        return parts
    made = copy.copy(item)
    for key, part in parts.items():
        made[key] = part
    return made


def _lengths(item: Any) -> Iterator[int]:
    """Those of the tensors and arrays, in order."""
    if isinstance(item, Tensor | np.ndarray):
        if item.ndim > 0:
            yield len(item)
        return
    if _is_list_of_examples(item):
        yield len(item)
        return
    for part in _parts(item):
        yield from _lengths(part)


def _plain_lists(item: Any) -> Iterator[Any]:
    if _is_plain_list(item):
        yield item
        return
    for part in _parts(item):
        yield from _plain_lists(part)


def _parts(item: Any) -> Iterator[Any]:
    if isinstance(item, Mapping):
        yield from item.values()
    elif isinstance(item, tuple | list) and not isinstance(item, PackedSequence):
        yield from item
    elif is_dataclass(item) and not isinstance(item, type):
        yield from (getattr(item, field.name) for field in fields(item))


def _is_plain_list(item: Any) -> bool:
    """Whether it is a list or tuple of values that are not containers."""
    return (
        isinstance(item, tuple | list)
        and not hasattr(item, "_fields")
        and len(item) > 0
        and all(isinstance(value, _ATOMS) for value in item)
    )


def _is_list_of_examples(item: Any) -> bool:
    """Whether it is a list of mappings, each of which is one example."""
    is_list = isinstance(item, tuple | list) and not hasattr(item, "_fields") and len(item) > 0
    return is_list and all(isinstance(value, Mapping) for value in item)


def _cannot(where: str, item: Any) -> str:
    return (
        f"{where}: expected tensors, or lists, tuples, mappings or dataclasses of them, found {type(item).__name__}, "
        "which cannot be halved; pass split=, a function from a batch to its two halves, or a second batch as twin=."
    )
