"""Reads what a training loop passes as its losses (a tensor, a list, or values by name) and finds their parameters."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from numbers import Real
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.utils.hooks import RemovableHandle

from ferero.errors import InputError, UnknownNameError
from ferero.preference._objectives import did_you_mean
from ferero.rates import Rate

Number: TypeAlias = Tensor | float
Losses: TypeAlias = Tensor | Sequence[Number | Rate | None] | Mapping[str, Number | Rate | None]
LossFunction: TypeAlias = Callable[[Any, Any], Losses]  # of a model and a batch
Counts: TypeAlias = Number | Sequence[Number] | Mapping[str, Number] | None
_WIDE = (torch.float32, torch.float64)


class Reading(NamedTuple):
    """The losses of one batch.

    Attributes:
        values: With the graph, (m,), float32 or wider; 0 where a loss is missing.
        counts: How many examples are behind each, (m,), 0 where it is missing; None for one each.
        places: The numbers of the losses, (n,), where values and counts are only of those that arrived; None for all.
    """

    values: Tensor
    counts: Tensor | None
    places: Tensor | None = None


def read_losses(
    losses: Losses, counts: Counts, names: Sequence[str], device: torch.device, keep_graph: bool = False
) -> Reading:
    """Put the losses of one batch into one tensor.

    Args:
        losses: (m,), m scalars, or scalars by name; a name may be absent or None.
        counts: The examples behind them: one number for all, (m,), or by name; None for one each.
        names: The losses' names, (m,).
        device: Where to put numbers that come without one.
        keep_graph: Whether a loss with a count of 0 stays in the graph, with a gradient of 0, as it must where other
            processes wait for this one's backward pass; else it is detached, which is safe even if it is NaN.

    Raises:
        InputError: A wrong number, shape or kind.
        UnknownNameError: A name that is none of the losses'.
    """
    losses, counts = unpack_rates(losses, counts, names)
    if isinstance(losses, Tensor) and losses.shape == (len(names),) and counts is None and not losses.is_complex():
        return Reading(losses if losses.dtype in _WIDE else losses.float(), None)
    values = _by_position(losses, names, "losses")
    amounts = _amounts(counts, names)
    present = [v is not None and (keep_graph or _may_be_some(n)) for v, n in zip(values, amounts, strict=True)]
    tensors = [_scalar(value, name, device) for value, name, here in zip(values, names, present, strict=True) if here]
    zero = _zero_like(tensors, device)
    given = iter(tensors)
    stacked = torch.stack([next(given).to(zero) if here else zero for here in present])
    if all(present) and counts is None:
        return Reading(stacked, None)
    numbers = [n if here else 0 for n, here in zip(amounts, present, strict=True)]
    known = _count_tensor(numbers, stacked)
    return Reading(torch.where(known > 0, stacked, zero), known)


def unpack_rates(losses: Losses, counts: Counts, names: Sequence[str]) -> tuple[Losses, Counts]:
    """The losses with every `ferero.rates.Rate` replaced by its loss, and the counts with those of the rates.

    Raises:
        InputError: A count beside a rate that has one.
    """
    given = losses.values() if isinstance(losses, Mapping) else losses if isinstance(losses, list | tuple) else ()
    if not any(isinstance(value, Rate) for value in given):
        return losses, counts
    values: list[Any] = list(_by_position(losses, names, "losses"))
    amounts = _amounts(counts, names)
    for i, (name, value) in enumerate(zip(names, values, strict=True)):
        if isinstance(value, Rate):
            if isinstance(counts, Mapping) and counts.get(name) is not None:
                raise InputError(
                    f"counts: expected none for {name!r}, which is a rate with a count of its own; omit it."
                )
            values[i], amounts[i] = value.loss, value.count
    return values, amounts


def read_values(values: Mapping[str, Any], names: Sequence[str], what: str = "values") -> list[float | None]:
    """Plain numbers by name, as floats in the order of ``names``: of Python, numpy, torch or JAX.

    Args:
        values: One number by name; a name may be absent or None.
        names: The losses' names, (m,).
        what: What they are called in errors.

    Returns:
        m numbers; None for those that are missing.

    Raises:
        InputError: A tensor that needs a gradient, or what is not one real number.
        UnknownNameError: A name that is none of the losses'.
    """
    positions = zip(names, _by_position(values, names, what), strict=True)
    return [None if value is None else _plain_number(value, name, what) for name, value in positions]


def _plain_number(value: Any, name: str, what: str) -> float:
    """One number without a graph."""
    if isinstance(value, Tensor) and value.requires_grad:
        raise InputError(
            f"{what}: expected a plain number for {name!r}, found a tensor that needs a gradient, which step cannot "
            "give it; pass its .detach() and apply the weights yourself, or use loss = ferero.Steer(...)(losses)."
        )
    shape, kind = tuple(getattr(value, "shape", ())), str(getattr(value, "dtype", ""))
    is_number = hasattr(value, "__float__") and not isinstance(value, complex) and "complex" not in kind
    if not is_number or math.prod(shape) != 1:
        found = f"shape {shape}; take its mean" if shape else f"{type(value).__name__} {value!r}"
        raise InputError(f"{what}: expected one real number for {name!r}, found {found}.")
    try:
        return float(value if shape == () else value.reshape(()))
    except TypeError as error:  # JAX's tracers have a shape and no value
        raise InputError(
            f"{what}: expected a number for {name!r}, found a {type(value).__name__}, which has no value yet; return "
            "the losses from the compiled function, and call step outside of it."
        ) from error


def check_attached(losses: Losses, names: Sequence[str], counts: Counts = None) -> None:
    """Refuse losses that no gradient can flow through.

    Raises:
        InputError: Naming the first of them.
    """
    losses, counts = unpack_rates(losses, counts, names)
    if isinstance(losses, Tensor):
        found = [] if losses.requires_grad else list(names[:1])
    else:
        present = zip(names, _by_position(losses, names, "losses"), _amounts(counts, names), strict=True)
        found = [
            name
            for name, value, count in present
            if value is not None and _may_be_some(count) and not getattr(value, "requires_grad", False)
        ]
    if found:
        raise InputError(
            f"losses: {found[0]!r} is not attached to the graph, so no gradient can reach the model; pass the loss "
            "itself, not its .item() or .detach(), with gradients enabled and something to train behind it. For one "
            "that is missing in this batch pass None, and not 0. For a "
            f"metric without a gradient pass a differentiable surrogate here, and to a Steer its measured value by "
            f"steer.observe({found[0]}=...)."
        )


def _by_position(values: Any, names: Sequence[str], what: str) -> list[Number | None]:
    if isinstance(values, Mapping):
        known = set(names)
        for name in values:
            if name not in known:
                hint = did_you_mean(str(name), names)
                raise UnknownNameError(
                    f"{what}: there is no loss {name!r}{hint}{'' if hint.endswith('?') else '.'} Losses have the "
                    "preference's names, which Preference.ray and its like take by names=."
                )
        return [values.get(name) for name in names]
    if isinstance(values, Tensor):
        if values.ndim == 0 and len(names) == 1:
            return [values]
        if values.ndim == 0:
            raise InputError(
                f"{what}: expected one for each of {', '.join(names)}, found a single number; pass them together, "
                f"{{{names[0]!r}: ..., {names[1]!r}: ...}}."
            )
        if values.shape != (len(names),):
            raise InputError(
                f"{what}: expected shape ({len(names)},), one number for each of {', '.join(names)}, found "
                f"{tuple(values.shape)}; reduce each to one number."
            )
        return list(values.unbind())
    if isinstance(values, Sequence) and not isinstance(values, str):
        if len(values) != len(names):
            raise InputError(f"{what}: expected {len(names)} of them ({', '.join(names)}), found {len(values)}.")
        return list(values)
    raise InputError(
        f"{what}: expected a tensor ({len(names)},), a list or {{name: value}}, found {type(values).__name__}."
    )


def _amounts(counts: Counts, names: Sequence[str]) -> list[Number]:
    """One count for each loss, 1 where none is given."""
    if counts is None:
        return [1.0] * len(names)
    amounts: list[Number]
    if isinstance(counts, Real) or (isinstance(counts, Tensor) and counts.ndim == 0):
        amounts = [counts] * len(names)  # type: ignore[list-item]
    else:
        amounts = [1.0 if n is None else n for n in _by_position(counts, names, "counts")]
    for name, n in zip(names, amounts, strict=True):
        if not isinstance(n, Tensor) and not 0 <= n < float("inf"):
            raise InputError(f"counts: expected a finite number >= 0 for {name!r}, found {n!r}.")
    return amounts


def _may_be_some(count: Number) -> bool:
    """Whether a count may be above 0; a tensor may, since reading it here would be a host sync."""
    return isinstance(count, Tensor) or count > 0


def _scalar(value: Any, name: str, device: torch.device) -> Tensor:
    if not isinstance(value, Tensor):
        if not isinstance(value, Real):
            raise InputError(f"losses: expected a scalar for {name!r}, found {type(value).__name__}.")
        return torch.tensor(float(value), device=device)
    if value.numel() != 1 or value.is_complex():
        raise InputError(
            f"losses: expected one real number for {name!r}, found shape {tuple(value.shape)}; take its mean."
        )
    return value if value.ndim == 0 else value.reshape(())


def _zero_like(tensors: Sequence[Tensor], device: torch.device) -> Tensor:
    """A zero in the widest type of the losses, where they are."""
    is_wide = any(tensor.dtype == torch.float64 for tensor in tensors)
    where = tensors[0].device if tensors else device
    return torch.zeros((), dtype=torch.float64 if is_wide else torch.float32, device=where)


def _count_tensor(counts: Sequence[Number], like: Tensor) -> Tensor:
    if any(isinstance(count, Tensor) for count in counts):
        return torch.stack([torch.as_tensor(count, dtype=like.dtype, device=like.device) for count in counts])
    return torch.tensor([float(count) for count in counts], dtype=like.dtype, device=like.device)


# the parameters behind a loss -----------------------------------------------------------------------------


def leaves_of(loss: Tensor, most_nodes: int | None = None) -> list[Tensor]:
    """The parameters in a loss's graph, nearest first; of the first ``most_nodes`` nodes only, where given."""
    return [node.variable for node in islice(_nodes(loss), most_nodes) if hasattr(node, "variable")]


def zero_gradients(losses: Tensor) -> list[RemovableHandle]:
    """Set every gradient that arrives at a parameter behind the losses to 0, until the handles are removed.

    For a batch that is refused on several ranks: each must still run its backward pass, or the others wait for ever,
    and multiplying the loss by 0 is not enough, since a gradient of 0 through a NaN is NaN.
    """
    return [leaf.register_hook(torch.zeros_like) for leaf in leaves_of(losses)]  # type: ignore[no-untyped-call]


def _nodes(loss: Tensor) -> Iterator[Node]:
    queue = deque([loss.grad_fn])
    seen: set[Node] = set()
    while queue:
        node = queue.popleft()
        if node is not None and node not in seen:
            seen.add(node)
            queue.extend(parent for parent, _ in node.next_functions)
            yield node
