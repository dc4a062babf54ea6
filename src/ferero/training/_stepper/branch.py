"""What a captured CUDA graph may do beside its main path.

In a graph of small kernels it is the length of the path that costs. What the path does not wait for, the record for the
report and the losses before the step, runs on a branch; outside of a capture it simply runs in its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["Branch", "is_capturing"]


def is_capturing() -> bool:
    """Whether a CUDA graph is being recorded, in which nothing can be asked of the device."""
    return bool(torch.cuda.is_initialized()) and torch.cuda.is_current_stream_capturing()  # type: ignore[no-untyped-call]


class Branch:
    """A second stream, while a graph is recorded.

    What is made on it may be used after :meth:`join`, and what it reads must live until then.

    Args:
        device: Where the model is.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._is_open = False

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Begin where the main path is now, and go on beside it."""
        if not is_capturing():
            yield
            return
        if self._stream is None:
            self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._stream.wait_stream(torch.cuda.current_stream())
        self._is_open = True
        with torch.cuda.stream(self._stream):
            yield

    def join(self) -> None:
        """Let the main path wait for the branch."""
        if self._is_open and self._stream is not None:
            torch.cuda.current_stream().wait_stream(self._stream)
        self._is_open = False
