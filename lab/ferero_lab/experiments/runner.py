"""`run_experiment`: runs an experiment part by part, keeps each result when it is finished, and writes the report."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ferero.errors import FereroError, InputError
from ferero_lab import experiments
from ferero_lab.experiments.experiment import Context, Experiment, Found, Part, Settings, Story
from ferero_lab.experiments.run_folder import RunFolder
from ferero_lab.report import configuration, to_json
from ferero_lab.worker_pool import Advance, WorkerPool

__all__ = ["Done", "Stage", "may_start", "report_again", "run_experiment"]

_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Stage:
    """The progress of a run.

    Attributes:
        title: of the part that runs, or of the first if several do.
        finished: how many parts are finished.
        parts: how many there are.
        share: how far the running part is, from 0 to 1; the sum if several run.
        ended: "run" if the part has just been run, "kept" if an earlier run had finished it, else "".
    """

    title: str
    finished: int
    parts: int
    share: float = 0.0
    ended: str = ""


@dataclass(frozen=True)
class Done:
    """A finished run.

    Attributes:
        folder: of the run.
        config: settings, versions and device.
        story: the content of the report.
        damaged: keys of the parts whose files could not be read; they are not in the story.
    """

    folder: Path
    config: dict[str, Any]
    story: Story
    damaged: tuple[str, ...] = ()


def run_experiment(
    experiment: Experiment,
    settings: Settings,
    folder: Path,
    *,
    resume: bool = False,
    jobs: int = 1,
    tell: Callable[[Stage], None] = lambda _: None,
) -> Done:
    """Runs the parts that are not finished yet and writes the report.

    A part that an earlier run with the same settings finished is not run again, unless its file is damaged. Results
    are converted to what their files hold before the report reads them, so a resumed run writes the same report.

    Args:
        experiment: the experiment.
        settings: the user's.
        folder: of the run; new or empty unless ``resume``.
        resume: whether to continue the run in the folder.
        jobs: how many parts may run at once; more than one run in as many worker processes, and the experiment must be
            picklable.
        tell: called with a `Stage` as the run proceeds.

    Raises:
        InputError: settings that the experiment does not know, fewer than one job, or a folder that is taken or of
            another run.
        LostWorkerError: a worker exited without returning a result.
    """
    if jobs < 1:
        raise InputError(f"--jobs: expected 1 or more, found {jobs}; leave it out to run one part after the other.")
    place, config = RunFolder(folder), _configuration(experiment, settings)
    place.check(config, resume=resume)
    parts = experiment.parts(settings)
    _check_keys(parts)
    _check_order(parts)
    is_new = not folder.exists()
    place.begin(config)
    try:
        if jobs == 1:
            with _threads(config["threads"]):
                found = _run_parts(parts, settings, place, tell)
        else:
            found = _ParallelRun(experiment, parts, settings, place, jobs, config["threads"], tell).run()
    except FereroError:
        if is_new and not place.has_begun(part.key for part in parts):  # so the same command works without --resume
            shutil.rmtree(folder)
        raise
    return _write_report(experiment, settings, found, place)


def report_again(folder: Path) -> Done:
    """Writes the report of a run again from its finished parts, of which an interrupted run may have only some.

    Raises:
        InputError: a folder that holds no run.
    """
    place = RunFolder(folder)
    experiment = experiments.get(place.config()["options"]["experiment"])
    kept = {key: place.kept(key) for key in place.part_keys()}
    found = {key: one for key, one in kept.items() if one is not None}
    damaged = tuple(key for key, one in kept.items() if one is None)
    return _write_report(experiment, place.settings(), found, place, damaged)


def _run_parts(
    parts: Sequence[Part], settings: Settings, place: RunFolder, tell: Callable[[Stage], None]
) -> dict[str, Found]:
    """Runs one part after the other in this process."""
    found: dict[str, Found] = {}
    for index, part in enumerate(parts):

        def advance(done: int, total: int, title: str = part.title, index: int = index) -> None:
            tell(Stage(title, index, len(parts), min(done / total, 1.0) if total > 0 else 0.0))

        kept = place.kept(part.key)
        tell(Stage(part.title, index, len(parts)))
        if kept is None:
            context = Context(settings, place.checkpoints(part.key), advance, {key: found[key] for key in part.after})
            found[part.key] = place.keep(part.key, part.run(context))
        else:
            found[part.key] = kept
        tell(Stage(part.title, index + 1, len(parts), ended="run" if kept is None else "kept"))
    return found


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Sets torch's threads: small networks are slower with two, and sums come out the same on every machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _ParallelRun:
    """Runs parts in worker processes; this process alone writes their results.

    When a part fails, no other is started and those that run are terminated.

    Args:
        experiment: goes to the workers by pickle.
        parts: of the experiment.
        settings: the user's.
        place: the folder of the run.
        jobs: the number of workers.
        threads: torch's, for a part that runs alone; beside others it has its share of the cores, if that is less.
        tell: called with a `Stage` as the run proceeds.
    """

    def __init__(
        self,
        experiment: Experiment,
        parts: Sequence[Part],
        settings: Settings,
        place: RunFolder,
        jobs: int,
        threads: int,
        tell: Callable[[Stage], None],
    ) -> None:
        self._experiment, self._parts, self._settings, self._place = experiment, parts, settings, place
        self._jobs, self._threads, self._tell = jobs, threads, tell
        self._tasks = {f"part {part.key}": part for part in parts}
        self._found: dict[str, Found] = {}
        self._pool = WorkerPool(advice="where memory ran out, try fewer --jobs, with --resume")

    def run(self) -> dict[str, Found]:
        """The results of all parts, in their order.

        Raises:
            LostWorkerError: a worker exited without returning a result.
            Exception: what a part raised.
        """
        with self._pool:
            self._read_kept()
            while len(self._found) < len(self._parts):
                self._start_parts()
                self._read_messages()
        return {part.key: self._found[part.key] for part in self._parts}

    def _read_kept(self) -> None:
        """Reads the results of an earlier run."""
        for part in self._parts:
            kept = self._place.kept(part.key)
            if kept is not None:
                self._found[part.key] = kept
                self._say(part.title, ended="kept")

    def _start_parts(self) -> None:
        running = [self._tasks[task].key for task in self._pool.running]
        for part in may_start(self._parts, self._found, running, self._jobs):
            self._place.checkpoints(part.key)  # made here, since this process removes empty ones
            threads = self._threads if part.alone else _share_of_threads(self._threads, self._jobs)
            call = partial(_run_in_worker, self._experiment, self._settings, self._place.path, part.key, threads)
            self._pool.start(f"part {part.key}", call, alone=part.alone)
            self._say_running()

    def _read_messages(self) -> None:
        for message in self._pool.messages():
            if message.is_done:
                part = self._tasks[message.task]
                self._found[part.key] = self._place.keep(part.key, message.answer)
                self._say(part.title, ended="run")
            else:
                self._say_running()

    def _say_running(self) -> None:
        first, *others = (self._tasks[task].title for task in self._pool.running)
        self._say(f"{first}, and {len(others)} more" if others else first)

    def _say(self, title: str, ended: str = "") -> None:
        share = sum(self._pool.running.values())
        self._tell(Stage(title, len(self._found), len(self._parts), share, ended))


def _run_in_worker(
    experiment: Experiment, settings: Settings, folder: Path, key: str, threads: int, advance: Advance
) -> Found:
    """Runs one part in a worker; the parts that it reads are read from the folder of the run."""
    import torch

    torch.set_num_threads(threads)
    place = RunFolder(folder)
    part = next(part for part in experiment.parts(settings) if part.key == key)
    found = {one: kept for one in part.after if (kept := place.kept(one)) is not None}
    given: Found = json.loads(to_json(part.run(Context(settings, place.checkpoints(key), advance, found))))
    return given


def _share_of_threads(threads: int, jobs: int) -> int:
    """Threads of one of several workers: its share of the cores, unless the user has set OMP_NUM_THREADS."""
    cores = os.cpu_count() or 1
    return threads if "OMP_NUM_THREADS" in os.environ else min(threads, max(1, cores // jobs))


def may_start(parts: Sequence[Part], finished: Collection[str], running: Collection[str], jobs: int) -> list[Part]:
    """The parts that may start now, those with the longest chain of dependents first.

    A part may start once the parts in its ``after`` are finished. A part that runs alone starts last, when nothing
    runs and nothing else may start, and nothing starts beside it.

    Args:
        parts: of the experiment, each after the parts that it reads.
        finished: their keys.
        running: their keys.
        jobs: how many may run at once.
    """
    if any(part.alone for part in parts if part.key in running):
        return []
    ready = [
        part for part in parts if part.key not in {*finished, *running} and all(key in finished for key in part.after)
    ]
    waits = _chains(parts)
    together = sorted((part for part in ready if not part.alone), key=lambda part: -waits[part.key])
    if together or running:
        return together[: max(0, jobs - len(running))]
    return ready[:1]


def _chains(parts: Sequence[Part]) -> dict[str, int]:
    """The length of the longest chain of parts that wait for each part."""
    chains = {part.key: 0 for part in parts}
    for part in reversed(parts):
        for key in part.after:
            chains[key] = max(chains[key], chains[part.key] + 1)
    return chains


def _write_report(
    experiment: Experiment,
    settings: Settings,
    found: Mapping[str, Found],
    place: RunFolder,
    damaged: tuple[str, ...] = (),
) -> Done:
    from ferero_lab.report.story import story_files  # draws, which takes a while to import

    config = place.config()
    story = experiment.story(settings, found)
    for name, content in story_files(story, config).items():
        if name != "config.json":
            place.write(name, content)
    return Done(place.path, config, story, damaged)


def _configuration(experiment: Experiment, settings: Settings) -> dict[str, Any]:
    options = {"experiment": experiment.name, **settings.to_dict()}
    return {
        **configuration("run", **options),
        "defaults": dict(experiment.defaults),
        "device": _device(settings.device),
        "threads": _thread_count(experiment, settings),
    }


def _thread_count(experiment: Experiment, settings: Settings) -> int:
    """The experiment's own number; otherwise 1 for the small networks of a quick run, or torch's default."""
    import torch

    usual = 1 if settings.mode == "quick" else torch.get_num_threads()
    return int(experiment.defaults.get("threads", usual))


def _device(name: str) -> str:
    import torch

    return torch.cuda.get_device_name(name) if torch.device(name).type == "cuda" else name


def _check_keys(parts: Sequence[Part]) -> None:
    keys = [part.key for part in parts]
    bad = next((key for key in keys if not _KEY.fullmatch(key) or keys.count(key) > 1), None)
    if bad is not None:
        raise InputError(f"parts: expected keys of letters, digits, - and _, each once, found {bad!r}.")


def _check_order(parts: Sequence[Part]) -> None:
    before: set[str] = set()
    for part in parts:
        for key in part.after:
            if key not in before:
                raise InputError(f"parts: expected {part.key!r} after parts that come before it, found {key!r}.")
        before.add(part.key)
