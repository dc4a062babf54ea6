"""The controller of a stepper: it proposes a step, commits it once the optimizer has taken it, and is saved with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ferero.errors import InputError
from ferero.methods._method import Method
from ferero.preference import Preference
from ferero.training._buffers import write
from ferero.training._controller import Controller, advance
from ferero.training._cuda import Branch

_VERSION = 3  # of saved states


class StepperController(Controller):
    """A `Controller` whose step is a proposal, which changes nothing, and a commit after the optimizer's step.

    Tensors are written in place, where a captured CUDA graph reads them.

    Attributes:
        weights: Those of the last step, (m,).
        multipliers: The same, (k + m_g + m_h,); 1 for the order and 0 for constraints if the method has none.
        slopes: Those of the last step, (m,); 0 before the first.
        has_slopes: 1 once there was a step, ().
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
        """The tensors to commit if the step is taken; the first are its weights (m,).

        Args:
            means: The losses, (m,).
            counts: How many batches are behind each, (m,), 0 for one that is missing; None for all.
            gramian: (m, m), for methods that read it.
            branch: Where the record, for which the step does not wait, may be computed.
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

    def propose_nothing(self) -> Sequence[Tensor]:
        """A proposal that leaves everything as it is."""
        return [self.get_buffer(name).clone() for name in self._written]

    def commit(self, proposal: Sequence[Tensor], slopes: Tensor | None, where: Tensor | None = None) -> None:
        """Take over a proposal and the slopes of its step.

        Args:
            proposal: From :meth:`propose`.
            slopes: (m,), for methods that read them.
            where: A boolean scalar on the device: False leaves everything as it was, and counts a skipped batch.
        """
        old = [self.get_buffer(name) for name in self._written]
        new = list(proposal)
        if slopes is not None:
            old += [self.slopes, self.has_slopes]
            new += [slopes, torch.ones_like(self.has_slopes)]
        write(old, new, where)
        if where is not None:
            self.get_buffer("record_skipped").add_(~where)

    def count_skipped(self) -> None:
        """Count a batch that was not finite."""
        self.get_buffer("record_skipped").add_(1)

    # checkpoints ---------------------------------------------------------------------------------------

    def saved_state(self, generator: torch.Generator | None) -> dict[str, Any]:
        """A copy of everything, of types that ``torch.load(weights_only=True)`` reads."""
        return {
            "version": _VERSION,
            **self._identity(),
            "memory": {name: tensor.detach().clone() for name, tensor in self.named_buffers()},
            "has_multipliers": self.has_multipliers,
            "generator": None if generator is None else generator.get_state(),
        }

    def load_saved(self, state: Any, generator: torch.Generator | None) -> None:
        """Continue from a saved state, or refuse it and change nothing.

        Raises:
            InputError: It was saved by another version, or for another preference or method.
        """
        if not isinstance(state, Mapping) or "version" not in state:
            raise InputError("state_dict: expected what Stepper.state_dict() gave, found something else; pass that.")
        if state["version"] != _VERSION:
            raise InputError(
                f"state_dict: expected version {_VERSION}, found {state['version']!r}; load it with the ferero that "
                "saved it, or start anew."
            )
        for what, expected in self._identity().items():
            if state.get(what) != expected:
                raise InputError(
                    f"state_dict: expected {what} {expected}, found {state.get(what)}; load it into a stepper with the "
                    "same preference and method, or leave it out to start anew."
                )
        if (state["generator"] is None) != (generator is None):
            found = "none" if state["generator"] is None else "one"
            raise InputError(f"state_dict: it was saved with {found} as generator=; pass the same to the stepper.")
        self._check_shapes(state["memory"])
        for name, tensor in self.named_buffers():
            tensor.copy_(state["memory"][name])
        self.has_multipliers = state["has_multipliers"]
        if generator is not None:
            generator.set_state(state["generator"].cpu())

    def _check_shapes(self, saved: dict[str, Tensor]) -> None:
        shapes = {name: tuple(tensor.shape) for name, tensor in self.named_buffers()}
        found = {name: tuple(tensor.shape) for name, tensor in saved.items()}
        if shapes != found:
            different = min({*shapes.items()} ^ {*found.items()})[0]
            raise InputError(
                f"state_dict: expected {different} of shape {shapes.get(different)}, found {found.get(different)}; "
                "load it into a stepper with the same preference and method."
            )

    def _identity(self) -> dict[str, Any]:
        """What a saved state must have in common with this controller."""
        preference = self.preference
        return {
            "names": list(preference.names),
            "rows": [preference.A.shape[-2], preference.m_g, preference.m_h],
            "method": type(self.method).__name__,
        }
