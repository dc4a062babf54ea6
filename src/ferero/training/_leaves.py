"""Which parameters are behind a loss, and how many of them an optimizer has."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from weakref import ReferenceType, ref

from torch import Tensor
from torch.autograd.graph import Node
from torch.optim import Optimizer

__all__ = ["Leaves", "leaves_of"]

_ENOUGH = 10_000  # nodes to look at: a few milliseconds, and more than enough to meet some parameters


def leaves_of(loss: Tensor, most_nodes: int | None = None) -> list[Tensor]:
    """The parameters that gradients of a loss arrive at, those nearest to it first; of so many nodes of its graph."""
    return [node.variable for node in islice(_nodes(loss), most_nodes) if hasattr(node, "variable")]


def _nodes(loss: Tensor) -> Iterator[Node]:
    waiting = deque([loss.grad_fn])
    seen: set[Node] = set()
    while waiting:
        node = waiting.popleft()
        if node is not None and node not in seen:
            seen.add(node)
            waiting.extend(parent for parent, _ in node.next_functions)
            yield node


class Leaves:
    """Parameters behind losses, remembered without keeping them alive."""

    def __init__(self) -> None:
        self._found: dict[int, ReferenceType[Tensor]] = {}

    def add(self, loss: Tensor) -> None:
        """Take in the parameters behind a loss, those nearest to it first."""
        for leaf in leaves_of(loss, _ENOUGH):
            self._found[id(leaf)] = ref(leaf)

    def __len__(self) -> int:
        return sum(reference() is not None for reference in self._found.values())

    def count_in(self, optimizer: Optimizer) -> int:
        """How many of them the optimizer moves."""
        return sum(self._has(tensor) for group in optimizer.param_groups for tensor in group["params"])

    def _has(self, tensor: Tensor) -> bool:
        found = self._found.get(id(tensor))
        return found is not None and found() is tensor
