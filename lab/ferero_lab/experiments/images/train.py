"""Trains many models on the images at once, and times a step of it on a GPU."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import ferero
from ferero.fronts import Front, Trained, train_front
from ferero.methods import Method
from ferero.preference import Preference
from ferero.training import Captured, Ensemble, Members, read_batches
from ferero_lab.data import LeNet
from ferero_lab.experiments.experiment import Context
from ferero_lab.experiments.images.plan import ImageTask, accuracies, losses, ray

__all__ = ["Recipe", "models_of", "time_steps", "train"]


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
    task: ImageTask,
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
    """Every model of a front as plain data, with its trajectory thinned."""
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


FORMS = {1: ((False, False), (False, True)), 25: ((False, False), (True, True))}
"""For each number of models whether convolutions are patches, and whether the losses are compiled."""
REPEATS, STEPS = 5, 60


def time_steps(task: ImageTask, context: Context) -> dict[str, Any]:
    """Milliseconds of a captured step, the median of several rounds in which all forms take turns.

    Returns:
        One row for each number of models and form, and the ratio per model of the fastest ones.
    """
    device = torch.device(context.settings.device)
    with fast_products():
        runs = {(count, form): _prepare(task, count, form, device) for count, forms in FORMS.items() for form in forms}
    times: dict[Any, list[float]] = {key: [] for key in runs}
    for number in range(REPEATS):
        for key, step in runs.items():
            times[key].append(_timed(step, device))
        context.advance(number + 1, REPEATS)
    median = {key: sorted(values)[len(values) // 2] for key, values in times.items()}
    rows = [
        {"models": count, "patches": patches, "compiled": compiled, "milliseconds": median[count, (patches, compiled)]}
        for count, (patches, compiled) in runs
    ]
    alone, many = (min(median[count, form] for form in forms) / count for count, forms in FORMS.items())
    return {"steps": rows, "per_model_over_alone": many / alone}


def _prepare(task: ImageTask, count: int, form: tuple[bool, bool], device: torch.device) -> Any:
    patches, compiled = form
    members = Members([LeNet(seed=seed, patches=patches) for seed in range(count)], 1, device)
    ensemble = Ensemble(
        members,
        losses,
        [ray(22.5 + 45 * k / max(count - 1, 1)) for k in range(count)],
        method=ferero.FereroPI(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        compile=compiled,
    )
    batches = read_batches(task.train, task.batch, "shared", device, [0])
    captured, order = Captured(), iter(batches.epoch(0))

    def step() -> None:
        def one(*batch: torch.Tensor) -> tuple[torch.Tensor, ...]:
            ensemble.step(batch)
            return ()

        captured("step", one, *next(order))

    for _ in range(6):
        step()
    return step


def _timed(step: Any, device: torch.device) -> float:
    torch.cuda.synchronize(device)
    begin = time.perf_counter()
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize(device)
    return 1e3 * (time.perf_counter() - begin) / STEPS
