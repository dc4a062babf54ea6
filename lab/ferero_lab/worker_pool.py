"""`WorkerPool`: spawned processes that make calls for this one, report their progress, and never outlive it."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType, TracebackType
from typing import Any, Literal, Self, TypeAlias

from ferero.errors import FereroError

__all__ = ["Advance", "Call", "LostWorkerError", "TaskMessage", "WorkerPool"]

Advance: TypeAlias = Callable[[int, int], None]
"""``advance(done, total)``: reports progress."""

Call: TypeAlias = Callable[[Advance], Any]
"""A task: a picklable function of `Advance` whose answer can be pickled."""

_Report: TypeAlias = tuple[Literal["progress", "answer", "error"], Any]
"""What a worker sends, pickled."""

_GRACE = 10.0  # seconds in which a worker may clean up before it is killed
_PAUSE = 0.2  # seconds between two progress reports of a worker


class LostWorkerError(FereroError, RuntimeError):
    """A worker exited without returning a result."""


@dataclass(frozen=True)
class TaskMessage:
    """What a worker reports about its task.

    Attributes:
        task: the name of the task.
        share: how far it is, from 0 to 1.
        is_done: whether it has returned.
        answer: what it returned.
    """

    task: str
    share: float
    is_done: bool = False
    answer: Any = None


class WorkerPool:
    """Worker processes, each of which runs one task at a time.

    Workers are started when there is work for them, and spawned, since a process that uses a GPU cannot be forked.
    They ignore Ctrl-C, which this process handles for them, unwind on SIGTERM, so that files which are half written
    are removed, and exit when this process is killed. Leaving the ``with`` block terminates those at work.

    Tasks and answers are sent as bytes: torch would put tensors in shared memory, which ends with its worker.

    Args:
        advice: what a `LostWorkerError` tells the user to do.
    """

    def __init__(self, advice: str = "if memory ran out, use fewer processes") -> None:
        self._advice = advice
        self._workers: list[_Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._dismiss(self._workers)

    @property
    def running(self) -> dict[str, float]:
        """How far each running task is, from 0 to 1, by its name, in the order of their workers."""
        return {worker.task: worker.share for worker in self._workers if worker.task is not None}

    def start(self, task: str, call: Call, *, alone: bool = False) -> None:
        """Gives a task to an idle worker, or to a new one.

        Args:
            task: its name, unique among those that run.
            call: what to call.
            alone: whether to end all other workers first, as idle ones still hold memory of the GPU.
        """
        worker = next((each for each in self._workers if each.task is None), None)
        if worker is None:
            worker = _Worker()
            self._workers.append(worker)
        if alone:
            self._dismiss([each for each in self._workers if each is not worker])
        worker.give(task, call)

    def messages(self) -> Iterator[TaskMessage]:
        """Waits until workers report, and yields what they say; then raises the first error among it.

        Raises:
            LostWorkerError: a worker exited without returning a result, because it was killed for instance.
            Exception: what a task raised, with its traceback in the worker as a note.
        """
        errors: list[Exception] = []
        busy = {worker.pipe: (worker, worker.task) for worker in self._workers if worker.task is not None}
        reported = wait(list(busy))
        for worker, task in [both for pipe, both in busy.items() if pipe in reported]:
            kind, value = worker.report(self._advice)
            if kind == "progress":
                worker.share = value
                yield TaskMessage(task, value)
                continue
            worker.task, worker.share = None, 0.0
            if kind == "error":
                errors.append(value)
            else:
                yield TaskMessage(task, 1.0, is_done=True, answer=value)
        if errors:
            raise errors[0]

    def _dismiss(self, workers: list[_Worker]) -> None:
        leaving = list(workers)
        for worker in leaving:
            worker.end()
        for worker in leaving:
            worker.join()
            self._workers.remove(worker)


class _Worker:
    """A worker process as its parent sees it."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_work, args=(theirs,), daemon=True)
        with _interrupts_ignored():
            self.process.start()
        theirs.close()
        self.task: str | None = None
        self.share = 0.0

    def give(self, task: str, call: Call) -> None:
        content = pickle.dumps(call)
        self.task, self.share = task, 0.0
        with suppress(OSError):  # a worker that is gone is noticed when its report is read
            self.pipe.send_bytes(content)

    def report(self, advice: str) -> _Report:
        """Its next report; an error if it exited."""
        try:
            report: _Report = pickle.loads(self.pipe.recv_bytes())
        except (EOFError, OSError):
            self.process.join(_GRACE)
            code = self.process.exitcode
            why = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
            return "error", LostWorkerError(f"{self.task}: its worker ended with {why}; {advice}.")
        return report

    def end(self) -> None:
        """Terminates a worker at work; an idle one exits when its pipe is closed."""
        if self.task is not None:
            self.process.terminate()
        self.pipe.close()

    def join(self) -> None:
        self.process.join(_GRACE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """A process started inside inherits that Ctrl-C is ignored, so that it is so even while it imports."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


def _work(pipe: Connection) -> None:
    """The worker: makes the calls that come through the pipe until its other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _unwind)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            content = pipe.recv_bytes()
        except (EOFError, OSError):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is exiting already
            return
        try:
            report = pickle.dumps(("answer", pickle.loads(content)(_progress(pipe))))
        except Exception as error:
            report = pickle.dumps(("error", _portable(error)))
        with suppress(OSError):  # the parent is gone: the next recv_bytes says so
            pipe.send_bytes(report)


def _progress(pipe: Connection) -> Advance:
    last = 0.0

    def advance(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last < _PAUSE:
            return
        last = time.monotonic()
        with suppress(OSError):  # the parent is gone, and this process is about to end
            pipe.send_bytes(pickle.dumps(("progress", min(done / total, 1.0) if total > 0 else 0.0)))

    return advance


def _portable(error: Exception) -> Exception:
    """The error with its traceback as a note; a RuntimeError with its text if it cannot be pickled."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # the exception's class may fail in any way here
        plain = RuntimeError(f"{type(error).__name__}: {error}")
        plain.add_note(error.__notes__[-1])
        return plain
    return error


def _end_with_parent() -> None:
    """Ends this process when the parent is gone without having ended it, because it was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_GRACE)
        os._exit(1)  # the main thread is stuck in a call that does not return to Python


def _unwind(signum: int, frame: FrameType | None) -> None:
    """Turns SIGTERM into SystemExit, so that ``finally`` blocks run."""
    del frame
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + signum)
