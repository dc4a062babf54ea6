"""What the workers of test_sweep.py do: each run leaves a file, so that runs can be counted."""

import os
import signal
import time
import uuid
from functools import partial
from pathlib import Path

import torch

from ferero.fronts._sweep import sweep
from ferero.fronts._trained import Course, Trained


def place(preference):
    """Which point it is: rays are (1, 1 + i)."""
    return round(float(preference.ray[1] / preference.ray[0])) - 1


def count(folder, preference):
    """Leaves a mark and returns how many runs of this point there have been."""
    i = place(preference)
    (Path(folder) / f"{i}-{uuid.uuid4().hex}").touch()
    return runs(folder).get(i, 0)


def runs(folder):
    """How often each point was run."""
    names = [int(path.name.split("-")[0]) for path in Path(folder).iterdir()]
    return {i: names.count(i) for i in sorted(set(names))}


def answer(preference):
    return preference.ray / preference.ray[0]


def job(preference, marks):
    count(marks, preference)
    return answer(preference)


def mortal_job(preference, marks, which, times, folder=None, after=0):
    """Kills its own process the first ``times`` times it is run for point ``which``, when ``after`` points are kept."""
    run = count(marks, preference)
    if place(preference) == which and run <= times:
        while folder and len(list(Path(folder).glob("point-*.pt"))) < after:
            time.sleep(0.01)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    return answer(preference)


def failing_job(preference, marks, which):
    count(marks, preference)
    if place(preference) in which:
        raise PeculiarError("no", "data")
    return answer(preference)


def stopping_job(preference, marks, which):
    count(marks, preference)
    if place(preference) == which:
        raise KeyboardInterrupt
    return answer(preference)


def hanging_job(preference, marks, which):
    count(marks, preference)
    if place(preference) == which:
        time.sleep(60)
    return answer(preference)


def drive(rays, marks, folder):
    """A driver that comes to point 2 and no further."""
    sweep(partial(hanging_job, marks=marks, which=2), rays, folder=folder)


def trained_job(preference):
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    steps = torch.arange(2)
    course = Course(steps, torch.ones(2, 2, dtype=torch.float64), torch.full((2, 2), 0.5, dtype=torch.float64))
    losses = answer(preference)
    return Trained(preference, losses, "met", "Fine.", seed=3, steps=9, course=course, state_dict=model.state_dict())


class PeculiarError(Exception):
    """Cannot be unpickled as pickle would have it: it wants two arguments."""

    def __init__(self, first, second):
        super().__init__(f"{first} {second}")
