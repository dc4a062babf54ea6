"""Draws docs/pictures/methods.png: where methods go from one start, for the same four rays; and dark/methods.png."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from pages import PICTURES, keep_picture

import ferero
from ferero.plot import missed_handle
from ferero.plot.style import page_of
from ferero_lab.problems import Exponential
from ferero_lab.report import draw

METHODS = (
    ferero.Ferero(bound=10.0),
    ferero.FereroPI(),
    ferero.EPO(),
    ferero.PMTL(),
    ferero.Tchebycheff(),
    ferero.LinearScalarization(),
)


def trace_all() -> dict[str, ferero.Front[ferero.Result]]:
    """What each method finds on the paper's problem with its concave front."""
    problem, generator = Exponential(), torch.Generator().manual_seed(3)
    start = problem.starts("easy", 1, generator)[0]
    rays = problem.rays(4, generator)
    return {
        type(method).__name__: ferero.trace(problem, start, rays, method=method, step=0.05, max_iter=500)
        for method in METHODS
    }


def make(fronts: dict[str, ferero.Front[ferero.Result]]) -> Figure:
    """One panel for each method, one legend for all, in the theme that is on."""
    figure, axes = plt.subplots(2, 3, figsize=(7.4, 5.4), layout="constrained", sharex=True, sharey=True)
    truth = Exponential().front(400)
    for panel, (name, front) in zip(axes.flat, fronts.items(), strict=True):
        front.plot(ax=panel, truth=truth)
        panel.set(title=name, xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
        panel.label_outer()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    handles, labels = [*handles, missed_handle(page_of(axes[0, 0]))], [*labels, "not converged"]
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def main(folder: Path = PICTURES) -> None:
    """In both forms."""
    fronts = trace_all()
    picture = draw(lambda: make(fronts))
    keep_picture(picture, "methods", folder)


if __name__ == "__main__":
    main(*(Path(folder) for folder in sys.argv[1:]))
