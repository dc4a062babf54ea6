"""K models of one structure as one: their parameters and buffers are stacked, and one call gives the losses of all."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ferero.errors import InputError
from ferero.training.losses import Losses, read_losses

__all__ = ["LossFunction", "Members"]

LossFunction: TypeAlias = Callable[[Any, Any], Losses]
Function: TypeAlias = Callable[[nn.Module, Any], Any]
Stacked: TypeAlias = dict[str, Tensor]


class Members:
    """K models with the same structure and parameters of their own.

    The loss function is given the structure itself with one member's parameters in its places, so that it may use
    the model as it likes. What `torch.vmap` cannot follow (``.item()``, control flow on values, some recurrent
    layers) is called once for each member instead; a warning says so.

    Attributes:
        stacked: Parameters and buffers by name, (K, ...) each.
        trained: The names of those that are trained.
        is_vmapped: Whether they are evaluated together.
        is_settled: Whether that is known yet: after the first call.

    Args:
        models: K modules, or fewer that are repeated in turn.
        copies: How often each of them is taken, so that K = copies * len(models); member k is ``models[k % S]``.
        device: Where to.

    Raises:
        InputError: None, or models whose parameters or buffers differ in name, shape or type.
    """

    def __init__(self, models: Sequence[nn.Module], copies: int, device: torch.device) -> None:
        _check_alike(models)
        self.structure = models[0].to(device)
        self.count = copies * len(models)
        self.trained = [name for name, p in self.structure.named_parameters() if p.requires_grad]
        states = [dict([*m.named_parameters(), *m.named_buffers()]) for m in models]
        self.stacked: Stacked = {name: _stack([s[name] for s in states], copies, device) for name in states[0]}
        for name in self.trained:
            self.stacked[name].requires_grad_()
        self.is_vmapped = True
        self.is_settled = False

    @property
    def parameters(self) -> list[Tensor]:
        """What is trained, (K, ...) each."""
        return [self.stacked[name] for name in self.trained]

    @property
    def buffers(self) -> list[Tensor]:
        """What the models keep beside their parameters, (K, ...) each."""
        names = dict(self.structure.named_buffers())
        return [tensor for name, tensor in self.stacked.items() if name in names]

    def state_dict(self, k: int) -> Stacked:
        """The k-th model's own, as its ``load_state_dict`` takes it."""
        wanted = self.structure.state_dict(keep_vars=True)
        key = {id(tensor): name for name, tensor in _named(self.structure)}
        return {name: self.stacked[key[id(tensor)]][k].detach().cpu().clone() for name, tensor in wanted.items()}

    # losses --------------------------------------------------------------------------------------------

    def losses(self, loss_fn: LossFunction, batch: Any, names: Sequence[str], *, is_own: bool = False) -> Tensor:
        """F of every member, (K, m).

        Args:
            loss_fn: ``loss_fn(model, batch)``.
            batch: The same for all, or with a leading dimension K on its tensors if ``is_own``.
            names: The losses' names, (m,).
            is_own: Whether every member has a batch of its own.
        """
        return self.losses_at(self.stacked, loss_fn, batch, names, is_own=is_own)

    def losses_at(
        self, stacked: Stacked, loss_fn: LossFunction, batch: Any, names: Sequence[str], *, is_own: bool = False
    ) -> Tensor:
        """The same with other tensors (K, ...) in the places of the members' own."""
        found: Tensor = self._call(_reading(loss_fn, names, self.parameters[0].device), stacked, batch, is_own=is_own)
        return found

    def map(self, function: Function, batch: Any, *, is_own: bool = False) -> Any:
        """``function(model, batch)`` for every member: a tensor or tensors by name, stacked."""
        return self._call(function, self.stacked, batch, is_own=is_own)

    def _call(self, function: Function, stacked: Stacked, batch: Any, *, is_own: bool) -> Any:
        if self.is_vmapped and self.is_settled:
            return self._vmapped(function, stacked, batch, is_own)
        if not self.is_vmapped:
            return self._looped(function, stacked, batch, is_own)
        kept = [tensor.clone() for tensor in self.buffers]
        state = torch.random.get_rng_state()
        try:
            found = self._vmapped(function, stacked, batch, is_own)
        except Exception as error:
            for tensor, old in zip(self.buffers, kept, strict=True):
                tensor.copy_(old)
            torch.random.set_rng_state(state)
            found = self._looped(function, stacked, batch, is_own)  # a mistake of the caller's fails here again
            self.is_vmapped = False
            warnings.warn(
                f"the {self.count} models are evaluated one after the other, since torch.vmap cannot follow the loss "
                f"function: {_first_line(error)}",
                stacklevel=4,
            )
        self.is_settled = True
        return found

    def _vmapped(self, function: Function, stacked: Stacked, batch: Any, is_own: bool) -> Any:
        def one(own: Stacked, its_batch: Any) -> Any:
            return _called(self.structure, function, own, its_batch)

        if is_own:
            return torch.vmap(one, in_dims=(0, 0), randomness="different")(stacked, batch)
        return torch.vmap(lambda own: one(own, batch), randomness="different")(stacked)

    def _looped(self, function: Function, stacked: Stacked, batch: Any, is_own: bool) -> Any:
        split = {name: tensor.unbind(0) for name, tensor in stacked.items()}
        found = [
            _called(
                self.structure,
                function,
                {name: parts[k] for name, parts in split.items()},
                _of_member(batch, k) if is_own else batch,
            )
            for k in range(self.count)
        ]
        if isinstance(found[0], Mapping):
            return {key: torch.stack([one[key] for one in found]) for key in found[0]}
        return torch.stack(found)


class _Call(nn.Module):
    """A function of a model and a batch as a module, so that torch can put other tensors into it."""

    def __init__(self, structure: nn.Module, function: Function) -> None:
        super().__init__()
        self.structure, self._function = structure, function
        self.training = structure.training

    def forward(self, batch: Any) -> Any:
        return self._function(self.structure, batch)


def _called(structure: nn.Module, function: Function, own: Stacked, batch: Any) -> Any:
    """The function of the structure with one member's tensors in its places."""
    return functional_call(_Call(structure, function), {f"structure.{name}": t for name, t in own.items()}, (batch,))


def _reading(loss_fn: LossFunction, names: Sequence[str], device: torch.device) -> Callable[[nn.Module, Any], Tensor]:
    """The loss function, its answer as one tensor (m,)."""

    def read(model: nn.Module, batch: Any) -> Tensor:
        reading = read_losses(loss_fn(model, batch), None, names, device)
        if reading.counts is not None:
            raise InputError(
                f"loss_fn: expected a value of every loss ({', '.join(names)}) for every batch when many models are "
                "trained at once, found one missing; steer such models one by one with ferero.Steer."
            )
        return reading.values

    return read


def _named(structure: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from structure.named_parameters()
    yield from structure.named_buffers()


def _stack(tensors: Sequence[Tensor], copies: int, device: torch.device) -> Tensor:
    one = torch.stack([tensor.detach().to(device) for tensor in tensors])
    return one.repeat(copies, *([1] * (one.ndim - 1)))


def _check_alike(models: Sequence[nn.Module]) -> None:
    if not models:
        raise InputError("models: expected at least one, found none.")
    for model in models:
        if not isinstance(model, nn.Module):
            raise InputError(
                f"make_model: expected a function that gives a torch.nn.Module, found {type(model).__name__}."
            )
    wanted = {name: (tensor.shape, tensor.dtype) for name, tensor in _named(models[0])}
    for i, model in enumerate(models):
        found = {name: (tensor.shape, tensor.dtype) for name, tensor in _named(model)}
        different = [name for name in {**wanted, **found} if wanted.get(name) != found.get(name)]
        if different:
            raise InputError(
                f"make_model: expected models of one structure, found that model {i} differs from the first in "
                f"{different[0]!r}; only the values of parameters may depend on the seed."
            )
    if not any(p.requires_grad for p in models[0].parameters()):
        raise InputError("make_model: expected something to train, found no parameter with requires_grad=True.")


def _of_member(batch: Any, k: int) -> Any:
    if isinstance(batch, Tensor):
        return batch[k]
    if isinstance(batch, Mapping):
        return {key: _of_member(value, k) for key, value in batch.items()}
    return type(batch)(_of_member(value, k) for value in batch)


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:200] if text else type(error).__name__
