"""A panel of the synthetic figures as plain data: the true front, what was wanted, and where the runs went."""

from __future__ import annotations

from typing import Any

import torch

from ferero_lab.experiments.experiment import Found
from ferero_lab.experiments.synthetic.cases import Case
from ferero_lab.problems import Exponential
from ferero_lab.report.panels import FrontPanel, FrontPoint, Segment

__all__ = ["case_panel", "true_front"]

NAMES = ("f1", "f2")
LONG = 1.15  # of a ray in a picture


def true_front() -> list[list[float]]:
    """Points of the front (K, 2)."""
    points: list[list[float]] = Exponential().front(80).tolist()
    return points


def case_panel(case: Case, found: Found) -> FrontPanel:
    """The first seed's runs; one that is not there is hollow."""
    runs = [run for run in found["runs"] if run["path"]]
    segments = [] if case.wanted == "nothing" else [_segment(case, run) for run in runs]
    points = [_point(case, run) for run in runs]
    return FrontPanel(case.title, NAMES, points, segments, true_front())


def _label(run: dict[str, Any]) -> str:
    return f"{run['angle']:.0f}°"


def _segment(case: Case, run: dict[str, Any]) -> Segment:
    """A ray from the origin, or a line from the start's losses as far as an axis."""
    angle, begin = (
        torch.deg2rad(torch.tensor(run["angle"], dtype=torch.float64)),
        torch.tensor(run["through"], dtype=torch.float64),
    )
    ray = torch.stack([angle.cos(), angle.sin()])
    if case.wanted == "rays":
        return Segment([0.0, 0.0], (LONG * ray).tolist(), _label(run), _label(run))
    reach = float((begin / ray).min())
    return Segment(begin.tolist(), (begin - reach * ray).tolist(), _label(run), _label(run))


def _point(case: Case, run: dict[str, Any]) -> FrontPoint:
    is_there = run["reached"] if case.wanted != "nothing" else run["distance"] < 0.01
    details = {
        "status": run["status"],
        "off the front": f"{run['distance']:.1e}",
        "weights": ", ".join(f"{w:.3g}" for w in run["weights"] if w is not None),
        "evaluations": str(run["evaluations"]),
    }
    if run["error"] is not None:
        details["ray error"] = f"{run['error']:.2g}°"
        details["violation"] = f"{run['violation']:.1e}"
    group = _label(run)
    label = f"start {group}" if case.wanted == "nothing" else f"{case.wanted[:-1]} at {group}"
    return FrontPoint(run["losses"], group, label, details, run["path"], (), is_there)
