"""One cell of the benchmark: a task in one form from one seed, trained by ferero and by every rival setting."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from math import isfinite
from typing import Any

import torch

import ferero
from ferero_lab.bench.tasks.figures import Key
from ferero_lab.bench.tasks.registry import SEEDS, Half, cells
from ferero_lab.bench.tasks.rivals import ALONE, RIVALS, Rivals
from ferero_lab.bench.tasks.score import Score, score
from ferero_lab.bench.tasks.task import Task
from ferero_lab.bench.tasks.train import train_alone, train_together

__all__ = ["Cell", "cells_of", "ferero_score", "plain", "rival_scores", "run_name"]


@dataclass(frozen=True)
class Cell:
    """Where a task is found: as plain numbers, since workers make their tasks themselves."""

    half: Half
    place: int
    seed: int

    def task(self) -> Task:
        """The task in its form."""
        return cells(self.half)[self.place]


def cells_of(half: Half) -> dict[Key, Cell]:
    """All of a half, every seed, by what lines call them."""
    return {
        (half, task.name, task.form, seed): Cell(half, place, seed)
        for place, task in enumerate(cells(half))
        for seed in SEEDS[half]
    }


def rival_scores(cell: Cell) -> dict[str, Any]:
    """Every rival setting, then what the objective and the constraint alone lead to; plain data."""
    torch.set_num_threads(1)
    task, everyone = cell.task(), RIVALS + ALONE
    found = train_together(task, Rivals(task.preference, everyone), len(everyone), cell.seed)
    return run_name(cell, task) | {"rivals": [plain(score(task, one)) for one in found]}


def ferero_score(cell: Cell) -> dict[str, Any]:
    """`ferero.Steer` with its defaults in an ordinary loop, and the verdict of its report."""
    torch.set_num_threads(1)
    task = cell.task()
    steer = ferero.Steer(task.preference)
    found = train_alone(task, steer, cell.seed)
    return run_name(cell, task) | {"ferero": plain(score(task, found)), "status": steer.report().status}


def run_name(cell: Cell, task: Task) -> dict[str, Any]:
    """What every line of the cell begins with."""
    return {"half": cell.half, "task": task.name, "form": task.form, "seed": cell.seed}


def plain(found: Score) -> list[float | None]:
    """Four numbers; JSON has no word for inf."""
    return [float(f"{value:.6g}") if isfinite(value) else None for value in astuple(found)]
