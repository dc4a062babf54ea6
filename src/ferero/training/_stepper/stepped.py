"""What one call of a stepper did, and what is in the making between calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ferero.preference import Preference
from ferero.training._stepper.snapshot import Kept

__all__ = ["StepCycle", "Stepped"]


@dataclass(frozen=True, eq=False)
class Stepped:
    """What a call of `Stepper.step` did.

    Attributes:
        losses: F of the batch, or of its first half, (m,); means over all ranks.
        weights: Those of this step, (m,).
        multipliers: ``[lam_f; lam_g; lam_h]``, (k + m_g + m_h,); None for methods that have none.
        stepped: Whether the optimizer took a step: once in ``accumulate`` calls.
        skipped: Whether the call was left out because something was not finite; in a captured graph a tensor.
    """

    losses: Tensor
    weights: Tensor
    multipliers: Tensor | None
    stepped: bool
    skipped: bool | Tensor
    preference: Preference = field(repr=False)

    @property
    def violation(self) -> Tensor:
        """``[G]_+`` then ``|H|`` of the losses, (m_g + m_h,)."""
        return self.preference.violation(self.losses)


@dataclass
class StepCycle:
    """The calls that together make one optimizer step.

    Attributes:
        kept: The buffers before the first call.
        calls: How many have been made.
        proposal: What will be remembered once the step has been taken; the weights first.
        seconds: The batches on which slopes will be taken.
        is_spoiled: Whether the gramian was not finite.
        before: Their losses before the step, where those were to be had early, (m,).
    """

    kept: Kept | None = None
    calls: int = 0
    proposal: Sequence[Tensor] = ()
    seconds: list[Any] = field(default_factory=list)
    is_spoiled: bool = False
    before: Tensor | None = None
