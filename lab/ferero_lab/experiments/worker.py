"""A process that runs parts of an experiment for another one: it is told a key and answers with what the part gave."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import TypeAlias

from ferero_lab.experiments.experiment import Context, Experiment, Found, Settings
from ferero_lab.experiments.run_folder import RunFolder
from ferero_lab.report import to_json

__all__ = ["Answer", "work"]

Answer: TypeAlias = float | Found | Exception
"""How far a part is, 0 to 1; then what it gave, as plain data, or what it raised."""

_PAUSE = 0.2
"""Seconds between two words about how far a part is."""


def work(pipe: Connection, experiment: Experiment, settings: Settings, folder: Path) -> None:
    """Runs the parts that it is told of, until the other end is closed.

    Args:
        pipe: gives ``(key, threads)`` for each part and takes any number of `Answer` for it.
        experiment: makes its parts here, so that they need not be sent.
        settings: the user's.
        folder: of the run; the parts that one is to come after are read there, and nothing is written but in the
            part's own folder.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process hears it too, and ends this one
    signal.signal(signal.SIGTERM, _leave)
    threading.Thread(target=_outlive_nobody, daemon=True).start()
    while True:
        try:
            key, threads = pipe.recv()
        except (EOFError, OSError):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is leaving as it is
            return
        answer: Answer
        try:
            answer = _run(experiment, settings, RunFolder(folder), key, threads, _teller(pipe))
        except Exception as error:
            answer = _that_travels(error)
        with suppress(OSError):  # nobody is there: the next recv says so
            pipe.send(answer)


def _run(
    experiment: Experiment,
    settings: Settings,
    place: RunFolder,
    key: str,
    threads: int,
    advance: Callable[[int, int], None],
) -> Found:
    import torch

    torch.set_num_threads(threads)
    part = next(part for part in experiment.parts(settings) if part.key == key)
    found = {one: kept for one in part.after if (kept := place.kept(one)) is not None}
    given: Found = json.loads(to_json(part.run(Context(settings, place.checkpoints(key), advance, found))))
    return given


def _teller(pipe: Connection) -> Callable[[int, int], None]:
    told = 0.0

    def advance(done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told < _PAUSE:
            return
        told = time.monotonic()
        with suppress(OSError):  # nobody is there, and this process is about to end
            pipe.send(min(done / total, 1.0) if total > 0 else 0.0)

    return advance


def _that_travels(error: Exception) -> Exception:
    """The error with the place where it was raised as a note, or one of the same words where it cannot be pickled."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        plain = RuntimeError(f"{type(error).__name__}: {error}")
        plain.add_note(error.__notes__[-1])
        return plain
    return error


def _outlive_nobody() -> None:
    """Ends this process where the other one was killed and could not."""
    other = multiprocessing.parent_process()
    if other is not None:
        other.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _leave(signum: int, frame: FrameType | None) -> None:
    """SIGTERM unwinds, so that files that are half written are taken away."""
    del frame
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + signum)
