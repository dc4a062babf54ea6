"""`evaluate`: the mean of every loss over a whole loader."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, TypeAlias

import torch
from torch import Tensor, distributed, nn

from ferero.errors import FereroError, InputError, NonFiniteError, UnknownNameError
from ferero.preference import Objectives
from ferero.preference._objectives import did_you_mean

Scalar: TypeAlias = Tensor | float
Losses: TypeAlias = Tensor | Mapping[str, Scalar | None]
Counts: TypeAlias = int | Tensor | Mapping[str, int]
LossFunction: TypeAlias = Callable[[Any, Any], Losses | tuple[Losses, Counts]]


def evaluate(
    model: nn.Module,
    loss_fn: LossFunction,
    loader: Iterable[Any],
    *,
    names: Objectives | Sequence[str] | None = None,
    device: torch.device | str | None = None,
    reduce: bool = True,
) -> dict[str, float]:
    """The mean of every loss over all examples of a loader, in eval mode and without gradients.

    A loss that is l_b on average over the n_b examples of batch b has the value `sum_b n_b l_b / sum_b n_b`,
    summed in float64. The training mode of every submodule is restored afterwards, also after an error.

    Args:
        model: the model; passed to `loss_fn`.
        loss_fn: `loss_fn(model, batch)` returns the batch's mean losses: an (m,) tensor, or `{name: scalar}` in which
            a loss without examples is None or absent. It may return `(losses, counts)` with the number of examples
            behind each loss: one for all, an (m,) tensor in their order, or `{name: number}`; where it is 0 the loss is
            ignored. Without counts n_b is the length of the first tensor found in the batch (in any nesting of dict,
            list and tuple), 1 if there is none.
        loader: the batches.
        names: the losses (m,). None: f1..fm for tensors, else the names found, in order of first appearance.
        device: where batches are moved to. None: where the model's first parameter is; the CPU if it has none.
        reduce: whether to add up over all processes of an initialised `torch.distributed` group, each of which must
            call this. They first tell each other their names and errors, so that none waits for one that failed;
            then one `all_reduce` adds sums and counts.

    Returns:
        The value of each loss by name.

    Raises:
        InputError: for an empty loader, a loss that never arrived, or what is neither losses nor counts.
        UnknownNameError: for a loss that is none of `names`.
        NonFiniteError: for a loss that is NaN or infinite, naming it and the index of the batch.

    Example:
        >>> model = nn.Identity()
        >>> batches = [torch.tensor([1.0, 2.0]), torch.tensor([6.0])]
        >>> evaluate(model, lambda model, x: {"mean": model(x).mean(), "power": (model(x) ** 2).mean()}, batches)
        {'mean': 3.0, 'power': 13.666666666666666}
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"model: expected a torch.nn.Module, found {type(model).__name__}; wrap it in one")
    place = _device_of(model) if device is None else torch.device(device)
    known = _read_names(names)
    with eval_mode(model), torch.no_grad():
        if reduce and distributed.is_available() and distributed.is_initialized():
            totals = _total_of_group(model, loss_fn, loader, known, place)
        else:
            totals = _total(model, loss_fn, loader, known, place)
    return totals.means()


# sums -----------------------------------------------------------------------------------------------------


@dataclass
class _Totals:
    """Sums and counts of the losses so far, in float64 as Python's numbers are."""

    names: tuple[str, ...] | None
    batches: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.names or ():
            self.add(name, 0.0, 0.0)

    def add(self, name: str, value: float, count: float) -> None:
        self.sums[name] = self.sums.get(name, 0.0) + (value * count if count > 0 else 0.0)
        self.counts[name] = self.counts.get(name, 0.0) + count

    def means(self) -> dict[str, float]:
        if self.batches == 0:
            raise InputError("loader: expected at least one batch, found none; an iterator can be used only once")
        missing = [name for name, count in self.counts.items() if count == 0]
        if missing or not self.counts:
            found = ", ".join(f"'{name}'" for name in missing) or "any loss"
            raise InputError(
                f"loss_fn: expected a value of every loss in some batch, found none of {found} in {self.batches} "
                f"batches; give it a loader with examples of it, or leave it out"
            )
        return {name: total / self.counts[name] for name, total in self.sums.items()}


def _total(
    model: nn.Module, loss_fn: LossFunction, loader: Iterable[Any], names: tuple[str, ...] | None, device: torch.device
) -> _Totals:
    totals = _Totals(names)
    for index, batch in enumerate(loader):
        losses, counts = _parts(loss_fn(model, moved(batch, device)))
        values = _read_losses(losses, names)
        names = tuple(values) if isinstance(losses, Tensor) else names  # the first batch says how many
        numbers = _read_counts(examples(batch) if counts is None else counts, values)
        for name, value in values.items():
            count = 0.0 if value is None else numbers[name]
            if value is not None and count > 0 and not math.isfinite(value):
                raise NonFiniteError(
                    f"loss_fn: expected finite losses, found {name} = {value} in batch {index}; look at that batch, "
                    f"or return None where a loss has no examples"
                )
            totals.add(name, value or 0.0, count)
        totals.batches = index + 1
    return totals


def _total_of_group(
    model: nn.Module, loss_fn: LossFunction, loader: Iterable[Any], names: tuple[str, ...] | None, device: torch.device
) -> _Totals:
    """The totals of all processes, in all processes; what one of them refuses, all do."""
    own, error = _Totals(names), None
    try:
        own = _total(model, loss_fn, loader, names, device)
    except FereroError as refused:
        error = refused
    reports: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(reports, (tuple(own.sums), error))
    if error is not None:
        raise error
    for rank, (_, reported) in enumerate(reports):
        if reported is not None:
            raise type(reported)(f"process {rank}: {reported}")
    return _added_up(own, tuple(dict.fromkeys(name for found, _ in reports for name in found)), device)


def _added_up(own: _Totals, names: tuple[str, ...], device: torch.device) -> _Totals:
    is_on_cpu = distributed.get_backend() in {"gloo", "mpi"}
    numbers = [totals.get(name, 0.0) for totals in (own.sums, own.counts) for name in names]
    tensor = torch.tensor([*numbers, own.batches], dtype=torch.float64, device="cpu" if is_on_cpu else device)
    distributed.all_reduce(tensor)
    *summed, batches = tensor.tolist()
    sums, counts = summed[: len(names)], summed[len(names) :]
    return _Totals(names, int(batches), dict(zip(names, sums, strict=True)), dict(zip(names, counts, strict=True)))


# what loss_fn returns -------------------------------------------------------------------------------------


def _read_names(names: Objectives | Sequence[str] | None) -> tuple[str, ...] | None:
    if isinstance(names, str):
        raise InputError(f"names: expected a sequence of names, found '{names}'; write ('{names}',)")
    if names is None:
        return None
    return names.names if isinstance(names, Objectives) else tuple(names)


def _parts(returned: Any) -> tuple[Any, Any]:
    """Losses and counts, None where there are no counts."""
    if not isinstance(returned, tuple):
        return returned, None
    if len(returned) != 2:
        raise InputError(
            f"loss_fn: expected losses or a pair (losses, counts), found a tuple of {len(returned)}; "
            f"return a dict, or torch.stack the losses"
        )
    return returned


def _read_losses(losses: Any, names: tuple[str, ...] | None) -> dict[str, float | None]:
    if isinstance(losses, Mapping):
        for name in losses:
            if names is not None and name not in names:
                raise UnknownNameError(f"loss_fn: '{name}' is none of the losses{did_you_mean(str(name), names)}")
        return {name: None if value is None else _number(value, f"for '{name}'") for name, value in losses.items()}
    if not isinstance(losses, Tensor) or losses.ndim != 1:
        found = f"shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else f"{type(losses).__name__}"
        raise InputError(
            f"loss_fn: expected an (m,) tensor or a dict of scalars, found {found}; torch.stack the losses"
        )
    if names is not None and len(names) != len(losses):
        raise InputError(
            f"loss_fn: expected {len(names)} losses ({', '.join(names)}), found {len(losses)}; return one for each, "
            f"None in a dict for those without examples"
        )
    return dict(zip(names or (f"f{i + 1}" for i in range(len(losses))), losses.tolist(), strict=True))


def _read_counts(counts: Any, losses: Mapping[str, float | None]) -> dict[str, float]:
    names = list(losses)
    if isinstance(counts, Mapping):
        present = [name for name in names if losses[name] is not None]
        missing = [name for name in present if name not in counts]
        if missing:
            raise InputError(f"loss_fn: expected a count for every loss, found none for '{missing[0]}'; add it")
        numbers = {name: _number(counts[name], f"as the count of '{name}'") for name in present}
    elif isinstance(counts, Tensor) and counts.ndim > 0:
        if counts.shape != (len(names),):
            raise InputError(
                f"loss_fn: expected counts of shape ({len(names)},), found {tuple(counts.shape)}; count every loss"
            )
        numbers = dict(zip(names, map(float, counts.tolist()), strict=True))
    else:
        numbers = dict.fromkeys(names, _number(counts, "as the count"))
    for name, number in numbers.items():
        if not (math.isfinite(number) and number >= 0):
            raise InputError(f"loss_fn: expected counts >= 0, found {number} for '{name}'; count its examples")
    return numbers


def _number(value: Any, what: str) -> float:
    if isinstance(value, Tensor) and value.numel() == 1:
        return float(value.item())
    if not isinstance(value, Real):
        found = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"{value!r} ({type(value).__name__})"
        raise InputError(f"loss_fn: expected a number {what}, found {found}; take its mean, or leave it out")
    return float(value)


# the model and the batch ----------------------------------------------------------------------------------


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Eval mode inside, afterwards every submodule's own mode."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        yield
    finally:
        model.train(modes[0][1])  # some models do more than set a flag here
        for module, mode in modes:
            module.training = mode


def _device_of(model: nn.Module) -> torch.device:
    parameter = next(model.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


def moved(batch: Any, device: torch.device) -> Any:
    """A batch, in any nesting, on another device."""
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=True)
    if hasattr(batch, "to"):  # a library's own batch
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {key: moved(item, device) for key, item in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(moved(item, device) for item in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(moved(item, device) for item in batch)
    return batch


def examples(batch: Any) -> int:
    """The length of the first tensor in the batch, 1 if there is none."""
    first = next(_tensors(batch), None)
    return 1 if first is None else len(first)


def _tensors(batch: Any) -> Iterator[Tensor]:
    if isinstance(batch, Tensor):
        if batch.ndim > 0:
            yield batch
    elif isinstance(batch, Mapping | list | tuple):
        for item in batch.values() if isinstance(batch, Mapping) else batch:
            yield from _tensors(item)
