"""Runs the parts of an experiment in several processes at once; this one alone writes what they gave."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from ferero.errors import FereroError
from ferero_lab.experiments.experiment import Experiment, Found, Part, Settings
from ferero_lab.experiments.run_folder import RunFolder
from ferero_lab.experiments.schedule import may_start
from ferero_lab.experiments.stage import Stage
from ferero_lab.experiments.worker import Answer, work

__all__ = ["LostPartError", "SideBySide"]

_GRACE = 10.0
"""Seconds in which a process may tidy up before it is killed."""


class LostPartError(FereroError, RuntimeError):
    """A worker exited without returning a result."""


@dataclass
class _Worker:
    """A process, and the part that it runs if any."""

    process: SpawnProcess
    pipe: Connection
    part: Part | None = None
    share: float = 0.0

    def give(self, part: Part, threads: int) -> None:
        self.part, self.share = part, 0.0
        with suppress(OSError):  # one that is gone is noticed when it is to be heard
            self.pipe.send((part.key, threads))

    def end(self) -> None:
        """One at work is told to leave; an idle one leaves when its pipe is closed."""
        if self.part is not None:
            self.process.terminate()
        self.pipe.close()

    def wait(self) -> None:
        self.process.join(_GRACE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


@dataclass
class SideBySide:
    """The parts of a run, by several processes.

    Processes are started as there is work for them, and each runs one part after the other. They are spawned, since
    one that uses a GPU cannot be forked. When a part fails, no other is started and those that run are stopped.

    Attributes:
        experiment: which; it goes to the processes by pickle.
        parts: of the experiment.
        settings: the user's.
        place: where the run is kept.
        jobs: how many processes.
        threads: torch's, for a part that is alone; where others run beside it, its share of the cores if that is less.
        tell: called with a `Stage` as the run proceeds.
        found: what the parts gave so far, by key.
    """

    experiment: Experiment
    parts: Sequence[Part]
    settings: Settings
    place: RunFolder
    jobs: int
    threads: int
    tell: Callable[[Stage], None]
    found: dict[str, Found] = field(default_factory=dict, init=False)
    _workers: list[_Worker] = field(default_factory=list, init=False)

    def run(self) -> dict[str, Found]:
        """What the parts gave, in their order; those that are kept are not run again.

        Raises:
            LostPartError: a worker that exited without returning a result, killed for instance.
            Exception: what a part raised.
        """
        try:
            self._read_kept()
            while len(self.found) < len(self.parts):
                self._start()
                self._hear()
        finally:
            self._dismiss_all_but(None)
        return {part.key: self.found[part.key] for part in self.parts}

    def _read_kept(self) -> None:
        """What an earlier run has finished."""
        for part in self.parts:
            kept = self.place.kept(part.key)
            if kept is not None:
                self.found[part.key] = kept
                self._say(part.title, ended="kept")

    def _start(self) -> None:
        """What may start now."""
        running = [part.key for part in self._running()]
        for part in may_start(self.parts, self.found, running, self.jobs):
            self.place.checkpoints(part.key)  # made here, where empty ones are taken away
            worker = next((each for each in self._workers if each.part is None), None) or self._new()
            if part.alone:
                self._dismiss_all_but(worker)  # idle ones still hold memory of the GPU
            worker.give(part, self.threads if part.alone else _share(self.threads, self.jobs))
            self._say_running()

    def _hear(self) -> None:
        """Waits for a word, and keeps what is finished; of several errors the first is raised."""
        errors: list[Exception] = []
        at_work = {worker.pipe: (worker, worker.part) for worker in self._workers if worker.part is not None}
        heard = wait(list(at_work))
        for worker, part in [both for pipe, both in at_work.items() if pipe in heard]:
            answer = _answer_of(worker, part)
            if isinstance(answer, float):
                worker.share = answer
                self._say_running()
                continue
            worker.part, worker.share = None, 0.0
            if isinstance(answer, Exception):
                errors.append(answer)
            else:
                self.found[part.key] = self.place.keep(part.key, answer)
                self._say(part.title, ended="run")
        if errors:
            raise errors[0]

    def _new(self) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(
            target=work, args=(theirs, self.experiment, self.settings, self.place.path), daemon=True
        )
        with _unheard_interrupts():
            process.start()
        theirs.close()
        self._workers.append(_Worker(process, ours))
        return self._workers[-1]

    def _dismiss_all_but(self, worker: _Worker | None) -> None:
        leaving = [each for each in self._workers if each is not worker]
        for each in leaving:
            each.end()
        for each in leaving:
            each.wait()
            self._workers.remove(each)

    def _running(self) -> list[Part]:
        return [worker.part for worker in self._workers if worker.part is not None]

    def _say_running(self) -> None:
        titles = [part.title for part in self._running()]
        more = f", and {len(titles) - 1} more" if len(titles) > 1 else ""
        self._say(f"{titles[0]}{more}")

    def _say(self, title: str, ended: str = "") -> None:
        share = sum(worker.share for worker in self._workers)
        self.tell(Stage(title, len(self.found), len(self.parts), share, ended))


def _answer_of(worker: _Worker, part: Part) -> Answer:
    try:
        answer: Answer = worker.pipe.recv()
    except (EOFError, OSError):
        worker.process.join(_GRACE)
        code = worker.process.exitcode
        why = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return LostPartError(
            f"part {part.key}: its process ended with {why}; where memory ran out, try fewer --jobs, with --resume."
        )
    return answer


def _share(threads: int, jobs: int) -> int:
    """Of torch's threads, for one of several processes, unless the user has said how many."""
    cores = os.cpu_count() or 1
    return threads if "OMP_NUM_THREADS" in os.environ else min(threads, max(1, cores // jobs))


@contextmanager
def _unheard_interrupts() -> Iterator[None]:
    """A process that is started inside does not hear Ctrl-C, not even while it imports: this one ends it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
