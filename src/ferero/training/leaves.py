"""Which parameters a loss trains, and how many of them an optimizer has."""

from __future__ import annotations

from collections import deque
from weakref import ReferenceType, ref

from torch import Tensor
from torch.autograd.graph import Node
from torch.optim import Optimizer

__all__ = ["Leaves"]

_ENOUGH = 10_000  # nodes to look at: a few milliseconds, and more than enough to meet some parameters


class Leaves:
    """Parameters behind losses, remembered without keeping them alive."""

    def __init__(self) -> None:
        self._found: dict[int, ReferenceType[Tensor]] = {}

    def add(self, loss: Tensor) -> None:
        """Take in the parameters behind a loss, those nearest to it first."""
        nodes = deque([loss.grad_fn])
        seen: set[Node | None] = {None}
        while nodes and len(seen) < _ENOUGH:
            node = nodes.popleft()
            if node is None or node in seen:
                continue
            seen.add(node)
            leaf = getattr(node, "variable", None)
            if leaf is not None:
                self._found[id(leaf)] = ref(leaf)
            nodes.extend(parent for parent, _ in node.next_functions)

    def __len__(self) -> int:
        return sum(reference() is not None for reference in self._found.values())

    def count_in(self, optimizer: Optimizer) -> int:
        """How many of them the optimizer moves."""
        return sum(self._has(tensor) for group in optimizer.param_groups for tensor in group["params"])

    def _has(self, tensor: Tensor) -> bool:
        found = self._found.get(id(tensor))
        return found is not None and found() is tensor
