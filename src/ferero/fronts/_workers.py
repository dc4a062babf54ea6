"""`workers=`: preferences shared out to processes, or to any map, each solved by itself."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from threading import Thread
from typing import Any

import torch

from ferero.errors import InputError
from ferero.fronts._sweep_driver import portable
from ferero.optimize import Result, minimize
from ferero.optimize._evaluator import Function, Point
from ferero.preference import Preference

__all__ = ["Assignment", "Workers", "solve_apart"]

Workers = int | Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

SOONEST = 1e-9  # seconds left to a run that begins after the deadline: it evaluates its start and ends


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
    """In spawned processes, each with its share of the pairs, which are gone when this returns or raises."""
    settings = _pack(task), torch.get_num_threads(), torch.get_default_dtype()
    spawn = multiprocessing.get_context("spawn")
    processes: list[Any] = []
    answers: dict[Connection, int] = {}
    found: list[Any] = [None] * len(pairs)
    try:
        for k in range(count):
            here, there = spawn.Pipe(duplex=False)
            process = spawn.Process(target=_work, args=(there, pickle.dumps(pairs[k::count]), *settings))
            processes.append(process)
            process.start()
            there.close()
            answers[here] = k
        while answers:
            for answer in wait(list(answers)):
                assert isinstance(answer, Connection)
                found[answers.pop(answer) :: count] = _read(answer, count)
    finally:
        for process in processes:
            if process.pid is not None:
                process.kill()
                process.join()
    return found


def _read(answer: Connection, count: int) -> list[Result]:
    """What one process found; raises what its function raised."""
    try:
        found = pickle.loads(answer.recv_bytes())
    except EOFError as error:
        raise InputError(
            f"workers: expected {count} processes that work to the end, found one that ended early; in a script, call "
            'trace below `if __name__ == "__main__":`, since every process imports the script, and see that fun '
            "neither exits nor runs out of memory."
        ) from error
    if isinstance(found, BaseException):
        raise found
    results: list[Result] = found
    return results


def _work(there: Connection, pairs: bytes, packed: bytes, threads: int, dtype: torch.dtype) -> None:
    """Solve a share of the pairs. Ctrl-C is left to the parent, without which this process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    torch.set_default_dtype(dtype)
    try:
        answer = pickle.dumps(_unpack(packed).solve(pickle.loads(pairs)))
    except Exception as error:
        answer = pickle.dumps(portable(error))
    there.send_bytes(answer)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


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


def _unpack(packed: bytes) -> Assignment:
    try:
        task: Assignment = pickle.loads(packed)
    except (AttributeError, ImportError) as error:
        raise InputError(
            f"fun: expected a function that another process can import, since workers= asks for several, found one "
            f"that it cannot ({error}); define it in a module or a script, not in a notebook or at a prompt."
        ) from error
    return task
