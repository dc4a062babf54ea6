"""The figures of record of the emotions experiment, from the losses of its models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev
from typing import Any

import ferero
from ferero_lab.experiments.emotions.plan import REFERENCE
from ferero_lab.experiments.experiment import Found

__all__ = ["attained", "by_seed", "hypervolumes", "measure", "over_the_way", "paired", "spread_of"]

UNIT = 1e-2
"""Of the hypervolumes, as in the paper's table."""

Run = dict[str, Any]


def measure(found: Found, data: Sequence[str] = ("train", "test")) -> dict[str, Any]:
    """Errors, levels, hypervolumes and ends of one method's models.

    Angles are in degrees, over all rays and seeds; a model that diverged counts as 180. The level is the length of the
    six losses; seconds are those of an epoch and a model.
    """
    runs: list[Run] = found["runs"]
    measured: dict[str, Any] = {
        "models": len(runs),
        "diverged": sum(run["status"] == "diverged" for run in runs),
        "seconds": found["seconds"],
    }
    for name in data:
        errors = [_degrees(run["errors"][name]) for run in runs]
        measured[name] = {
            "error_median": median(errors),
            "error_largest": max(errors),
            "error_median_by_seed": [median(_degrees(r["errors"][name]) for r in group) for group in by_seed(runs)],
            "error_mean_by_ray": [fmean(_degrees(r["errors"][name]) for r in group) for group in by_ray(runs)],
            "level_median": median(_level(run["losses"][name]) for run in runs),
            "hypervolume_by_seed": hypervolumes(runs, name),
        }
    return measured


def hypervolumes(runs: Sequence[Run], data: str) -> list[float]:
    """That of the ten final losses of each seed, times 100."""
    return [_volume([run["losses"][data] for run in group]) for group in by_seed(runs)]


def over_the_way(runs: Sequence[Run], data: str) -> tuple[list[int], list[list[float]]]:
    """The steps at which there was an evaluation (E,), and the hypervolume then of each seed, (S, E)."""
    steps = runs[0]["course"]["steps"]
    volumes = [
        [_volume([run["course"][data][moment] for run in group]) for moment in range(len(steps))]
        for group in by_seed(runs)
    ]
    return steps, volumes


def paired(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation of the differences, seed by seed."""
    return spread_of([a - b for a, b in zip(ours, theirs, strict=True)])


def spread_of(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation; that of one value is 0."""
    return fmean(values), stdev(values) if len(values) > 1 else 0.0


def attained(methods: dict[str, Found], limit: float) -> list[dict[str, Any]]:
    """For each ray the model that came nearest with its training losses, whatever its method.

    Args:
        methods: what their parts gave, by name.
        limit: the angle up to which a ray counts as attained.
    """
    rays = next(iter(methods.values()))["rays"]
    found = []
    for index, ray in enumerate(rays):
        runs = [(name, run) for name, one in methods.items() for run in one["runs"] if run["ray"] == index]
        name, nearest = min(runs, key=lambda pair: _degrees(pair[1]["errors"]["train"]))
        error = _degrees(nearest["errors"]["train"])
        found.append(
            {
                "ray": ray,
                "ratio": max(ray) / min(ray),
                "error": error,
                "method": name,
                "level": _level(nearest["losses"]["train"]),
                "is_attained": error <= limit,
            }
        )
    return found


def by_seed(runs: Sequence[Run]) -> list[list[Run]]:
    """The models of each seed together."""
    seeds = dict.fromkeys(run["seed"] for run in runs)
    return [[run for run in runs if run["seed"] == seed] for seed in seeds]


def by_ray(runs: Sequence[Run]) -> list[list[Run]]:
    """The models of each ray together."""
    return [[run for run in runs if run["ray"] == ray] for ray in range(max(run["ray"] for run in runs) + 1)]


def _volume(points: Sequence[Sequence[float | None]]) -> float:
    known = [[math.nan if value is None else value for value in point] for point in points]
    finite = [point for point in known if all(map(math.isfinite, point))]
    return ferero.hypervolume(finite, REFERENCE) / UNIT if finite else 0.0


def _level(losses: Sequence[float | None]) -> float:
    return math.hypot(*(math.inf if value is None else value for value in losses))


def _degrees(error: float | None) -> float:
    return 180.0 if error is None or math.isnan(error) else error
