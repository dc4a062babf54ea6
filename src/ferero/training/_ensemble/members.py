"""K models of one structure as one: their parameters and buffers are stacked, and one call gives the losses of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from ferero.errors import InputError
from ferero.training._losses import Losses

__all__ = ["LossFunction", "Members"]

LossFunction: TypeAlias = Callable[[Any, Any], Losses]
Function: TypeAlias = Callable[[nn.Module, Any], Any]
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
        states = [dict([*m.named_parameters(), *m.named_buffers()]) for m in models]
        self.stacked: Stacked = {name: _stack([s[name] for s in states], copies, device) for name in states[0]}
        for name in self.trained:
            self.stacked[name].requires_grad_()

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
