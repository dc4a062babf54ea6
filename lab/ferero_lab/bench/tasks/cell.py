"""One cell of the benchmark: a task in one form from one seed, trained by ferero, its variants and every rival setting.

A variant is `FereroPI` with one constant at half or twice its value, or with one mechanism switched off; which
constants there are is read off the class. Settings and variants of a cell train side by side on the same batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from math import inf, isfinite
from typing import Any, TypeAlias

import torch
from torch import Tensor

import ferero
from ferero.methods import Observation
from ferero_lab.bench.tasks.registry import SEEDS, Half, cells
from ferero_lab.bench.tasks.rivals import ALONE, RIVALS, Rivals
from ferero_lab.bench.tasks.task import Task
from ferero_lab.bench.tasks.train import Score, score, train_alone, train_together

__all__ = [
    "USUAL",
    "Cell",
    "Key",
    "Line",
    "Variants",
    "cells_of",
    "ferero_score",
    "key_of",
    "make_variants",
    "rival_scores",
    "score_of",
    "variant_scores",
]

Line: TypeAlias = Mapping[str, Any]
"""What one cell left in a file, as plain data."""

Key: TypeAlias = tuple[str, str, str, int]
"""Half, task, form and seed of a cell."""

USUAL = "as it is"
LARGEST = 1e30  # in place of what is not finite, where a variant diverged


@dataclass(frozen=True)
class Cell:
    """Where a task is found, as plain numbers: a worker makes the task itself."""

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
    return _name_of(cell, task) | {"rivals": [_plain(score(task, one)) for one in found]}


def ferero_score(cell: Cell) -> dict[str, Any]:
    """`ferero.Steer` with its defaults in an ordinary loop, and the verdict of its report."""
    torch.set_num_threads(1)
    task = cell.task()
    steer = ferero.Steer(task.preference)
    found = train_alone(task, steer, cell.seed)
    return _name_of(cell, task) | {"ferero": _plain(score(task, found)), "status": steer.report().status}


def make_variants() -> dict[str, ferero.FereroPI]:
    """Every variant by its title, the usual one first."""
    usual = ferero.FereroPI()
    values = {field.name: getattr(usual, field.name) for field in fields(usual)}
    found = {USUAL: usual}
    for name, value in values.items():
        found[f"{name} / 2: {value / 2:g}"] = replace(usual, **{name: value / 2})
        found[f"{name} x 2: {value * 2:g}"] = replace(usual, **{name: value * 2})
    without = {
        "no slow release": ("release", 1.0),
        "no hurry": ("patience", 1e9),
        "one gain, whatever the noise": ("steady", values.get("proportional", 1.0)),
        "no smoothing": ("adaptation", 1e-9),
        "no limit far away": ("near", 1.0),
        "no headroom": ("headroom", 0.0),
        "never more than the plain sum": ("stretch", 1.0),
    }
    return found | {
        f"{title}: {name} {value:g}": replace(usual, **{name: value})
        for title, (name, value) in without.items()
        if name in values
    }


class Variants:
    """K methods on one preference: from losses (K, m) to weights (K, m), each from its own row and memory."""

    def __init__(self, preference: ferero.Preference, methods: list[ferero.FereroPI]) -> None:
        self.preference, self.methods = preference, methods
        self.states = [method.init(preference) for method in methods]

    def __call__(self, losses: Tensor) -> Tensor:
        """One step of each."""
        values = losses.nan_to_num(nan=LARGEST).clamp(-LARGEST, LARGEST)
        weights = []
        with torch.inference_mode():
            for k, method in enumerate(self.methods):
                decision, self.states[k] = method.update(self.preference, Observation(values[k]), self.states[k])
                weights.append(decision.weights)
        return torch.stack(weights)


def variant_scores(cell: Cell) -> dict[str, Any]:
    """Every variant in one cell; plain data."""
    torch.set_num_threads(1)
    task, methods = cell.task(), make_variants()
    found = train_together(task, Variants(task.preference, list(methods.values())), len(methods), cell.seed)
    scores = {title: _plain(score(task, one)) for title, one in zip(methods, found, strict=True)}
    return _name_of(cell, task) | {"variants": scores}


def _name_of(cell: Cell, task: Task) -> dict[str, Any]:
    """The beginning of every line of the cell."""
    return {"half": cell.half, "task": task.name, "form": task.form, "seed": cell.seed}


def _plain(found: Score) -> list[float | None]:
    """Four numbers; JSON has no word for inf."""
    return [float(f"{value:.6g}") if isfinite(value) else None for value in astuple(found)]


def key_of(line: Line) -> Key:
    """Which cell a line is about."""
    return line["half"], line["task"], line["form"], line["seed"]


def score_of(numbers: Sequence[float | None]) -> Score:
    """A score from its four numbers; JSON has no word for inf."""
    return Score(*(inf if value is None else value for value in numbers))
