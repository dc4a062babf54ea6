"""Draws docs/pictures/solver-profiles.png from benchmarks/results/solver.json: performance profiles; and its dark form.

A curve is the share of all trials that a solver solves within a multiple of the evaluations of the best solver there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from pages import PICTURES, keep_picture

from ferero.plot.style import BOLD, LINE, page_of
from ferero_lab.report import draw

RESULT = Path(__file__).parent / "results/solver.json"
MOST = 16.0  # the largest multiple shown
FORMS = {"ferero": "-", "SLSQP": "--", "IPOPT": "-.", "trust-constr": ":"}

Profiles = Mapping[str, Mapping[str, Sequence[float | None]]]


def shares(evaluations: Mapping[str, Sequence[float | None]], multiples: np.ndarray) -> dict[str, np.ndarray]:
    """For each solver the share of trials solved within each multiple of the least evaluations."""
    table = {name: np.array([np.inf if e is None else e for e in taken]) for name, taken in evaluations.items()}
    best = np.min(list(table.values()), axis=0)
    ratios = {
        name: np.where(np.isfinite(best), taken / np.where(np.isfinite(best), best, 1), np.inf)
        for name, taken in table.items()
    }
    return {name: (ratio[:, None] <= multiples).mean(axis=0) for name, ratio in ratios.items()}


def make(profiles: Profiles) -> Figure:
    """One panel for each family, one legend for all, in the theme that is on."""
    figure, axes = plt.subplots(1, len(profiles), figsize=(7.4, 2.9), layout="constrained", sharey=True, squeeze=False)
    multiples = np.geomspace(1.0, MOST, 400)
    for panel, (family, evaluations) in zip(axes.flat, profiles.items(), strict=True):
        colours = page_of(panel).series
        found = shares(evaluations, multiples)
        for index, name in reversed(list(enumerate(FORMS))):
            if name in found:
                width = BOLD if name == "ferero" else 1.4 * LINE
                panel.plot(multiples, found[name], FORMS[name], color=colours[index], linewidth=width, label=name)
        panel.set(title=family, xlim=(1, MOST), ylim=(0, 1.02), xlabel="evaluations over the least")
        panel.set_xscale("log", base=2)
        panel.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
        panel.minorticks_off()
    axes[0, 0].set_ylabel("share of trials solved")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside lower center", ncols=4)
    return figure


def main(folder: Path = PICTURES, result: Path = RESULT) -> None:
    """In both forms."""
    profiles = json.loads(result.read_text(encoding="utf-8"))["profiles"]
    keep_picture(draw(lambda: make(profiles)), "solver-profiles", folder)


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:]))
