"""One run of many models on the images, as plain data that a report can be made of."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ferero.fronts import Front, Trained, train_front
from ferero.methods import Method
from ferero.preference import Preference
from ferero_lab.experiments.experiment import Context
from ferero_lab.experiments.images.tasks import Task, accuracies, losses

__all__ = ["Recipe", "fast_products", "models_of", "train"]


@dataclass(frozen=True)
class Recipe:
    """How long and with which step; the same for all methods.

    Attributes:
        epochs: passes over the training images.
        rate: of SGD without momentum.
        decay: whether the rate falls to 0 along a cosine.
        compiled: whether `torch.compile` is worth its time.
    """

    epochs: int
    rate: float
    decay: bool = True
    compiled: bool = False


def train(
    task: Task,
    method: Method[Any],
    preferences: Sequence[Preference],
    recipe: Recipe,
    seeds: Sequence[int],
    context: Context,
    *,
    name: str,
    slopes: Any = "realized",
    rate_factors: Sequence[float] | None = None,
) -> tuple[Front[Trained], float]:
    """Train them all, with a checkpoint under the part's folder.

    Returns:
        The front, and the seconds that it took.
    """
    schedule = None
    if recipe.decay:

        def schedule(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
            return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, recipe.epochs)

    checkpoint: Path = context.folder / f"{name}.pt"
    begin = time.perf_counter()
    with fast_products():
        front = train_front(
            task.model,
            losses,
            task.train,
            preferences,
            method=method,
            optimizer=lambda parameters: torch.optim.SGD(parameters, lr=recipe.rate),
            epochs=recipe.epochs,
            schedule=schedule,
            seeds=seeds,
            batch_size=task.batch,
            device=context.settings.device,
            evaluate={
                name: part for name, part in (("validation", task.validation), ("test", task.test)) if len(part[0])
            },
            metrics=accuracies,
            slopes=slopes,
            rate_factors=rate_factors,
            checkpoint=checkpoint,
            progress=context.advance,
            compile=recipe.compiled,
        )
    return front, time.perf_counter() - begin


@contextmanager
def fast_products() -> Iterator[None]:
    """Matrix products in TF32, as convolutions are on a GPU by torch's default; nothing changes on a CPU."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def models_of(front: Front[Trained]) -> list[dict[str, Any]]:
    """Every model of a front as plain data, with its way there thinned."""
    return [
        {
            "preference": str(result.preference).splitlines()[-1],
            "ray": None if result.preference.ray is None else result.preference.ray.tolist(),
            "through": None if result.preference.through is None else result.preference.through.tolist(),
            "seed": result.seed,
            "status": result.status,
            "losses": result.losses.tolist(),
            "weights": None if result.weights is None else result.weights.tolist(),
            "violation": _largest(result.preference, result.losses),
            "evaluated": result.evaluated,
            "path": [] if result.course is None else _thinned(result.course.losses.tolist()),
            "steps": result.steps,
        }
        for result in front.results
    ]


def _largest(preference: Preference, values: torch.Tensor) -> float:
    violation = preference.violation(values)
    return float(violation.max()) if violation.numel() else 0.0


def _thinned(path: list[list[float]], most: int = 25) -> list[list[float]]:
    every = max(1, -(-len(path) // most))
    return [*path[::every], *([path[-1]] if (len(path) - 1) % every else [])]
