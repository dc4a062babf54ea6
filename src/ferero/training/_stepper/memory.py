"""What a stepper remembers between steps: the method's state, the last slopes, and the record for the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ferero.errors import InputError
from ferero.methods._method import Method
from ferero.preference import Preference
from ferero.training._controller import Controller, advance
from ferero.training._stepper.branch import Branch
from ferero.training._write import write

__all__ = ["Memory"]


class Memory(Controller):
    """A `Controller` whose step has two halves. Tensors are written in place, so that a captured graph finds them.

    A step first makes a proposal, which changes nothing, and accepts it once the step has been taken.

    Attributes:
        weights: Those of the last step, (m,).
        multipliers: The same, (k + m_g + m_h,); 1 for the order and 0 for constraints if the method has none.
        slopes: What the last step did, (m,); 0 before the first.
        has_slopes: 1 once there was one, ().
        has_multipliers: Whether the method gives any.
    """

    slopes: Tensor
    has_slopes: Tensor

    def __init__(self, preference: Preference, method: Method[Any]) -> None:
        super().__init__(preference, method)
        self.multipliers[: preference.A.shape[-2]] = 1.0
        self.register_buffer("slopes", torch.zeros(preference.m, dtype=torch.float64))
        self.register_buffer("has_slopes", torch.zeros((), dtype=torch.float64))
        kept = ("slopes", "has_slopes", "record_skipped")
        self._written = [name for name in self._buffers if name not in kept and not name.startswith("correction_")]

    def propose(
        self,
        means: Tensor,
        counts: Tensor | None = None,
        gramian: Tensor | None = None,
        branch: Branch | None = None,
    ) -> tuple[Tensor, ...]:
        """The weights (m,) for this step first, then what will be remembered if it is taken.

        Args:
            means: The losses, (m,).
            counts: How many batches are behind each, (m,), 0 for one that is missing; None for all.
            gramian: (m, m), for methods that read it.
            branch: Where the record, for which no step waits, may be made.
        """
        F = means.detach().double()
        present = None if counts is None or gramian is not None else counts > 0  # a gramian is of all losses
        slopes = self.slopes if "slopes" in self.method.requires else None
        beside = None if branch is None else branch.beside()
        state, self.has_multipliers = advance(
            self.preference, self.method, self.state, F, present=present, gramian=gramian, slopes=slopes, beside=beside
        )
        new = state.tensors()
        found = [new[name].to(F.device) for name in self._written]
        mine = {buffer.untyped_storage().data_ptr() for buffer in self.buffers()}
        return tuple(x.clone() if x.untyped_storage().data_ptr() in mine else x for x in found)

    def hold(self) -> Sequence[Tensor]:
        """A proposal to leave everything as it is."""
        return [self.get_buffer(name).clone() for name in self._written]

    def accept(self, proposal: Sequence[Tensor], slopes: Tensor | None, where: Tensor | None = None) -> None:
        """Remember a proposal and what its step did.

        Args:
            proposal: From :meth:`propose`.
            slopes: (m,), for methods that read them.
            where: A boolean scalar on the device: False leaves all as it was, and counts a batch that was skipped.
        """
        old = [self.get_buffer(name) for name in self._written]
        new = list(proposal)
        if slopes is not None:
            old += [self.slopes, self.has_slopes]
            new += [slopes, torch.ones_like(self.has_slopes)]
        write(old, new, where)
        if where is not None:
            self.get_buffer("record_skipped").add_(~where)

    def skip(self) -> None:
        """Count a batch that was left out."""
        self.get_buffer("record_skipped").add_(1)

    def take_over(self, saved: dict[str, Tensor]) -> None:
        """Take over what was saved.

        Raises:
            InputError: Other entries or shapes than these.
        """
        here = dict(self.named_buffers())
        shapes = {name: tuple(tensor.shape) for name, tensor in here.items()}
        found = {name: tuple(tensor.shape) for name, tensor in saved.items()}
        if shapes != found:
            different = min({*shapes.items()} ^ {*found.items()})[0]
            raise InputError(
                f"state_dict: expected {different} of shape {shapes.get(different)}, found {found.get(different)}; "
                "load it into a stepper with the same preference and method."
            )
        for name, tensor in here.items():
            tensor.copy_(saved[name])
