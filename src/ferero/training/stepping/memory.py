"""What a stepper remembers between steps: the method's state, the last slopes, and the record for the report."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor, nn

from ferero.errors import InputError
from ferero.methods.base import Method, Observation
from ferero.methods.rows import rows_of
from ferero.preference import Preference
from ferero.training import buffers
from ferero.training.record import Record, advance_record
from ferero.training.stepping.branch import Branch, write

__all__ = ["Memory"]


class Memory(nn.Module):
    """Tensors of fixed shapes, written in place, so that a captured graph finds them where they were.

    A step first makes a proposal, which changes nothing, and accepts it once the step has been taken.

    Attributes:
        weights: Those of the last step, (m,).
        multipliers: The same, (k + m_g + m_h,); 1 for the order and 0 for constraints if the method has none.
        slopes: What the last step did, (m,); 0 before the first.
        has_slopes: 1 once there was one, ().
        has_multipliers: Whether the method gives any.
    """

    weights: Tensor
    multipliers: Tensor
    slopes: Tensor
    has_slopes: Tensor

    def __init__(self, preference: Preference, method: Method[Any]) -> None:
        super().__init__()
        self.preference, self.method = preference, method
        state = method.init(preference)
        self._kind = type(state)
        self.has_multipliers = False
        rows, m = preference.m_g + preference.m_h, preference.m
        tensors = {
            "weights": preference.A.mean(dim=-2).clone(),
            "multipliers": torch.cat([preference.A.new_ones(preference.A.shape[-2]), preference.A.new_zeros(rows)]),
            "slopes": torch.zeros(m, dtype=torch.float64),
            "has_slopes": torch.zeros((), dtype=torch.float64),
            **{key: torch.as_tensor(value).clone() for key, value in buffers.named("method", state).items()},
            **buffers.named("record", Record.empty(m, rows)),
        }
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)
        self._written = [name for name in tensors if name not in ("slopes", "has_slopes", "record_skipped")]

    @property
    def state(self) -> Any:
        """The method's."""
        return buffers.load(self, "method", self._kind)

    @property
    def record(self) -> Record:
        """What was seen."""
        return buffers.load(self, "record", Record)

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
        with nullcontext() if branch is None else branch.beside():
            record = advance_record(self.record, rows_of(self.preference, F.device, F.dtype), F, F, present)
        slopes = self.slopes if "slopes" in self.method.requires else None
        observation = Observation(F, gramian=gramian, slopes=slopes, present=present)
        decision, state = self.method.update(self.preference, observation, self.state)
        self.has_multipliers = decision.multipliers is not None
        multipliers = self.multipliers if decision.multipliers is None else decision.multipliers
        remembered = [getattr(state, f.name) for f in fields(state)]
        remembered += [getattr(record, f.name) for f in fields(record) if f.name != "skipped"]
        found = [torch.as_tensor(x, device=F.device) for x in (decision.weights, multipliers, *remembered)]
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

    def write(self, saved: dict[str, Tensor]) -> None:
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
