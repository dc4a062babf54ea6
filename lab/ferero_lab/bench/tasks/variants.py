"""The constants of `FereroPI` at half and at twice their values, and its mechanisms one by one taken away.

All variants of a cell train side by side on the same batches. Which constants there are is read off the class.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

import ferero
from ferero.methods import Observation
from ferero_lab.bench.tasks.cell import Cell, plain, run_name
from ferero_lab.bench.tasks.score import score
from ferero_lab.bench.tasks.train import train_together

__all__ = ["USUAL", "Variants", "make_variants", "variant_scores"]

USUAL = "as it is"
LARGEST = 1e30  # in place of what is not finite: a variant that diverged keeps the others company


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
    scores = {title: plain(score(task, one)) for title, one in zip(methods, found, strict=True)}
    return run_name(cell, task) | {"variants": scores}
