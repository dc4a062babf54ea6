"""The time of one training step on a GPU: many models at once against one alone, each in its fastest form."""

from __future__ import annotations

import time
from typing import Any

import torch

import ferero
from ferero.training import Captured, Ensemble, Members, read_batches
from ferero_lab.data import LeNet
from ferero_lab.experiments.experiment import Context
from ferero_lab.experiments.images.tasks import Task, losses, ray
from ferero_lab.experiments.images.training import fast_products

__all__ = ["time_steps"]

FORMS = {1: ((False, False), (False, True)), 25: ((False, False), (True, True))}
"""For each number of models whether convolutions are patches, and whether the losses are compiled."""
REPEATS, STEPS = 5, 60


def time_steps(task: Task, context: Context) -> dict[str, Any]:
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


def _prepare(task: Task, count: int, form: tuple[bool, bool], device: torch.device) -> Any:
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
