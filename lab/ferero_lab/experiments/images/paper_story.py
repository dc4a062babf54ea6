"""The paper's settings: what came out, beside what the paper prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from ferero_lab.experiments.experiment import Found, Section
from ferero_lab.experiments.images.figures import cell, figures_of, hypervolumes, losses_on
from ferero_lab.experiments.images.methods import PAPER
from ferero_lab.experiments.images.oracle import angle
from ferero_lab.experiments.images.panels import ray_panel
from ferero_lab.experiments.images.tasks import KINDS
from ferero_lab.report.panels import Table

__all__ = ["PUBLISHED", "paper_sections"]

PUBLISHED = {
    ("mnist", "loss"): (1.68, 1.97),
    ("fashion", "loss"): (6.75, 7.76),
    ("fashion-mnist", "loss"): (3.63, 3.82),
    ("mnist", "accuracy"): (0.19, 0.24),
    ("fashion", "accuracy"): (0.99, 1.17),
    ("fashion-mnist", "accuracy"): (0.48, 0.53),
}
"""Hypervolumes x 1e-2 that the paper prints for LS and FERERO."""


def paper_sections(kinds: Sequence[str], found: Mapping[str, Found]) -> tuple[list[Section], dict[str, Any]]:
    """The table beside the paper's, a picture for each data set, and the figures of record."""
    by_kind = {kind: {name: found[f"{kind}-{name}"] for name in PAPER if f"{kind}-{name}" in found} for kind in kinds}
    measures = {kind: {name: figures_of(part) for name, part in parts.items()} for kind, parts in by_kind.items()}
    sections = [
        Section("Hypervolume", tables=[_hypervolumes(by_kind, "test"), _hypervolumes(by_kind, "train")]),
        Section("Angles and time", tables=[_angles(by_kind), _times(by_kind)]),
    ]
    for kind, parts in by_kind.items():
        panels = [ray_panel(f"{data} losses", parts, data) for data in ("train", "test")]
        sections.append(Section(KINDS[kind].title, panels=panels))
    return sections, {"methods": measures, "seconds": _seconds(by_kind)}


def _hypervolumes(by_kind: Mapping[str, Mapping[str, Found]], data: str) -> Table:
    rows = []
    for what in ("loss", "accuracy"):
        for kind, parts in by_kind.items():
            values = {name: hypervolumes(part, data, what) for name, part in parts.items()}
            cells = [cell(values[name], 100) if name in values else "-" for name in ("LS", "FERERO")]
            ratio = "-"
            if "LS" in values and "FERERO" in values and mean(values["LS"]) > 0:
                ratio = f"{mean(values['FERERO']) / mean(values['LS']):.2f}"
            theirs = PUBLISHED.get((kind, what), (float("nan"), float("nan")))
            printed = [f"{theirs[0]:.2f}", f"{theirs[1]:.2f}", f"{theirs[1] / theirs[0]:.2f}"]
            rows.append([f"{KINDS[kind].title}, {what}", *cells, ratio, *printed])
    header = ["data", "LS", "FERERO", "ratio", "paper: LS", "FERERO", "ratio"]
    note = "Times 1e-2, mean and standard deviation over seeds, three rays. The paper's are of test data, by its code."
    return Table(header, rows, f"On {data} data", note)


def _angles(by_kind: Mapping[str, Mapping[str, Found]]) -> Table:
    rows = []
    for kind, parts in by_kind.items():
        for name, part in parts.items():
            seeds = len({model["seed"] for model in part["models"]})
            angles = [
                f"{mean(angle(losses_on(model, 'train')) for model in part['models'][i : i + seeds]):.1f}"
                for i in range(0, len(part["models"]), seeds)
            ]
            one = figures_of(part)
            rows.append(
                [KINDS[kind].title, name, *angles, f"{one['ray_error_train']['median']:.1f}", str(one["diverged"])]
            )
    rays = next(iter(next(iter(by_kind.values())).values()))["rays"] if by_kind else []
    header = ["data", "method", *(f"ray at {degrees:g}" for degrees in rays), "median ray error", "diverged"]
    return Table(header, rows, "Angles reached, training losses, in degrees")


def _times(by_kind: Mapping[str, Mapping[str, Found]]) -> Table:
    rows = [
        [
            KINDS[kind].title,
            name,
            str(len(part["models"])),
            f"{part['seconds'] / 60:.2f}",
            f"{part['seconds'] / part['epochs']:.2f}",
        ]
        for kind, parts in by_kind.items()
        for name, part in parts.items()
    ]
    note = (
        "Set-up, compilation and evaluation included. The paper: 11.7 minutes for one FERERO model, 5.9 for one of LS."
    )
    return Table(["data", "method", "models at once", "minutes", "s an epoch"], rows, "Time", note)


def _seconds(by_kind: Mapping[str, Mapping[str, Found]]) -> dict[str, Any]:
    names = dict.fromkeys(name for parts in by_kind.values() for name in parts)
    return {
        name: {
            "seconds": sum(parts[name]["seconds"] for parts in by_kind.values() if name in parts),
            "models": sum(len(parts[name]["models"]) for parts in by_kind.values() if name in parts),
        }
        for name in names
    }
