"""One question to K models at once: a function of a model and a batch, asked of all of them in one call."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ferero.errors import InputError
from ferero.training._ensemble.members import Members, Stacked
from ferero.training._losses import Losses, read_losses

__all__ = ["Function", "LossFunction", "Question", "ask_losses"]

LossFunction: TypeAlias = Callable[[Any, Any], Losses]
Function: TypeAlias = Callable[[nn.Module, Any], Any]


class Question(nn.Module):
    """``question(batch)``: the answers of all members, stacked; a tensor, or tensors by name.

    The function is given the structure itself with one member's tensors in its places, so that it may use the model as
    it likes. What `torch.vmap` cannot follow (``.item()``, control flow on values, some recurrent layers) is asked of
    one member after the other instead; a warning says so.

    Args:
        members: Who is asked.
        function: ``function(model, batch)``.
        is_own: Whether every member has a batch of its own, with a leading dimension K on its tensors.

    Attributes:
        is_vmapped: Whether they are asked together.
        is_settled: Whether that is known yet: after the first call.
    """

    def __init__(self, members: Members, function: Function, *, is_own: bool = False) -> None:
        super().__init__()
        self.structure = members.structure
        self._members, self._function, self._is_own = members, function, is_own
        self.is_vmapped, self.is_settled = True, False

    def forward(self, batch: Any) -> Any:
        """The answer of the structure as it stands."""
        return self._function(self.structure, batch)

    def of_all(self, batch: Any, stacked: Stacked | None = None) -> Any:
        """The answers of all members, or those with other tensors (K, ...) in the places of their own."""
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
            found = self._one_by_one(batch, stacked)  # a mistake of the caller's fails here again
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


def ask_losses(members: Members, loss_fn: LossFunction, names: Sequence[str], *, is_own: bool = False) -> Question:
    """The question for the losses: every member's (m,), in the order of the names."""
    device = members.parameters[0].device

    def read(model: nn.Module, batch: Any) -> Tensor:
        reading = read_losses(loss_fn(model, batch), None, names, device)
        if reading.counts is not None:
            raise InputError(
                f"loss_fn: expected a value of every loss ({', '.join(names)}) for every batch when many models are "
                "trained at once, found one missing; steer such models one by one with ferero.Steer."
            )
        return reading.values

    return Question(members, read, is_own=is_own)


def _of_member(batch: Any, k: int) -> Any:
    if isinstance(batch, Tensor):
        return batch[k]
    if isinstance(batch, Mapping):
        return {key: _of_member(value, k) for key, value in batch.items()}
    return type(batch)(_of_member(value, k) for value in batch)


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:200] if text else type(error).__name__
