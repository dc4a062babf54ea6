"""The figures of the report on speech: losses, weights and multipliers over time, and the swept gap."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ferero_lab.experiments.experiment import Found
from ferero_lab.report.panels import Curve, Level, Lines, Panel
from ferero_lab.speech.experiment.losses import NAMES
from ferero_lab.speech.experiment.wishes import TITLES, Levels

__all__ = ["LANGUAGE", "course_panels", "pretraining_panel", "steering_panels", "sweep_panel"]

LANGUAGE = {"zh": "Mandarin", "en": "English"}
_STEPS = "optimizer steps"
_NATS = "nats for each symbol"
_WANTED = ("cpc ≤ ε₁", "zh - en = ε₂")
_CPC, _ZH, _EN = range(len(NAMES))


def pretraining_panel(run: Found) -> Lines:
    """The three dev losses while the weights are fresh."""
    lines = [_line(run, [row[i] for row in run["course"]["held_out"]], _loss(i)) for i in range(len(NAMES))]
    return Lines("Pre-training: losses on the dev set", _STEPS, "nats", lines)


def course_panels(runs: Mapping[str, Found], levels: Levels | None) -> list[Panel]:
    """The dev losses of some methods: CPC and the gap with their levels, and each language."""
    bound = [] if levels is None else [Level(levels.cpc, f"ε₁ = {levels.cpc:.3f}")]
    gap = [] if levels is None else [Level(levels.gap, f"ε₂ = {levels.gap:.3f}")]
    return [
        Lines("CPC", _STEPS, "nats for each predicted frame", _curves(runs, lambda row: row[_CPC]), levels=bound),
        Lines("Mandarin minus English", _STEPS, _NATS, _curves(runs, lambda row: row[_ZH] - row[_EN]), levels=gap),
        Lines("CTC, Mandarin", _STEPS, _NATS, _curves(runs, lambda row: row[_ZH])),
        Lines("CTC, English", _STEPS, _NATS, _curves(runs, lambda row: row[_EN])),
    ]


def steering_panels(run: Found) -> list[Panel]:
    """With which weights a run under constraints was trained, and its multipliers."""
    course, title = run["course"], TITLES[run["method"]]
    weights = [_line(run, [row[i] for row in course["weights"]], _loss(i)) for i in range(len(NAMES))]
    panels: list[Panel] = [Lines(f"{title}: weights of the losses", _STEPS, "weight", weights)]
    if all(len(row) == len(_WANTED) for row in course["multipliers"]):
        lines = [_line(run, [row[i] for row in course["multipliers"]], name) for i, name in enumerate(_WANTED)]
        panels.append(Lines(f"{title}: multipliers of the constraints", _STEPS, "multiplier", lines))
    return panels


def sweep_panel(rows: Sequence[Mapping[str, Any]]) -> Lines:
    """The gap reached over the gap asked for."""
    asked = [row["asked"] for row in rows]
    lines = [
        Curve(asked, asked, "asked for", dashed=True),
        Curve(asked, [row["dev"]["gap"] for row in rows], "dev set"),
        Curve(
            asked,
            [row["test"]["gap"] for row in rows],
            "test set",
            [row["test"]["standard_errors"]["gap"] for row in rows],
        ),
    ]
    return Lines("Gap asked for and reached", "gap asked for, nats for each symbol", "gap reached", lines)


def _curves(runs: Mapping[str, Found], value: Callable[[Sequence[float]], float]) -> list[Curve]:
    return [_line(run, [value(row) for row in run["course"]["held_out"]], TITLES[name]) for name, run in runs.items()]


def _line(run: Found, values: Sequence[float], label: str) -> Curve:
    return Curve(run["course"]["steps"], values, label)


def _loss(index: int) -> str:
    return LANGUAGE.get(NAMES[index], "CPC")
