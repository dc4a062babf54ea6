"""The measures of a run on the images: ray errors, hypervolumes, levels, from what the parts kept."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from statistics import mean, median, stdev
from typing import Any

import torch

from ferero.fronts import hypervolume, ray_error
from ferero_lab.experiments.experiment import Found
from ferero_lab.experiments.images.oracle import Tried, closest, level
from ferero_lab.experiments.images.plan import KINDS, NAMES

__all__ = [
    "accuracy",
    "attained",
    "cell",
    "figures_of",
    "hypervolumes",
    "levels",
    "losses_on",
    "prices",
    "ray_errors",
    "tried_of",
    "with_nan",
]

Model = dict[str, Any]
_THRESHOLD = re.compile(rf"({'|'.join(NAMES)}) <= ([0-9.]+)")
_MODELS = ("models", "preferences", "fixed")
_NUMBERS = ("losses", "evaluated", "weights", "path")


def with_nan(part: Found) -> Found:
    """A part as it was before it was kept: JSON has None for a number that is not finite."""
    return {key: [_model(one) for one in value] if key in _MODELS else value for key, value in part.items()}


def losses_on(model: Model, data: str) -> list[float]:
    """The two losses on "train", "validation" or "test"."""
    return [model["evaluated"][data][name] for name in NAMES]


def accuracy(model: Model, data: str) -> list[float]:
    """The two accuracies."""
    return [model["evaluated"][data][f"accuracy_{name}"] for name in NAMES]


def ray_errors(part: Found, data: str) -> list[float]:
    """Degrees between each model's losses and its ray; a model without one is held against every ray."""
    found = []
    for index, model in enumerate(part["models"]):
        rays = part["rays"] if model["ray"] is None else [part["rays"][index // _seeds(part)]]
        found += [_off(losses_on(model, data), degrees) for degrees in rays]
    return found


def hypervolumes(part: Found, data: str, what: str) -> list[float]:
    """For every seed that of its models, of "loss" or "accuracy", below the paper's reference point."""
    kind = KINDS[part["kind"]]
    found = []
    for seed in sorted({model["seed"] for model in part["models"]}):
        some = [model for model in part["models"] if model["seed"] == seed]
        if what == "loss":
            points, reference = [losses_on(model, data) for model in some], list(kind.loss_reference)
        else:
            points = [[1 - value for value in accuracy(model, data)] for model in some]
            reference = [1 - value for value in kind.accuracy_reference]
        finite = [point for point in points if all(map(math.isfinite, point))]
        found.append(hypervolume(torch.tensor(finite, dtype=torch.float64), reference) if finite else 0.0)
    return found


def figures_of(part: Found) -> dict[str, Any]:
    """All figures of one method on one data set, as plain data."""
    models = part["models"]
    rows: dict[str, Any] = {
        "rate": part["rate"],
        "epochs": part["epochs"],
        "seeds": _seeds(part),
        "diverged": sum(model["status"] == "diverged" for model in models),
        "seconds": part["seconds"],
    }
    for data in ("train", "test"):
        errors = ray_errors(part, data)
        rows[f"ray_error_{data}"] = {"median": median(errors), "worst": max(errors)}
        rows[f"losses_{data}"] = [mean(losses_on(model, data)[i] for model in models) for i in range(2)]
        rows[f"accuracy_{data}"] = [mean(accuracy(model, data)[i] for model in models) for i in range(2)]
        for what in ("loss", "accuracy"):
            rows[f"hypervolume_{what}_{data}"] = hypervolumes(part, data, what)
    return rows


# fixed weights -----------------------------------------------------------------------------------------------


def tried_of(part: Found) -> list[Tried]:
    """The fixed weights that were tried, ordered."""
    return [Tried(one["weight"], (one["losses"][0], one["losses"][1]), one["evaluated"]) for one in part["fixed"]]


def attained(part: Found) -> tuple[float, float]:
    """The smallest and the largest angle that fixed weights between 0.02 and 0.98 reach."""
    angles = [one.angle for one in tried_of(part) if 0.02 <= one.weight <= 0.98]
    return min(angles), max(angles)


def levels(part: Found) -> list[dict[str, float]]:
    """For every ray: the fixed weights that come closest, and FERERO's level along the ray over theirs (seed 0)."""
    tried = tried_of(part)
    found = []
    for degrees in part["rays"]:
        best = closest(tried, degrees)
        steered = next(one for one in part["preferences"] if one["name"] == f"ray at {degrees:g}" and one["seed"] == 0)
        found.append(
            {
                "degrees": degrees,
                "weight": best.weight,
                "oracle_off": abs(best.angle - degrees),
                "oracle_level": level(best.losses, degrees),
                "ferero_off": _off(steered["losses"], degrees),
                "ferero_level": level(steered["losses"], degrees),
                "ratio": level(steered["losses"], degrees) / level(best.losses, degrees),
            }
        )
    return found


def prices(part: Found) -> list[dict[str, Any]]:
    """For every threshold: the loss that was minimised over that of the best fixed weights which keep it (seed 0)."""
    tried, found = tried_of(part), []
    for one in part["preferences"]:
        match = _THRESHOLD.search(one["preference"])
        if match is None or one["seed"] != 0:
            continue
        bounded = NAMES.index(match[1])
        bound, other = float(match[2]), 1 - bounded
        best = min((fixed.losses[other] for fixed in tried if fixed.losses[bounded] <= bound), default=math.nan)
        found.append(
            {
                "name": one["name"],
                "bound": bound,
                "bounded": one["losses"][bounded],
                "minimized": one["losses"][other],
                "fixed": best,
                "ratio": one["losses"][other] / best,
            }
        )
    return found


# -------------------------------------------------------------------------------------------------------------


def cell(values: Iterable[float], scale: float = 1.0, digits: int = 2) -> str:
    """The mean with its standard deviation, for a table."""
    known = [scale * value for value in values]
    text = f"{mean(known):.{digits}f}"
    return f"{text} ± {stdev(known):.{digits}f}" if len(known) > 1 else text


def _model(one: Model) -> Model:
    numbers = {key: _numbers(value) for key, value in one.items() if key in _NUMBERS and value is not None}
    return {**one, **numbers, **({"violation": math.inf} if one.get("violation", 0.0) is None else {})}


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _numbers(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_numbers(part) for part in value]
    return math.nan if value is None else value


def _seeds(part: Found) -> int:
    return len({model["seed"] for model in part["models"]})


def _off(losses: Sequence[float], degrees: float) -> float:
    angle = math.radians(degrees)
    if not all(map(math.isfinite, losses)):
        return 90.0
    return float(ray_error(torch.tensor(losses, dtype=torch.float64), [math.cos(angle), math.sin(angle)]))
