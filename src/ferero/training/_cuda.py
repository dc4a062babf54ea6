"""Steps on a GPU without host syncs: captured graphs, a branch beside their main path, and errors that come late."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from ferero.errors import NonFiniteError

_WARM_UP = 3  # plain calls before the capture, in which libraries initialise themselves
EVERY = 16  # steps between two reads of a deferred check


def is_capturing() -> bool:
    """Whether a CUDA graph is being captured, so the host cannot read values."""
    return bool(torch.cuda.is_initialized()) and torch.cuda.is_current_stream_capturing()  # type: ignore[no-untyped-call]


class _CapturedGraph:
    """One captured sequence with its own inputs and outputs."""

    def __init__(self, function: Callable[..., tuple[Tensor, ...]], inputs: tuple[Tensor, ...]) -> None:
        self.inputs = tuple(tensor.detach().clone() for tensor in inputs)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.outputs = function(*self.inputs)

    def replay(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        for mine, theirs in zip(self.inputs, inputs, strict=True):
            mine.copy_(theirs)
        self.graph.replay()
        return self.outputs


class Captured:
    """Calls a function of tensors plainly a few times, then captures it as a CUDA graph and replays that.

    The controller is about a hundred operations on a handful of numbers. On a GPU each costs a launch, for a small
    model as much in all as the training step itself; a replayed graph costs one. The function must do the same
    operations at every call with the same key, and keep what it changes in place. The next call overwrites what it
    returned.
    """

    def __init__(self) -> None:
        self._graphs: dict[Hashable, _CapturedGraph] = {}
        self._calls: dict[Hashable, int] = {}

    def __call__(
        self, key: Hashable, function: Callable[..., tuple[Tensor, ...]], *inputs: Tensor
    ) -> tuple[Tensor, ...]:
        """The function's result, by replay where it was captured.

        Args:
            key: Whatever the sequence of operations, and the memory of the tensors it changes, depends on.
            function: The function.
            inputs: Its arguments.
        """
        if not inputs[0].is_cuda or torch.cuda.is_current_stream_capturing():
            return function(*inputs)
        graph = self._graphs.get(key)
        if graph is None:
            self._calls[key] = self._calls.get(key, 0) + 1
            if self._calls[key] <= _WARM_UP:
                return function(*inputs)
            graph = self._graphs[key] = _CapturedGraph(function, inputs)
        return graph.replay(inputs)

    def __reduce__(self) -> tuple[type[Captured], tuple[()]]:
        return Captured, ()  # a copy captures anew


class Branch:
    """A second stream while a graph is captured; otherwise its work runs in place.

    A graph of small kernels takes as long as its longest path, so what the step does not wait for (the record for the
    report, the losses before the step) runs on a branch. Its results may be used after :meth:`join`, and what it reads
    must live until then.

    Args:
        device: Where the model is.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._is_open = False

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Branch off from the main path here."""
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


class DeferredCheck:
    """Raises for batches that were not finite, a fixed number of steps late instead of by a host sync at every step.

    Every 16 steps the device's count of such batches is copied to the host behind the work in flight, and the next step
    reads the copy: at the same step on every rank.
    """

    def __init__(self) -> None:
        self._steps = 0
        self._known = 0.0
        self._count: Tensor | None = None
        self._event: torch.cuda.Event | None = None

    def check(self, skipped: Tensor) -> None:
        """Read the last copy of the count, or begin a new one; each once in `EVERY` steps.

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

    def __reduce__(self) -> tuple[type[DeferredCheck], tuple[()]]:
        return DeferredCheck, ()  # a copy has nothing to read
