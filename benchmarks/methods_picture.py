"""Draws docs/pictures/methods.png: where methods go from one start, for the same four rays."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import torch

import ferero
from ferero_lab.problems import Exponential

TARGET = Path(__file__).parents[1] / "docs/pictures/methods.png"
METHODS = (
    ferero.Ferero(bound=10.0),
    ferero.FereroPI(),
    ferero.EPO(),
    ferero.PMTL(),
    ferero.Tchebycheff(),
    ferero.LinearScalarization(),
)


def main() -> None:
    """One panel for each method, on the paper's problem with its concave front."""
    mpl.use("Agg")
    problem, generator = Exponential(), torch.Generator().manual_seed(3)
    start = problem.starts("easy", 1, generator)[0]
    rays = problem.rays(4, generator)
    figure, axes = plt.subplots(2, 3, figsize=(10, 6.6), layout="constrained")
    for panel, method in zip(axes.flat, METHODS, strict=True):
        front = ferero.trace(problem, start, rays, method=method, step=0.05, max_iter=500)
        front.plot(ax=panel)
        for ray in rays.tolist():
            panel.plot([0, 2 * ray[0]], [0, 2 * ray[1]], ":", color="0.8", linewidth=0.8, zorder=0)
        panel.set(title=type(method).__name__, xlim=(0, 1), ylim=(0, 1))
        panel.label_outer()
    TARGET.parent.mkdir(exist_ok=True)
    figure.savefig(TARGET, dpi=110)


if __name__ == "__main__":
    main()
