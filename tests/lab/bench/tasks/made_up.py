"""Lines of cells that never ran, and tasks that are over in no time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

import ferero
from ferero_lab.bench.tasks.rivals import RIVALS
from ferero_lab.bench.tasks.task import Task

Plain = list[float | None]
MISSED: Plain = [0.5, 0.5, 0.0, None]


def line(
    task: str = "vae 4", form: str = "as it is", seed: int = 0, half: str = "report", **measured: Any
) -> dict[str, Any]:
    """One cell."""
    return {"half": half, "task": task, "form": form, "seed": seed, **measured}


def rivals(met: dict[int, Plain], alone: tuple[float, float] = (0.0, 0.0)) -> list[Plain]:
    """All settings, of which those with a number meet it, then the two alone."""
    return [met.get(i, MISSED) for i in range(len(RIVALS))] + [[1.0, 1.0, objective, None] for objective in alone]


class Point(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor([1.0 + seed, 2.0], dtype=torch.float64))


def tiny(steps: int = 60, level: float = 0.5) -> Task:
    """``a <= level, minimize b`` with two squares, whose noise depends on step and seed."""
    f = ferero.objectives("a", "b")

    def evaluate(model: nn.Module) -> Tensor:
        (theta,) = model.parameters()
        return torch.stack([(theta - 1).square().sum(), (theta + 1).square().sum()])

    def losses(model: nn.Module, step: int, seed: int) -> Tensor:
        return evaluate(model) * (1 + 0.01 * ((7 * step + seed) % 5))

    preference = ferero.Preference(f, [f.a <= level], minimize=f.b)
    rates = {"sgd": 0.05, "momentum": 0.005, "adam": 0.01}
    return Task(f"a <= {level:g}, tiny", preference, Point, losses, evaluate, steps, rates, "sgd")  # type: ignore[arg-type]


def tiny_named(name: str, steps: int = 60) -> Task:
    """The same under another name."""
    return replace(tiny(steps), name=name)
