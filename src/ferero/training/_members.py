"""K models of one structure: stacked parameters and buffers, and functions evaluated on all of them in one call."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ferero.errors import InputError
from ferero.training._batches import BatchSource
from ferero.training._evaluate import eval_mode, examples
from ferero.training._losses import LossFunction, read_losses

Function: TypeAlias = Callable[[nn.Module, Any], Any]
Metrics: TypeAlias = Callable[[Any, Any], Mapping[str, Tensor]]
Stacked: TypeAlias = dict[str, Tensor]


class Members:
    """K models with the same structure and parameters of their own.

    Attributes:
        stacked: Parameters and buffers by name, (K, ...) each.
        trained: The names of those that are trained.

    Args:
        models: K modules, or fewer that are repeated in turn.
        copies: How often each of them is taken, so that K = copies * len(models); member k is ``models[k % S]``.
        device: Where to.

    Raises:
        InputError: None, or models whose parameters or buffers differ in name, shape, type or in being trained.
    """

    def __init__(self, models: Sequence[nn.Module], copies: int, device: torch.device) -> None:
        _check_alike(models)
        self.structure = models[0].to(device)
        self.count = copies * len(models)
        self.trained = [name for name, p in self.structure.named_parameters() if p.requires_grad]
        states = [dict(_named(model)) for model in models]
        self.stacked: Stacked = {name: _stack([s[name] for s in states], copies, device) for name in states[0]}
        for name in self.trained:
            self.stacked[name].requires_grad_()

    @property
    def parameters(self) -> list[Tensor]:
        """What is trained, (K, ...) each."""
        return [self.stacked[name] for name in self.trained]

    @property
    def buffers(self) -> list[Tensor]:
        """The buffers of the models, (K, ...) each."""
        names = dict(self.structure.named_buffers())
        return [tensor for name, tensor in self.stacked.items() if name in names]

    def state_dict(self, k: int) -> Stacked:
        """That of the k-th model, as its ``load_state_dict`` takes it."""
        wanted = self.structure.state_dict(keep_vars=True)
        key = {id(tensor): name for name, tensor in _named(self.structure)}
        return {
            name: self.stacked[key[id(part)]][k].detach().cpu().clone() if id(part) in key else part
            for name, part in wanted.items()  # a part that is neither parameter nor buffer is a module's extra state
        }


def _named(structure: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from structure.named_parameters()
    yield from structure.named_buffers()


def _stack(tensors: Sequence[Tensor], copies: int, device: torch.device) -> Tensor:
    one = torch.stack([tensor.detach().to(device) for tensor in tensors])
    return one.repeat(copies, *([1] * (one.ndim - 1)))


def _kind(tensor: Tensor) -> tuple[torch.Size, torch.dtype, bool]:
    """What must be the same in all models: a parameter that is frozen in one is frozen in all."""
    return tensor.shape, tensor.dtype, tensor.requires_grad


def _check_alike(models: Sequence[nn.Module]) -> None:
    if not models:
        raise InputError("models: expected at least one, found none.")
    for model in models:
        if not isinstance(model, nn.Module):
            raise InputError(
                f"make_model: expected a function that gives a torch.nn.Module, found {type(model).__name__}."
            )
    wanted = {name: _kind(tensor) for name, tensor in _named(models[0])}
    for i, model in enumerate(models):
        found = {name: _kind(tensor) for name, tensor in _named(model)}
        different = [name for name in {**wanted, **found} if wanted.get(name) != found.get(name)]
        if different:
            raise InputError(
                f"make_model: expected models of one structure, found that model {i} differs from the first in "
                f"{different[0]!r}; only the values of parameters may depend on the seed."
            )
    if not any(p.requires_grad for p in models[0].parameters()):
        raise InputError("make_model: expected something to train, found no parameter with requires_grad=True.")


# functions of all members -----------------------------------------------------------------------------------


class StackedFunction(nn.Module):
    """``function(model, batch)`` of all members in one call, with stacked results: a tensor, or tensors by name.

    The function receives the structure itself with one member's tensors in its places, and may use that model as it
    likes. What `torch.vmap` cannot follow (``.item()``, control flow on values, some recurrent layers) is evaluated for
    one member after the other instead, with a warning.

    Args:
        members: The models.
        function: ``function(model, batch)``.
        is_own: Whether every member has a batch of its own, with a leading dimension K on its tensors.

    Attributes:
        is_vmapped: Whether members are evaluated together.
        is_settled: Whether that is known yet: after the first call.
    """

    def __init__(self, members: Members, function: Function, *, is_own: bool = False) -> None:
        super().__init__()
        self.structure = members.structure
        self._members, self._function, self._is_own = members, function, is_own
        self.is_vmapped, self.is_settled = True, False

    def forward(self, batch: Any) -> Any:
        """The result of the structure as it stands."""
        return self._function(self.structure, batch)

    def of_all(self, batch: Any, stacked: Stacked | None = None) -> Any:
        """The results of all members, or those with other tensors (K, ...) in the places of their own."""
        tensors = self._members.stacked if stacked is None else stacked
        if not self.is_settled:
            return self._tried(batch, tensors)
        return self._together(batch, tensors) if self.is_vmapped else self._one_by_one(batch, tensors)

    def _tried(self, batch: Any, stacked: Stacked) -> Any:
        kept = [tensor.clone() for tensor in self._members.buffers]
        state = torch.random.get_rng_state()
        try:
            found = self._together(batch, stacked)
        except Exception as error:
            for tensor, old in zip(self._members.buffers, kept, strict=True):
                tensor.copy_(old)
            torch.random.set_rng_state(state)
            found = self._one_by_one(batch, stacked)  # an error of the caller's is raised again here
            self.is_vmapped = False
            warnings.warn(
                f"the {self._members.count} models are evaluated one after the other, since torch.vmap cannot follow "
                f"the function: {_first_line(error)}",
                stacklevel=4,
            )
        self.is_settled = True
        return found

    def _together(self, batch: Any, stacked: Stacked) -> Any:
        if self._is_own:
            return torch.vmap(self._of_one, in_dims=(0, 0), randomness="different")(stacked, batch)
        return torch.vmap(lambda own: self._of_one(own, batch), randomness="different")(stacked)

    def _one_by_one(self, batch: Any, stacked: Stacked) -> Any:
        split = {name: tensor.unbind(0) for name, tensor in stacked.items()}
        found = [
            self._of_one(
                {name: parts[k] for name, parts in split.items()}, _of_member(batch, k) if self._is_own else batch
            )
            for k in range(self._members.count)
        ]
        if isinstance(found[0], Mapping):
            return {key: torch.stack([one[key] for one in found]) for key in found[0]}
        return torch.stack(found)

    def _of_one(self, own: Stacked, batch: Any) -> Any:
        places = {f"structure.{name}": tensor for name, tensor in own.items()}
        found = functional_call(self, places, (batch,))
        with torch.no_grad():
            for name, tensor in own.items():
                if places[f"structure.{name}"] is not tensor:  # a buffer that was assigned anew, not written into
                    tensor.copy_(places[f"structure.{name}"])
        return found


def stacked_losses(
    members: Members, loss_fn: LossFunction, names: Sequence[str], *, is_own: bool = False
) -> StackedFunction:
    """The losses of every member, (K, m), in the order of the names."""
    device = members.parameters[0].device

    def read(model: nn.Module, batch: Any) -> Tensor:
        reading = read_losses(loss_fn(model, batch), None, names, device)
        if reading.counts is not None:
            raise InputError(
                f"loss_fn: expected a value of every loss ({', '.join(names)}) for every batch when many models are "
                "trained at once, found one missing; steer such models one by one with ferero.Steer."
            )
        return reading.values

    return StackedFunction(members, read, is_own=is_own)


def stacked_figures(
    members: Members,
    loss_fn: LossFunction,
    metrics: Metrics | None,
    names: Sequence[str],
    measured: Sequence[str] = (),
) -> StackedFunction:
    """The losses that a batch has by name, then metrics by theirs, (K,) each.

    A metric with the name of a loss that is measured elsewhere replaces it.

    Args:
        members: The models.
        loss_fn: ``loss_fn(model, batch)``.
        metrics: Further figures, or None.
        names: The losses' names, (m,).
        measured: Those of them that metrics measure.
    """
    device = members.parameters[0].device

    def figures(model: nn.Module, batch: Any) -> dict[str, Tensor]:
        reading = read_losses(loss_fn(model, batch), None, names, device)
        counts = [1.0] * len(names) if reading.counts is None else reading.counts.tolist()
        found = {name: value for name, value, n in zip(names, reading.values.unbind(), counts, strict=True) if n}
        if metrics is None:
            return found
        more = metrics(model, batch)
        if not isinstance(more, Mapping):
            raise InputError(f"metrics: expected figures by name, found {type(more).__name__}.")
        taken = [name for name in more if name in names and name not in measured]
        if taken:
            raise InputError(
                f"metrics: {taken[0]!r} is the name of a loss, whose value it would replace; give it another name, or "
                "let it drive the constraints by held_out=."
            )
        return {**found, **{name: torch.as_tensor(value, device=device) for name, value in more.items()}}

    return StackedFunction(members, figures)


def evaluate_members(figures: StackedFunction, batches: BatchSource, names: Sequence[str]) -> dict[str, Tensor]:
    """Means over all examples, in eval mode and without gradients; of the batches that have a loss where some do not.

    Args:
        figures: From `stacked_figures`.
        batches: The data.
        names: The losses that must be found.

    Returns:
        (K,) each, float64, on the device.

    Raises:
        InputError: No batch at all, or none with a certain loss.
    """
    totals: dict[str, Tensor] = {}
    counts: dict[str, int] = {}
    with eval_mode(figures.structure), torch.no_grad():
        for batch in batches.whole():
            n = examples(batch)
            for name, values in figures.of_all(batch).items():
                totals[name] = totals.get(name, 0.0) + n * values.double()
                counts[name] = counts.get(name, 0) + n
    if not counts:
        raise InputError("evaluate: expected at least one batch, found none; an iterator can be used only once.")
    missing = [name for name in names if name not in counts]
    if missing:
        raise InputError(f"evaluate: expected a value of every loss in some batch, found none of {', '.join(missing)}.")
    return {name: total / counts[name] for name, total in totals.items()}


def _of_member(batch: Any, k: int) -> Any:
    if isinstance(batch, Tensor):
        return batch[k]
    if isinstance(batch, Mapping):
        return {key: _of_member(value, k) for key, value in batch.items()}
    return type(batch)(_of_member(value, k) for value in batch)


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:200] if text else type(error).__name__
