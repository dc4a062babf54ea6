"""The scale-invariance section: what other units change, and what not."""

from __future__ import annotations

from typing import Any

from ferero_lab.experiments.experiment import Found, Section
from ferero_lab.experiments.synthetic.panels import NAMES, true_front
from ferero_lab.report.panels import Curve, FrontPanel, FrontPoint, Lines, Panel, Table

__all__ = ["scale_section"]

TITLES = {
    "paper": "Scale invariance: the paper's settings, fixed step 0.05",
    "ours": "Scale invariance: our settings, step='auto'",
}
TEXTS = {
    "paper": (
        "The second loss times 1, 2 and 1e6, its preference (the line through F(theta_0) and F(0)) in the same units, "
        "and all losses shown in those of the first run. The direction d / |d| at the start is the same in all three, "
        "as proved. Its length is not, so a fixed step is not invariant: times 2 it goes the same way faster, times "
        "1e6 one step leads to the plateau, where gradients vanish and every certificate holds."
    ),
    "ours": "The same three runs with step='auto', which looks at no unit: they coincide.",
}
HEADER = ("f2 times", "|d|", "d/|d| turned by", "steps", "status", "path off by", "end off by")
NOTE = (
    "At the start: |d|, and d/|d| against the first run's. Losses against the first run's, in its units, step by step."
)


def scale_section(column: str, found: Found) -> tuple[Section, dict[str, Any]]:
    """The section of one column of settings, and its measures by scale."""
    runs = found["runs"]
    table = Table(HEADER, [_row(run) for run in runs], TITLES[column], NOTE)
    kept = ("length", "turn", "iterations", "status", "apart", "apart_at_the_end")
    measures = {f"{run['scale']:g}": {key: run[key] for key in kept} for run in runs}
    return Section(TITLES[column], TEXTS[column], _panels(runs), [table]), measures


def _panels(runs: list[dict[str, Any]]) -> list[Panel]:
    points = [
        FrontPoint(run["path"][-1], _name(run), _name(run), {"status": run["status"]}, run["path"], place=_name(run))
        for run in runs
    ]
    lines = [
        Curve(list(range(len(run["path"]))), [losses[0] for losses in run["path"]], _name(run), dashed=index > 0)
        for index, run in enumerate(runs)
    ]
    ways = FrontPanel("losses in the first's unit", NAMES, points, (), true_front())
    return [ways, Lines("f1 on the way", "step", "f1", lines)]


def _name(run: dict[str, Any]) -> str:
    return f"f2 x {run['scale']:g}"


def _row(run: dict[str, Any]) -> list[str]:
    return [
        f"{run['scale']:g}",
        f"{run['length']:.4g}",
        f"{run['turn']:.0e}",
        str(run["iterations"]),
        run["status"],
        f"{run['apart']:.1e}",
        f"{run['apart_at_the_end']:.1e}",
    ]
