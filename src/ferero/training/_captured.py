"""Replays a fixed sequence of small device operations as one launch.

The controller is about a hundred operations on a handful of numbers. On a GPU each would cost a launch, which for a
small model is as much as the training step itself; captured once, they are replayed by a single one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import Tensor

__all__ = ["Captured"]

_WARM_UP = 3  # plain calls before the capture, so that libraries have set themselves up


class _Graph:
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
    """Calls a function of tensors plainly a few times, then captures it; the next call overwrites what it returned.

    The function must do the same operations at every call with the same key, and keep what it changes in place.
    """

    def __init__(self) -> None:
        self._graphs: dict[Hashable, _Graph] = {}
        self._calls: dict[Hashable, int] = {}

    def __call__(
        self, key: Hashable, function: Callable[..., tuple[Tensor, ...]], *inputs: Tensor
    ) -> tuple[Tensor, ...]:
        """The function's answer, by replay where it was captured.

        Args:
            key: What decides about the sequence of operations, and where the tensors it changes lie.
            function: What to do.
            inputs: Its arguments.
        """
        if not inputs[0].is_cuda or torch.cuda.is_current_stream_capturing():
            return function(*inputs)
        graph = self._graphs.get(key)
        if graph is None:
            self._calls[key] = self._calls.get(key, 0) + 1
            if self._calls[key] <= _WARM_UP:
                return function(*inputs)
            graph = self._graphs[key] = _Graph(function, inputs)
        return graph.replay(inputs)

    def __reduce__(self) -> tuple[type[Captured], tuple[()]]:
        return Captured, ()  # a copy captures anew
