"""`workers=`: preferences shared out to processes, or to any map, each solved by itself."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import torch

from ferero.errors import InputError
from ferero.fronts._sweep_driver import portable
from ferero.optimize import Result, minimize
from ferero.optimize._evaluator import Function, Point
from ferero.preference import Preference

__all__ = ["Assignment", "Workers", "solve_apart"]

Workers = int | Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

PARTS = 4  # for each process, so that a slow part does not keep the others waiting
SOONEST = 1e-9  # seconds left to a part that begins after the deadline: it evaluates its start and ends


@dataclass(frozen=True, eq=False)
class Assignment:
    """What is the same for all preferences.

    Attributes:
        fun: the losses.
        options: of `minimize`, without ``time_limit``.
        deadline: in seconds since the epoch, which all processes share; None for none.
    """

    fun: Function
    options: dict[str, Any]
    deadline: float | None

    def solve(self, pairs: Sequence[tuple[Point, Preference]]) -> list[Result]:
        """The results from these starts for these preferences, one after the other."""
        return [minimize(self.fun, x, p, time_limit=self._time_left(), **self.options) for x, p in pairs]

    def _time_left(self) -> float | None:
        return None if self.deadline is None else max(self.deadline - time.time(), SOONEST)


def solve_apart(task: Assignment, pairs: Sequence[tuple[Point, Preference]], workers: Workers) -> list[Result]:
    """The results in the order of the pairs, whoever computes them.

    Args:
        task: the function and the options.
        pairs: a start and a preference each.
        workers: how many processes, -1 for one a core; or a map.

    Raises:
        InputError: for other workers, arguments that cannot be sent, or processes that end early.
    """
    if callable(workers):
        found = list(workers(_Alone(task), [_Parcel(pair) for pair in pairs]))
        if len(found) != len(pairs) or not all(isinstance(one, _Parcel) for one in found):
            raise InputError(
                f"workers: expected a map that returns what the function gave for each of the {len(pairs)} "
                f"preferences, in their order, found {len(found)} values; give one that works as map does."
            )
        return [one.value for one in found]
    count = min(_read_count(workers), len(pairs))
    return task.solve(pairs) if count == 1 else _in_processes(task, pairs, count)


def _read_count(workers: object) -> int:
    is_count = isinstance(workers, int) and not isinstance(workers, bool)
    if not is_count or not (workers == -1 or workers > 0):  # type: ignore[operator]
        raise InputError(
            f"workers: expected a positive number of processes, -1 for one a core, or a function that works as map "
            f"does, found {workers!r}."
        )
    if workers != -1:
        return int(workers)  # type: ignore[call-overload,no-any-return]
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# a map of the user's ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Parcel:
    """What is pickled as bytes, if at all: torch would send its tensors as shared memory."""

    value: Any

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_bytes, (pickle.dumps(self.value),)


def _from_bytes(pickled: bytes) -> _Parcel:
    return _Parcel(pickle.loads(pickled))


@dataclass(frozen=True, eq=False)
class _Alone:
    """The function that a map is given."""

    task: Assignment

    def __call__(self, pair: _Parcel) -> _Parcel:
        return _Parcel(self.task.solve([pair.value])[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return _alone_from_bytes, (_pack(self.task),)


def _alone_from_bytes(pickled: bytes) -> _Alone:
    return _Alone(pickle.loads(pickled))


# processes --------------------------------------------------------------------------------------------------


def _in_processes(task: Assignment, pairs: Sequence[tuple[Point, Preference]], count: int) -> list[Result]:
    """In spawned processes, which are gone when this returns or raises."""
    ends = [len(pairs) * i // (PARTS * count) for i in range(PARTS * count + 1)]
    parts = [pickle.dumps(pairs[a:b]) for a, b in pairwise(ends) if a < b]
    settings = _pack(task), torch.get_num_threads(), torch.get_default_dtype()
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(count, mp_context=spawn, initializer=_begin, initargs=settings)
    try:
        found = [pickle.loads(part) for part in pool.map(_solve_part, parts)]
    except BrokenProcessPool as error:
        _end(pool)
        raise InputError(
            f"workers: expected {count} processes that work to the end, found one that ended early; in a script, call "
            'trace below `if __name__ == "__main__":`, since every process imports the script, and see that fun '
            "neither exits nor runs out of memory."
        ) from error
    except BaseException:
        _end(pool)
        raise
    pool.shutdown()
    return [result for part in found for result in part]


def _end(pool: ProcessPoolExecutor) -> None:
    """End the processes without waiting for what they are computing."""
    for process in list((getattr(pool, "_processes", None) or {}).values()):
        process.terminate()
    pool.shutdown(cancel_futures=True)


def _pack(task: Assignment) -> bytes:
    try:
        return pickle.dumps(task)
    except Exception as error:  # a class of the user's may fail in any way here
        for name, value in {"fun": task.fun, **task.options}.items():
            try:
                pickle.dumps(value)
            except Exception as reason:
                raise _not_picklable(name, value, reason) from error
        raise


def _not_picklable(name: str, value: object, reason: Exception) -> InputError:
    return InputError(
        f"{name}: expected what can be sent to another process, since workers= asks for several, found "
        f"{value!r:.60} ({reason}); define its functions at the top level of a module, or leave workers out."
    )


_held: list[bytes] = []  # the task, in a process of the pool


def _begin(packed: bytes, threads: int, dtype: torch.dtype) -> None:
    """Prepare a process of the pool. Ctrl-C reaches it too, and is left to the process that waits for it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    torch.set_default_dtype(dtype)
    _held[:] = [packed]


def _solve_part(pairs: bytes) -> bytes:
    try:
        return pickle.dumps(_unpack(_held[0]).solve(pickle.loads(pairs)))
    except Exception as error:
        raise portable(error) from None


@cache
def _unpack(packed: bytes) -> Assignment:
    try:
        task: Assignment = pickle.loads(packed)
    except (AttributeError, ImportError) as error:
        raise InputError(
            f"fun: expected a function that another process can import, since workers= asks for several, found one "
            f"that it cannot ({error}); define it in a module or a script, not in a notebook or at a prompt."
        ) from error
    return task
