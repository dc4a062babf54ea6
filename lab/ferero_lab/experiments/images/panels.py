"""The pictures of the images: where each method's models lie, and what was wanted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mean, stdev
from typing import Any

from ferero_lab.experiments.experiment import Found
from ferero_lab.experiments.images.figures import accuracy, losses_on
from ferero_lab.experiments.images.tasks import NAMES
from ferero_lab.report.panels import FrontPanel, FrontPoint, Segment

__all__ = ["accuracy_panel", "ray_panel", "wish_panel"]

_NEAR = 1.8  # ways there are shown from where they come this near to where they end


def ray_panel(title: str, parts: Mapping[str, Found], data: str) -> FrontPanel:
    """All methods on their rays, means over seeds; the losses of some data."""
    points = [point for name, part in parts.items() for point in _points(name, part, data)]
    rays = next(iter(parts.values()))["rays"] if parts else []
    reach = max((math.hypot(*point.losses) for point in points), default=1.0)
    points = [replace(point, path=[at for at in point.path if math.hypot(*at) < _NEAR * reach]) for point in points]
    segments = [
        Segment([0.0, 0.0], [reach * math.cos(math.radians(d)), reach * math.sin(math.radians(d))], f"ray at {d:g}°")
        for d in rays
    ]
    return FrontPanel(title, [f"{name} loss" for name in NAMES], points, segments)


def accuracy_panel(title: str, parts: Mapping[str, Found], data: str) -> FrontPanel:
    """The same in accuracies."""
    points = []
    for name, part in parts.items():
        for degrees, models in _by_ray(part):
            values = [accuracy(model, data) for model in models]
            points.append(
                FrontPoint(_means(values), name, _label(degrees), spread=_spreads(values), place=_label(degrees))
            )
    return FrontPanel(title, [f"{name} accuracy" for name in NAMES], points, from_zero=False)


def wish_panel(title: str, part: Found) -> FrontPanel:
    """FERERO on shifted rays, differences and thresholds, beside fixed weights."""
    points = [
        FrontPoint(
            wish["losses"],
            wish["wish"].partition(",")[0],
            wish["preference"].removeprefix("subject to").strip(),
            {"violation": f"{wish['violation']:.4f}", "seed": str(wish["seed"]), "status": wish["status"]},
            ok=wish["status"] in ("met", "met_within_noise"),
        )
        for wish in part["wishes"]
        if not wish["wish"].startswith("ray")
    ]
    segments = []
    for wish in part["wishes"]:
        if wish["seed"] == 0 and wish["through"] is not None:
            reach = 1.15 * math.hypot(*(f - t for f, t in zip(wish["losses"], wish["through"], strict=True)))
            end = [t + reach * r for t, r in zip(wish["through"], wish["ray"], strict=True)]
            segments.append(Segment(wish["through"], end, wish["wish"], "shifted ray"))
    shown = sorted(one["losses"] for one in part["fixed"] if 0.1 <= one["weight"] <= 0.9)
    names = [f"{name} loss" for name in NAMES]
    return FrontPanel(title, names, points, segments, truth=shown, truth_label="fixed weights")


def _points(name: str, part: Found, data: str) -> list[FrontPoint]:
    found = []
    for degrees, models in _by_ray(part):
        values = [losses_on(model, data) for model in models]
        details = {
            "weights": ", ".join(f"{value:.3f}" for value in _means([model["weights"] for model in models])),
            "rate": f"{part['rate']:g}",
            "seeds": str(len(models)),
            "status": ", ".join(sorted({model["status"] for model in models})),
        }
        path = models[0]["path"] if data == "train" else ()
        found.append(
            FrontPoint(_means(values), name, _label(degrees), details, path, _spreads(values), place=_label(degrees))
        )
    return found


def _by_ray(part: Found) -> list[tuple[float | None, list[dict[str, Any]]]]:
    seeds = len({model["seed"] for model in part["models"]})
    groups = [part["models"][i : i + seeds] for i in range(0, len(part["models"]), seeds)]
    return [
        (None if group[0]["ray"] is None else degrees, group)
        for degrees, group in zip(part["rays"], groups, strict=False)
    ]


def _label(degrees: float | None) -> str:
    return "no preference" if degrees is None else f"ray at {degrees:g}°"


def _means(values: Sequence[Sequence[float]]) -> list[float]:
    return [mean(column) for column in zip(*values, strict=True)]


def _spreads(values: Sequence[Sequence[float]]) -> list[float]:
    if len(values) < 2:
        return []
    return [stdev(column) if all(map(math.isfinite, column)) else math.nan for column in zip(*values, strict=True)]
