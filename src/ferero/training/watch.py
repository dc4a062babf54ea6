"""Raises for a batch that was not finite without making the host wait for the device.

On the CPU the answer is there at once. On a device the flag of each step is copied back behind the step's work and
looked at when the next step is asked for, one step late and always the same step on every rank.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ferero.errors import NonFiniteError

__all__ = ["Watch"]


class Watch:
    """Remembers the flag of the last step until it can be read for nothing."""

    def __init__(self) -> None:
        self._flag: Tensor | None = None
        self._event: torch.cuda.Event | None = None

    def note(self, is_finite: Tensor) -> None:
        """Begin to copy the flag of this step to the host."""
        self._flag = torch.empty(is_finite.shape, dtype=torch.bool, pin_memory=True)
        self._flag.copy_(is_finite, non_blocking=True)
        self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._event.record()

    def check(self) -> None:
        """Raise if the last step's losses were not finite.

        Raises:
            NonFiniteError: Neither weights nor multipliers have taken that step in.
        """
        flag, event, self._flag, self._event = self._flag, self._event, None, None
        if flag is None or event is None:
            return
        event.synchronize()
        if not bool(flag):
            raise NonFiniteError(
                "losses: those of the step before this one were not finite (on a GPU that is seen one step late); "
                "weights and multipliers did not take it in. Lower the learning rate, look for the batch, or pass "
                'on_nonfinite="skip".'
            )

    def __deepcopy__(self, memo: object) -> Watch:
        return Watch()

    def __getstate__(self) -> dict[str, None]:
        return {"_flag": None, "_event": None}
