"""Cycles of micro-batches that an optimizer's step cuts short, as trainers do at the end of an epoch.

How many micro-batches have come is counted on the device, where a captured graph sees it and nobody waits for it. Here
they are counted once more on the host, to know when the two may differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from weakref import WeakKeyDictionary

from torch import Tensor
from torch.optim import Optimizer

from ferero.training._leaves import Leaves

__all__ = ["Cycle"]


@dataclass
class _Seen:
    """What is known of an optimizer.

    Attributes:
        calls: How many micro-batches had come at its last step, or at that of another one where it is new.
        is_regular: Whether it has ever stepped after exactly one cycle of them.
        is_owner: Whether it has parameters behind the loss.
        has_all: Whether it has all of them.
        readings: How often these parameters had been read when that was judged.
    """

    calls: int
    is_regular: bool = False
    is_owner: bool = False
    has_all: bool = False
    readings: int = 0


class Cycle:
    """Counts micro-batches, and knows by whose step a cycle of them ends.

    A cycle ends by the step of an optimizer that has parameters behind the loss. Where these belong to several (a
    generator's loss goes through its critic) only those count that have once stepped after exactly a cycle. Where no
    owner is known (parameters in pieces; several ranks, whose graphs may differ though all must decide alike) all
    optimizers are taken for owners, after as many calls as make a cycle.
    """

    def __init__(self) -> None:
        self._calls = 0
        self._first: int | None = 0  # calls at the beginning of the present cycle
        self._leaves, self._readings, self._is_news = Leaves(), 0, True
        self._seen: WeakKeyDictionary[Optimizer, _Seen] = WeakKeyDictionary()

    def count(self, loss: Tensor | None) -> None:
        """One more micro-batch, with its loss where the graph may be looked at."""
        self._calls += 1
        if self._is_news and loss is not None:
            self._leaves.add(loss)
            self._readings, self._is_news = self._readings + 1, False

    def forget_phase(self) -> None:
        """How many micro-batches the device has counted is not known any more."""
        self._first = None

    def is_cut_by(self, optimizer: Optimizer, every: int) -> bool:
        """Take note of an optimizer's step, and say whether it may have cut a cycle of ``every`` calls short."""
        seen = self._look_at(optimizer, every)
        owners = list(islice((other for other in self._seen.values() if other.is_owner), 2))
        if owners and not seen.is_owner:
            return False
        may_others_come = self._calls < every and not seen.has_all
        is_alone = len(owners or self._seen) == 1 and not may_others_come
        if not (seen.is_regular or is_alone):
            return False
        first, self._first = self._first, self._calls
        return first is None or first == self._calls or (self._calls - first) % every != 0

    def _look_at(self, optimizer: Optimizer, every: int) -> _Seen:
        seen = self._seen.get(optimizer)
        if seen is None:
            known = max((other.calls for other in self._seen.values() if other.is_regular), default=0)
            seen = self._seen[optimizer] = _Seen(known)
            self._is_news = True  # so that parameters thawed since are found as well
        if seen.readings < self._readings:
            count, seen.readings = self._leaves.count_in(optimizer), self._readings
            seen.is_owner, seen.has_all = count > 0, 0 < count == len(self._leaves)
        seen.is_regular = seen.is_regular or self._calls - seen.calls == every
        seen.calls = self._calls
        return seen

    def __reduce__(self) -> tuple[type[Cycle], tuple[()], dict[str, None]]:
        return Cycle, (), {"_first": None}  # a copy has other optimizers, and begins wherever it was copied
