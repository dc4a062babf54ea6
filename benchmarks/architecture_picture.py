"""Draws docs/pictures/architecture.png, and dark/architecture.png: the layers, and one step of training through them.

The layers and what each is for are read from docs/design.md, which tests hold against the imports.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from pages import PICTURES, keep_picture

from ferero.plot.style import LINE, SHADE, page_of
from ferero_lab.report import draw

DOCS = Path(__file__).parents[1] / "docs"


@dataclass(frozen=True)
class Box:
    """A box with a title and a line below it; x, y is its middle."""

    x: float
    y: float
    width: float
    height: float
    title: str
    words: str
    is_ours: bool = True


def layers(page: str) -> list[tuple[str, str]]:
    """From the one that imports all to the one that imports nothing, each with its idea."""
    line = next(line for line in page.splitlines() if line.count(" -> ") > 3)
    ideas = {"errors": "one family of exceptions", "_arrays": "what numbers are"}
    ideas |= dict(re.findall(r"^\| (\w+) \| .* \| ([^|]+) \|$", page, flags=re.MULTILINE))
    return [(name, ideas[name]) for name in line.strip().split(" -> ")]


def step_boxes() -> list[Box]:
    """What happens to the losses of one batch."""
    return [
        Box(5.0, 9.3, 6.0, 1.1, "your model, your batch", "any optimizer, precision, trainer", is_ours=False),
        Box(5.0, 7.3, 6.0, 1.1, "Observation", "m losses, slopes or gradients if asked"),
        Box(5.0, 5.3, 6.0, 1.1, "method.update", "weights from what is observed"),
        Box(5.0, 3.3, 6.0, 1.1, "one scalar", "weights times losses, one gradient"),
        Box(5.0, 1.3, 6.0, 1.1, "your optimizer", "steps as ever", is_ours=False),
        Box(12.2, 7.3, 5.2, 1.1, "held-out values", "steer.observe(...)", is_ours=False),
        Box(12.2, 5.3, 5.2, 1.1, "Preference", "cone and constraints"),
        Box(12.2, 3.3, 5.2, 1.1, "report, metrics", "met or not, and what to do"),
    ]


ARROWS = ((0, 1), (1, 2), (2, 3), (3, 4), (5, 1), (6, 2), (2, 7))
"""Between the boxes of a step."""


def make() -> Figure:
    """Both drawings side by side, in the theme that is on."""
    page = (DOCS / "design.md").read_text(encoding="utf-8")
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 4.6), layout="constrained", width_ratios=(1, 1.35))
    _draw_layers(left, layers(page))
    _draw_step(right, step_boxes())
    return figure


def _draw_layers(ax: Axes, found: list[tuple[str, str]]) -> None:
    count = len(found)
    for index, (name, idea) in enumerate(found):
        _draw_box(ax, Box(5.0, count - index - 0.5, 9.0, 0.78, name, idea), in_one_line=True)
    ax.annotate("", (10.3, 0.1), (10.3, count - 0.1), arrowprops={"arrowstyle": "-|>", "color": page_of(ax).ink})
    ax.text(10.6, count / 2, "imports", rotation=270, va="center", fontsize=8)
    ax.set(title="What is built on what", xlim=(0, 11.4), ylim=(0, count))
    ax.set_axis_off()


def _draw_step(ax: Axes, boxes: list[Box]) -> None:
    for box in boxes:
        _draw_box(ax, box)
    for start, end in ARROWS:
        a, b = boxes[start], boxes[end]
        if a.x == b.x:
            places = (b.x, b.y + b.height / 2), (a.x, a.y - a.height / 2)
        else:
            side = 1 if b.x > a.x else -1
            places = (
                (b.x - side * b.width / 2, b.y),
                (a.x + side * a.width / 2, a.y - (a.height / 3 if a.y > b.y else 0)),
            )
        ax.annotate("", *places, arrowprops={"arrowstyle": "-|>", "color": page_of(ax).ink, "linewidth": LINE})
    ax.set(title="One step of training: Steer", xlim=(1.5, 15.3), ylim=(0.4, 10.1))
    ax.set_axis_off()


def _draw_box(ax: Axes, box: Box, *, in_one_line: bool = False) -> None:
    page = page_of(ax)
    color = page.series[0] if box.is_ours else page.pale
    corner = box.x - box.width / 2, box.y - box.height / 2
    shape = {"boxstyle": "round,pad=0,rounding_size=0.15", "linewidth": LINE, "edgecolor": color}
    ax.add_patch(FancyBboxPatch(corner, box.width, box.height, facecolor="none", **shape))
    ax.add_patch(FancyBboxPatch(corner, box.width, box.height, facecolor=color, alpha=SHADE, **shape))
    if in_one_line:
        ax.text(corner[0] + 0.25, box.y, box.title, va="center_baseline", weight="bold", fontsize=8)
        ax.text(corner[0] + 3.1, box.y, box.words, va="center_baseline", fontsize=7.5)
    else:
        ax.text(box.x, box.y + 0.2, box.title, ha="center", va="center", weight="bold", fontsize=8)
        ax.text(box.x, box.y - 0.25, box.words, ha="center", va="center", fontsize=7)


def main(folder: Path = PICTURES) -> None:
    """In both forms."""
    picture = draw(make)
    keep_picture(picture, "architecture", folder)


if __name__ == "__main__":
    main(*(Path(folder) for folder in sys.argv[1:]))
