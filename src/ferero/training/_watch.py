"""Raises for batches that were not finite without making the host wait for the device.

Every few steps the count of such batches is copied back behind the work in flight, and looked at when the next step is
asked for: late by a fixed number of steps, the same on every rank. Until then they change nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ferero.errors import NonFiniteError

__all__ = ["EVERY", "Watch"]

EVERY = 16  # steps from one look to the next


class Watch:
    """Remembers a count of batches until it can be read for nothing."""

    def __init__(self) -> None:
        self._steps = 0
        self._known = 0.0
        self._count: Tensor | None = None
        self._event: torch.cuda.Event | None = None

    def look(self, skipped: Tensor) -> None:
        """Read what was copied at the last step, or begin a copy; both only once in `EVERY` steps.

        Raises:
            NonFiniteError: The count has grown.
        """
        if not skipped.is_cuda or torch.cuda.is_current_stream_capturing():
            return
        self._steps += 1
        if self._steps % EVERY == 1 and self._count is not None and self._event is not None:
            self._event.synchronize()
            before, self._known = self._known, float(self._count)
            if self._known > before:
                raise NonFiniteError(
                    f"losses: not finite in {self._known - before:.0f} of the last {EVERY} steps (on a GPU that is "
                    "seen late); weights and multipliers did not take them in. Lower the learning rate, look for the "
                    'batch, or pass on_nonfinite="skip".'
                )
        if self._steps % EVERY == 0:
            if self._count is None:
                self._count = torch.empty(skipped.shape, dtype=skipped.dtype, pin_memory=True)
                self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._count.copy_(skipped, non_blocking=True)
            self._event.record()  # type: ignore[union-attr]

    def __reduce__(self) -> tuple[type[Watch], tuple[()]]:
        return Watch, ()  # a copy waits for nothing
