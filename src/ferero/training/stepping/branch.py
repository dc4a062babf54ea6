"""What a captured CUDA graph may do beside its main path, and writing that asks nobody whether it should.

In a graph of small kernels it is the length of the path that costs. What the path does not wait for, the record for the
report and the losses before the step, runs on a branch; outside of a capture it simply runs in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

__all__ = ["Branch", "is_capturing", "write"]


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


def write(targets: Sequence[Tensor], values: Sequence[Tensor], where: Tensor | None = None) -> None:
    """Write values into targets of the same shapes, in few launches.

    Args:
        targets: Written to in place.
        values: In any type, on any device.
        where: A boolean scalar on the device: where it is False everything stays as it is.
    """
    kinds: dict[tuple[torch.dtype, torch.device], list[int]] = {}
    for i, target in enumerate(targets):
        kinds.setdefault((target.dtype, target.device), []).append(i)
    with torch.no_grad():
        for (dtype, device), members in kinds.items():
            old = [targets[i] for i in members]
            new = [values[i].detach().to(device, dtype) for i in members]
            if where is not None:
                flat = torch.where(where.to(device), _flat(new), _flat(old))
                parts = torch.split(flat, [tensor.numel() for tensor in old])
                new = [part.view(tensor.shape) for part, tensor in zip(parts, old, strict=True)]
            torch._foreach_copy_(old, new)


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
