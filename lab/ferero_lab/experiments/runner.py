"""Runs an experiment part by part, keeps each as it is finished, and writes the report."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ferero.errors import FereroError, InputError
from ferero_lab.experiments import registry
from ferero_lab.experiments.experiment import Context, Experiment, Found, Part, Settings, Story
from ferero_lab.experiments.run_folder import RunFolder
from ferero_lab.experiments.side_by_side import SideBySide
from ferero_lab.experiments.stage import Stage
from ferero_lab.report import configuration

__all__ = ["Done", "report_again", "run_experiment"]

_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Done:
    """What a run leaves.

    Attributes:
        folder: where.
        config: settings, versions and device.
        story: what the report tells.
        damaged: parts whose files could not be read, by key; they are not in the story.
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
    """Runs what is not kept yet, and writes the report.

    A part that was kept by an earlier run with the same settings is not run again; one whose file is damaged is. What
    a part gives goes through its file before the report reads it, so that a resumed run tells the same story.

    Args:
        experiment: which.
        settings: the user's.
        folder: where to keep it; new or empty unless ``resume``.
        resume: whether to continue what is there.
        jobs: how many parts may run at once; with more than one they are run by as many processes, spawned, to which
            the experiment goes by pickle.
        tell: called with a `Stage` as the run proceeds.

    Raises:
        InputError: settings that the experiment does not know, no job at all, or a folder that is taken or of another
            run.
        LostPartError: a worker that exited without returning a result.
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
            found = SideBySide(experiment, parts, settings, place, jobs, config["threads"], tell).run()
    except FereroError:
        if is_new and not place.has_begun(
            part.key for part in parts
        ):  # nothing is lost: the command can be given again
            shutil.rmtree(folder)
        raise
    return _write_report(experiment, settings, found, place)


def _run_parts(
    parts: Sequence[Part], settings: Settings, place: RunFolder, tell: Callable[[Stage], None]
) -> dict[str, Found]:
    found: dict[str, Found] = {}
    for index, part in enumerate(parts):
        kept = place.kept(part.key)
        tell(Stage(part.title, index, len(parts)))
        found[part.key] = _run_part(part, index, len(parts), settings, place, tell, found) if kept is None else kept
        tell(Stage(part.title, index + 1, len(parts), ended="run" if kept is None else "kept"))
    return found


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """So many threads inside: small networks are slower with two, and sums come out the same on every machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def report_again(folder: Path) -> Done:
    """Writes the report of a run anew, from the parts that are kept; a run that was interrupted may miss some.

    Raises:
        InputError: a folder that holds no run.
    """
    place = RunFolder(folder)
    experiment = registry.get(place.config()["options"]["experiment"])
    kept = {key: place.kept(key) for key in place.part_keys()}
    found = {key: one for key, one in kept.items() if one is not None}
    damaged = tuple(key for key, one in kept.items() if one is None)
    return _write_report(experiment, place.settings(), found, place, damaged)


def _run_part(
    part: Part,
    index: int,
    parts: int,
    settings: Settings,
    place: RunFolder,
    tell: Callable[[Stage], None],
    found: Mapping[str, Found],
) -> Found:
    def advance(done: int, total: int) -> None:
        tell(Stage(part.title, index, parts, min(done / total, 1.0) if total > 0 else 0.0))

    read = {key: found[key] for key in part.after}
    return place.keep(part.key, part.run(Context(settings, place.checkpoints(part.key), advance, read)))


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
    """What the experiment wants; otherwise one for the small networks of a quick run, or what torch takes."""
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
