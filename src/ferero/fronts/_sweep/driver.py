"""The watch over the workers: points go out, come back, or are lost and go out again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from typing import Any

from ferero.fronts._sweep.failure import SweepError
from ferero.fronts._sweep.point import ByValue, Raised, is_pickling, run_point
from ferero.fronts._sweep.workforce import Handle, Workforce, not_picklable
from ferero.preference import Preference

__all__ = ["Driver", "LostError"]

_SHORTEST, _LONGEST = 1e-3, 0.25  # seconds between two looks at the futures
_PATIENCE = 60.0  # seconds in which a broken pool tells its futures


class LostError(RuntimeError):
    """A point's workers died, as often as was tried."""


class Driver:
    """Has every point computed once, and again where its worker was lost.

    A pool of processes breaks as a whole when one of them is killed, and does not say whose fault it was. All
    unfinished points then go out again; those that were seen running are suspects, and one that has a single attempt
    left waits until it can have the executor to itself: a point that kills its workers takes no other one along.

    Args:
        train_one: the user's function.
        wanted: preferences by index.
        workforce: who computes.
        retries: how often a lost point is tried again.
        keep: called with an index and a parcel as each point comes in.

    Attributes:
        failures: what was raised, by index, when `run` has returned.
    """

    def __init__(
        self,
        train_one: Callable[[Preference], object],
        wanted: Mapping[int, Preference],
        workforce: Workforce,
        *,
        retries: int,
        keep: Callable[[int, bytes], None],
    ) -> None:
        self._train_one, self._wanted, self._workforce = train_one, wanted, workforce
        self._retries, self._keep = retries, keep
        self._waiting = list(wanted)
        self._pending: dict[int, Handle] = {}
        self._seen_running: set[int] = set()
        self._lost = dict.fromkeys(wanted, 0)
        self.failures: dict[int, BaseException] = {}

    def run(self) -> None:
        """Returns when every point is kept or has failed; whatever interrupts it cancels what is pending."""
        pause = _SHORTEST
        try:
            while self._waiting or self._pending:
                self._submit()
                pause = _SHORTEST if self._collect() else min(1.5 * pause, _LONGEST)
                if self._pending:
                    time.sleep(pause)
        except BaseException:
            for handle in self._pending.values():
                with suppress(Exception):
                    handle.cancel()
            self._workforce.close(wait=False)
            raise
        self._workforce.close(wait=True)

    def _submit(self) -> None:
        together = [i for i in self._waiting if self._lost[i] < max(self._retries, 1)]
        alone = [] if self._pending or together else self._waiting[:1]
        for i in together or alone:
            wanted = ByValue(self._wanted[i])
            try:
                self._pending[i] = self._workforce.submit(run_point, self._train_one, wanted, i, self._lost[i])
            except BrokenExecutor as error:
                self._break(error, i)
                return
            self._waiting.remove(i)

    def _collect(self) -> bool:
        """Takes what is done; whether anything was."""
        before = len(self._pending)
        for i, handle in list(self._pending.items()):
            if is_running(handle):
                self._seen_running.add(i)
            try:
                if not handle.done():
                    continue
                answer = handle.result()
            except BrokenExecutor as error:
                self._break(error, i)
                return True
            except (Exception, asyncio.CancelledError) as error:
                del self._pending[i]
                self._lose(i, error)
            else:
                del self._pending[i]
                self._take(i, answer)
        return len(self._pending) < before

    def _take(self, i: int, answer: bytes | Raised) -> None:
        if isinstance(answer, Raised):
            self.failures[i] = answer.error
        else:
            self._keep(i, answer)

    def _lose(self, i: int, error: BaseException) -> None:
        if is_pickling(error):
            raise not_picklable(error) from error
        self._lost[i] += 1
        if self._lost[i] <= self._retries:
            self._waiting.append(i)
            return
        times = "once" if self._lost[i] == 1 else f"{self._lost[i]} times"
        self.failures[i] = LostError(f"its worker was lost {times}, last by {type(error).__name__}: {error}")

    def _break(self, error: BrokenExecutor, at: int) -> None:
        """Takes what a broken pool had finished, and sends the rest out again; ``at`` is where it was noticed."""
        left = [i for i, handle in self._pending.items() if not self._salvage(i, handle)]
        if not left and at in self._waiting:  # a pool that takes no work at all: it must not be asked for ever
            self._waiting.remove(at)
            left = [at]
        self._pending.clear()
        if not self._workforce.is_renewable:
            raise SweepError(
                f"executor: a worker was killed, which broke the {self._workforce.name}, and it cannot be used again. "
                "Give a function that makes one, executor=lambda: ProcessPoolExecutor(2), which is called anew after a "
                "break"
            ) from error
        self._workforce.close(wait=False)
        suspects = (self._seen_running & set(left)) or set(left)
        self._seen_running.clear()
        for i in left:
            if i in suspects:
                self._lose(i, error)
            else:
                self._waiting.append(i)

    def _salvage(self, i: int, handle: Any) -> bool:
        try:
            answer = handle.result(timeout=_PATIENCE)
        except (Exception, asyncio.CancelledError):
            return False
        self._take(i, answer)
        return True


def is_running(handle: Any) -> bool:
    """Whether a future says that it was begun; not all can."""
    running = getattr(handle, "running", None)
    return running is not None and bool(running())
