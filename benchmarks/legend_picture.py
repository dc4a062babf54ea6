"""Draws docs/pictures/legend.png and its dark form: what the parts of a picture look like, as `ferero.plot` has them.

The losses are squared distances in the plane to two points one apart; every point that is marked was computed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from pages import PICTURES, keep_picture
from torch import Tensor

import ferero
from ferero.plot import plot_cone, plot_front, plot_region
from ferero.plot.style import BOLD, page_of
from ferero_lab.report import draw

CORNERS = torch.tensor([[0.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
START = torch.tensor([0.35, 0.85], dtype=torch.float64)
STEPS = torch.linspace(0, 1, 200, dtype=torch.float64)
TRUTH = torch.stack([STEPS**2, (1 - STEPS) ** 2], dim=1)

f = ferero.objectives("a", "b")


def losses(x: Tensor) -> Tensor:
    """Squared distances, (2,)."""
    return (x - CORNERS).square().sum(dim=-1)


def found(*preferences: ferero.Preference) -> ferero.Front[ferero.Result]:
    """Where `minimize` ends for each of them."""
    return ferero.Front.from_results([ferero.minimize(losses, START, one) for one in preferences])


def draw_front(ax: Axes) -> None:
    """The whole trade-off, as `plot_front(..., truth=...)` has it."""
    ax.plot(*TRUTH.T, color=page_of(ax).pale, linewidth=BOLD, solid_capstyle="round", zorder=1.2)


def draw_line(ax: Axes) -> None:
    """A ray, which is a preference for a line."""
    plot_region(ferero.Preference.ray([1, 2], names=f), ax, color=page_of(ax).series[0], label="")


def draw_area(ax: Axes) -> None:
    """Two bounds, which are a preference for an area."""
    plot_region(ferero.Preference(f, [f.a <= 0.4, f.b <= 0.7]), ax, color=page_of(ax).series[0], label="")


def draw_cone(ax: Axes) -> None:
    """What an order calls better than a point that is not on the front."""
    plot_cone(ferero.Cone.from_rays([[2, -1], [-1, 2]]), [0.6, 0.5], ax, label="")


def draw_ways(ax: Axes) -> None:
    """Two rays, each with its way and its point."""
    plot_front(found(*(ferero.Preference.ray(ray, names=f) for ray in ([1, 3], [3, 1]))), ax)


def draw_missed(ax: Axes) -> None:
    """Bounds that no losses meet."""
    front = found(ferero.Preference(f, [f.a <= 0.15, f.b <= 0.15]))
    plot_front(front, ax)
    plot_region(front.preferences[0], ax, color=page_of(ax).series[0], label="")


PANELS: dict[str, Callable[[Axes], None]] = {
    "the front: a bold line": lambda _: None,  # as in all panels
    "wanted, a line: dashes": draw_line,
    "wanted, an area: shade": draw_area,
    "a cone: what is better than a point": draw_cone,
    "start: ring; way: line; reached: dot": draw_ways,
    "not met: hollow and crossed": draw_missed,
}


def make() -> Figure:
    """A panel for each part, in the theme that is on."""
    layout = ConstrainedLayoutEngine(h_pad=0.08, hspace=0.04, wspace=0.04)
    figure, axes = plt.subplots(2, 3, figsize=(7.4, 5.2), layout=layout, sharex=True, sharey=True)
    for ax, (title, draw_part) in zip(axes.flat, PANELS.items(), strict=True):
        ax.set(xlim=(0, 1.2), ylim=(0, 1.2), aspect="equal", xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
        draw_front(ax)
        draw_part(ax)
        ax.set_title(title, fontsize=8.5)
        ax.set(xlim=(0, 1.2), ylim=(0, 1.2), xlabel="loss a", ylabel="loss b")
        ax.label_outer()
    return figure


def main(folder: Path = PICTURES) -> None:
    """In both forms."""
    picture = draw(make)
    keep_picture(picture, "legend", folder)


if __name__ == "__main__":
    main(*(Path(folder) for folder in sys.argv[1:]))
