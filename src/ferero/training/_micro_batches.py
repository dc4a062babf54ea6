"""Cycles of micro-batches that an optimizer's step ends early, as trainers do at the end of an epoch.

A loss function is not told when an optimizer steps; a hook on the steps of all optimizers tells it. The micro-batches
of a cycle are counted on the device, where a captured CUDA graph reads the count without a host sync, and once more
here on the host, to know when a step came early.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol
from weakref import ReferenceType, WeakKeyDictionary, WeakSet, ref

import torch
from torch import Tensor
from torch.optim import Optimizer

from ferero.training._losses import leaves_of

_MOST_NODES = 10_000  # of a loss's graph to visit: a few milliseconds, and enough to find some parameters


# the hook -------------------------------------------------------------------------------------------------


class _Follower(Protocol):
    def _optimizer_stepped(self, optimizer: Optimizer) -> None: ...


_followers: WeakSet[Any] = WeakSet()


def follow_steps(follower: _Follower) -> None:
    """Call ``follower._optimizer_stepped(optimizer)`` after every step of any optimizer, for as long as it lives."""
    _followers.add(follower)


def watch_optimizers() -> None:
    """From now on, tell followers of the steps of all optimizers of this process.

    `torch.compile` is kept out of the hook, or it would run once, when a step is traced, and never again.
    """
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(torch.compiler.disable(_after_step))  # type: ignore[no-untyped-call]


def _after_step(optimizer: Optimizer, *_: Any) -> None:
    for follower in tuple(_followers):
        follower._optimizer_stepped(optimizer)


# whose step ends a cycle ----------------------------------------------------------------------------------


@dataclass
class _KnownOptimizer:
    """What is known of an optimizer.

    Attributes:
        calls: The number of micro-batches at its last step; for a new optimizer, at that of another one.
        is_regular: Whether it has ever stepped after exactly one cycle.
        is_owner: Whether it has parameters behind the loss.
        has_all: Whether it has all of them.
        readings: How often these parameters had been read when that was decided.
    """

    calls: int
    is_regular: bool = False
    is_owner: bool = False
    has_all: bool = False
    readings: int = 0


class MicroBatchCycle:
    """Counts micro-batches, and decides which optimizer's step ends a cycle of them.

    A cycle ends by the step of an optimizer that has parameters behind the loss. Where these belong to several (a
    generator's loss goes through its critic) only those count that have once stepped after exactly a cycle. Where no
    owner is known (sharded parameters; several ranks, whose graphs may differ though all must decide alike) all
    optimizers are taken for owners, after as many calls as make a cycle.
    """

    def __init__(self) -> None:
        self._calls = 0
        self._first: int | None = 0  # calls at the beginning of the present cycle
        self._leaves, self._readings, self._is_reading_due = Leaves(), 0, True
        self._known: WeakKeyDictionary[Optimizer, _KnownOptimizer] = WeakKeyDictionary()

    def count(self, loss: Tensor | None) -> None:
        """One more micro-batch; its loss, where its graph may be read."""
        self._calls += 1
        if self._is_reading_due and loss is not None:
            self._leaves.add(loss)
            self._readings, self._is_reading_due = self._readings + 1, False

    def forget_phase(self) -> None:
        """The device's count of micro-batches is no longer known here."""
        self._first = None

    def is_ended_early_by(self, optimizer: Optimizer, every: int) -> bool:
        """Take note of an optimizer's step, and tell whether it may have ended a cycle of ``every`` calls early."""
        known = self._update(optimizer, every)
        owners = list(islice((other for other in self._known.values() if other.is_owner), 2))
        if owners and not known.is_owner:
            return False
        may_others_come = self._calls < every and not known.has_all
        is_alone = len(owners or self._known) == 1 and not may_others_come
        if not (known.is_regular or is_alone):
            return False
        first, self._first = self._first, self._calls
        return first is None or first == self._calls or (self._calls - first) % every != 0

    def _update(self, optimizer: Optimizer, every: int) -> _KnownOptimizer:
        known = self._known.get(optimizer)
        if known is None:
            calls = max((other.calls for other in self._known.values() if other.is_regular), default=0)
            known = self._known[optimizer] = _KnownOptimizer(calls)
            self._is_reading_due = True  # finds parameters that have been unfrozen since
        if known.readings < self._readings:
            count, known.readings = self._leaves.count_in(optimizer), self._readings
            known.is_owner, known.has_all = count > 0, 0 < count == len(self._leaves)
        known.is_regular = known.is_regular or self._calls - known.calls == every
        known.calls = self._calls
        return known

    def __reduce__(self) -> tuple[type[MicroBatchCycle], tuple[()], dict[str, None]]:
        return MicroBatchCycle, (), {"_first": None}  # a copy has other optimizers, and begins at an unknown phase


class Leaves:
    """Parameters behind losses, by weak references."""

    def __init__(self) -> None:
        self._found: dict[int, ReferenceType[Tensor]] = {}

    def add(self, loss: Tensor) -> None:
        """Take in the parameters behind a loss, those nearest to it first."""
        for leaf in leaves_of(loss, _MOST_NODES):
            self._found[id(leaf)] = ref(leaf)

    def __len__(self) -> int:
        return sum(reference() is not None for reference in self._found.values())

    def count_in(self, optimizer: Optimizer) -> int:
        """How many of them the optimizer moves."""
        return sum(self._has(tensor) for group in optimizer.param_groups for tensor in group["params"])

    def _has(self, tensor: Tensor) -> bool:
        found = self._found.get(id(tensor))
        return found is not None and found() is tensor
