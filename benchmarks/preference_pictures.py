"""Draws docs/pictures/preference-*.png: what each kind of preference means in the plane of its losses.

Each is drawn twice, for a light page and, in docs/pictures/dark, for a dark one.

The problem is small and known in closed form: two squared distances in the plane, to points one apart. Its losses are
attainable where `|sqrt(a) - sqrt(b)| <= 1 <= sqrt(a) + sqrt(b)`, and its front is `sqrt(a) + sqrt(b) == 1`. Whatever is
marked as reached was computed, by `ferero.minimize` or, where noise matters, by `ferero.Steer`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from PIL import Image, ImageChops
from torch import Tensor

import ferero
from ferero.plot import plot_cone, plot_region
from ferero.plot.style import (
    BOLD,
    DASHES,
    DOT,
    LINE,
    RING,
    SHADE,
    THIN,
    clip_line,
    clip_polygon,
    finish,
    line_of,
    new_plane,
    new_space,
    page_of,
)
from ferero_lab.report import draw

FOLDER = Path(__file__).parents[1] / "docs/pictures"
PAD = 10  # pixels
WIDE = 3 * BOLD  # of the strip that marks a piece of the front
VIEW = np.array([[0.0, 0.0], [1.3, 1.3]])
START = (0.25, 0.75)

f = ferero.objectives("a", "b")
g = ferero.objectives("a", "b", "c")
CORNERS = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(0.75)]], dtype=torch.float64)


def losses(x: Tensor) -> Tensor:
    """Squared distances to (0, 0) and (1, 0), (2,)."""
    return (x - CORNERS[:2].to(x)).square().sum(dim=-1)


def three_losses(x: Tensor) -> Tensor:
    """Squared distances to the corners of a triangle with unit sides, (3,)."""
    return (x - CORNERS.to(x)).square().sum(dim=-1)


def reach(preference: ferero.Preference) -> ferero.Result:
    """Where `minimize` ends from the common start."""
    fun = losses if preference.m == 2 else three_losses
    return ferero.minimize(fun, torch.tensor(START, dtype=torch.float64), preference)


@dataclass(frozen=True)
class Picture:
    """One picture.

    Attributes:
        title: the preference as one writes it.
        preference: the same as an object.
        draw: what draws it on axes with the front on them.
        status: how `minimize` must end, or a picture would show something else than its page says.
    """

    title: str
    preference: ferero.Preference
    draw: Callable[[Axes, Picture], None]
    status: str = "converged"


# the parts that all pictures share ------------------------------------------------------------------------


def preference_color(ax: Axes) -> str:
    """That of preferences: blue."""
    return page_of(ax).series[0]


def reached_color(ax: Axes) -> str:
    """That of the trajectory and the point it reached: orange."""
    return page_of(ax).series[1]


def draw_front(ax: Axes) -> None:
    """The front as a bold curve, and lightly shaded what can be had."""
    s = np.linspace(0, 1, 200)
    arm = np.linspace(0, 1, 50)
    left, right = np.stack([arm**2, (1 + arm) ** 2], axis=1), np.stack([(1 + arm) ** 2, arm**2], axis=1)
    front = np.stack([s**2, (1 - s) ** 2], axis=1)
    edge = np.concatenate([left[::-1], front, right])
    ax.fill(*edge.T, facecolor=page_of(ax).pale, alpha=SHADE, linewidth=0, zorder=0.2)
    ax.plot(*front.T, color=page_of(ax).pale, linewidth=BOLD, solid_capstyle="round", zorder=1.2)


def draw_preference(ax: Axes, preference: ferero.Preference, hatch: str | None = None) -> None:
    """Areas shaded, lines dashed."""
    color = preference_color(ax)
    plot_region(preference, ax, color=color, label="")
    if hatch:
        corners = clip_polygon(VIEW, preference.B_g.numpy(), preference.b_g.numpy())
        ax.fill(*corners.T, facecolor="none", edgecolor=color, alpha=0.5, hatch=hatch, linewidth=0, zorder=0.6)


def draw_piece(ax: Axes, front: np.ndarray[Any, Any]) -> None:
    """A piece of the front that would do, as a broad strip below it."""
    ax.plot(*front.T, color=preference_color(ax), linewidth=WIDE, alpha=2 * SHADE, solid_capstyle="butt", zorder=1.1)


def draw_run(ax: Axes, result: ferero.Result) -> None:
    """The start as a ring, the trajectory thin, the end point; hollow and crossed if the preference is not met."""
    page, color = page_of(ax), reached_color(ax)
    path, (a, b) = np.asarray(result.history.losses), result.losses.tolist()
    ax.plot(*path.T, color=color, linewidth=LINE, alpha=0.8, zorder=2)
    ring: dict[str, Any] = {"facecolor": page.paper, "linewidth": LINE / 1.5}
    ax.scatter(path[0, 0], path[0, 1], s=RING, edgecolor=page.ink, zorder=3, **ring)
    if result.success:
        ax.scatter(a, b, s=DOT, facecolor=color, edgecolor=page.paper, linewidth=LINE / 1.5, zorder=4)
    else:
        ax.scatter(a, b, s=DOT, edgecolor=color, zorder=4, **ring)
        ax.scatter(a, b, s=DOT / 2, color=color, marker="x", linewidth=LINE / 1.5, zorder=5)


# one for each kind ------------------------------------------------------------------------------------------


def draw_plain(ax: Axes, picture: Picture) -> None:
    """The preference, and a run towards it."""
    draw_preference(ax, picture.preference)
    draw_run(ax, reach(picture.preference))


def draw_pareto(ax: Axes, picture: Picture) -> None:
    """No constraint: any point of the front will do. With the legend that serves for all."""
    draw_piece(ax, front_on(ax))
    draw_run(ax, reach(picture.preference))
    page, blue, reached = page_of(ax), preference_color(ax), reached_color(ax)
    ring: dict[str, Any] = {
        "marker": "o",
        "markersize": RING**0.5,
        "markerfacecolor": page.paper,
        "markeredgecolor": page.ink,
    }
    handles = [
        Line2D([], [], color=page.pale, linewidth=BOLD),
        Patch(facecolor=page.pale, alpha=2 * SHADE),
        Line2D([], [], color=blue, linewidth=LINE, linestyle=DASHES),
        Patch(facecolor=blue, alpha=SHADE, edgecolor=blue, linewidth=THIN),
        Line2D([], [], color=reached, linewidth=LINE, markevery=[0], **ring),
        Line2D([], [], color=reached, linewidth=0, marker="o", markersize=DOT**0.5, markeredgecolor=page.paper),
    ]
    words = ("front", "attainable", "preferred line", "preferred area", "trajectory", "reached")
    ax.legend(handles, words, loc="upper right", frameon=True, framealpha=1, edgecolor=page.paper, fontsize=7)


def front_on(ax: Axes) -> np.ndarray[Any, Any]:
    """The front that `draw_front` drew."""
    return np.asarray(ax.lines[0].get_xydata())


def draw_and(ax: Axes, picture: Picture) -> None:
    """Two preferences, each in its own area; their conjunction is where they overlap."""
    band, cap = picture.preference.constraints
    draw_preference(ax, ferero.Preference(f, [band]))
    draw_preference(ax, ferero.Preference(f, [cap]), hatch="///")
    draw_run(ax, reach(picture.preference))


def draw_cone(ax: Axes, picture: Picture) -> None:
    """The part of the front that no attainable losses beat in the order of the cone, and what is better than a point.

    In the order of the cone a point of this convex front stays optimal while its normal is in the dual cone.
    """
    cone = picture.preference.cone
    assert cone is not None
    result, front = reach(picture.preference), front_on(ax)
    plot_cone(cone, result.losses, ax, color=preference_color(ax), label="")
    draw_piece(ax, front[ferero.nondominated(torch.from_numpy(front), cone).numpy()])
    draw_run(ax, result)


def draw_minimize(ax: Axes, picture: Picture) -> None:
    """The losses of the same sum as the point's: a line that touches the front there."""
    result = reach(picture.preference)
    row = picture.preference.A[0].numpy()
    level = clip_line(VIEW, *line_of(row, -float(row @ np.asarray(result.losses))), np.zeros((0, 2)), np.zeros(0))
    assert level is not None
    ax.plot(*level.T, color=preference_color(ax), linewidth=LINE, linestyle=DASHES, zorder=2)
    draw_run(ax, result)


def steered(preference: ferero.Preference, steps: int = 3000) -> tuple[np.ndarray[Any, Any], ferero.Report]:
    """True losses (500, 2) in the last steps of a training whose batches add noise to values and gradients."""
    generator = torch.Generator().manual_seed(0)
    x = torch.nn.Parameter(torch.tensor(START, dtype=torch.float64))
    steer, optimizer = ferero.Steer(preference), torch.optim.SGD([x], lr=0.02)
    seen = []
    for _ in range(steps):
        noise = 0.25 * torch.randn(2, 2, dtype=torch.float64, generator=generator)
        loss = steer((x - CORNERS[:2] + noise).square().sum(dim=-1) - 2 * 0.25**2)  # the same means as without noise
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(losses(x.detach()))
    return torch.stack(seen[-500:]).numpy(), steer.report()


def draw_margin(ax: Axes, picture: Picture) -> None:
    """The last 500 steps of two trainings with noise, without the margin and with it, as means and their spread."""
    (constraint,) = picture.preference.constraints
    draw_preference(ax, picture.preference)
    page = page_of(ax)
    for preference, marker, color, label in (
        (ferero.Preference(f, [constraint.with_margin(0)]), "s", page.ink, "no margin"),
        (picture.preference, "o", reached_color(ax), "margin 3"),
    ):
        found, _ = steered(preference)
        mean = found.mean(axis=0)
        ax.scatter(found[::5, 0], found[::5, 1], s=3, color=color, alpha=0.35, linewidth=0, zorder=4)
        look: dict[str, Any] = {"facecolor": color, "edgecolor": page.paper, "marker": marker, "linewidth": LINE / 1.5}
        ax.scatter(mean[0], mean[1], s=DOT, label=label, zorder=5, **look)
    handles, labels = ax.get_legend_handles_labels()
    for handle in handles:
        handle.set_label("")  # `finish` would make a legend of its own
    ax.legend(handles, labels, loc="upper right", frameon=False, fontsize=7)


def draw_three(ax: Any, picture: Picture) -> None:
    """The front of three losses is the image of the triangle; an equality cuts a curve out of it."""
    shares = np.array([(i, j, 24 - i - j) for i in range(25) for j in range(25 - i)]) / 24
    surface = three_losses(torch.from_numpy(shares @ CORNERS.numpy())[:, None, :]).numpy()
    triangles = mpl.tri.Triangulation(shares[:, 0], shares[:, 1]).triangles
    page, blue = page_of(ax), preference_color(ax)
    ax.plot_trisurf(*surface.T, triangles=triangles, color=page.pale, alpha=2 * SHADE, linewidth=0, shade=False)
    for i in range(3):
        t = np.linspace(0, 1, 60)[:, None]
        edge = CORNERS[i].numpy() * t + CORNERS[i - 1].numpy() * (1 - t)
        ax.plot(*three_losses(torch.from_numpy(edge)[:, None, :]).numpy().T, color=page.pale, linewidth=BOLD)
    # a - b == 0.3 is the line x_1 == 0.65, in the triangle up to its right side; of it a <= 0.5 is allowed
    height = np.linspace(0, math.sqrt(3) * 0.35, 60)
    curve = three_losses(torch.from_numpy(np.stack([np.full(60, 0.65), height], axis=1))[:, None, :]).numpy()
    ax.plot(*curve.T, color=blue, linewidth=LINE, linestyle=DASHES)
    allowed = picture.preference.is_satisfied(torch.from_numpy(curve), atol=1e-9).numpy()
    ax.plot(*curve[allowed].T, color=blue, linewidth=WIDE, alpha=2 * SHADE)
    point = reach(picture.preference).losses.tolist()
    look = {"facecolor": reached_color(ax), "edgecolor": page.paper, "linewidth": LINE / 1.5}
    ax.scatter(*point, s=DOT, depthshade=False, zorder=5, **look)


P = ferero.Preference
PICTURES = {
    "pareto": Picture("nothing but the order", P.pareto(2, names=f), draw_pareto),
    "ray": Picture("ray([1, 2])", P.ray([1, 2], names=f), draw_plain),
    "through": Picture("ray([1, 1], through=[0.3, 0])", P.ray([1, 1], through=[0.3, 0.0], names=f), draw_plain),
    "between": Picture("between([0.05, 0.3], [0.9, 0.7])", P.between([0.05, 0.3], [0.9, 0.7], names=f), draw_plain),
    "equality": Picture("f.a - f.b == 0.3", P(f, [f.a - f.b == 0.3]), draw_plain),
    "threshold": Picture("f.b <= 0.2", P(f, [f.b <= 0.2]), draw_plain),
    "band": Picture("abs(f.a - f.b) <= 0.2", P(f, [abs(f.a - f.b) <= 0.2]), draw_plain),
    "box": Picture("f.a <= 0.4, f.b <= 0.3", P(f, [f.a <= 0.4, f.b <= 0.3]), draw_plain),
    "margin": Picture("(f.b <= 0.3).with_margin(3)", P(f, [(f.b <= 0.3).with_margin(3)]), draw_margin),
    "and": Picture("fair & cheap", P(f, [abs(f.a - f.b) <= 0.3]) & P(f, [f.b <= 0.25]), draw_and),
    "cone": Picture(
        "cone=Cone.from_rays([[2, -1], [-1, 2]])", P(f, cone=ferero.Cone.from_rays([[2, -1], [-1, 2]])), draw_cone
    ),
    "minimize": Picture("minimize=f.a + 2 * f.b", P(f, minimize=f.a + 2 * f.b), draw_minimize),
    "unattainable": Picture("f.a <= 0.1, f.b <= 0.2", P(f, [f.a <= 0.1, f.b <= 0.2]), draw_plain, "unattainable"),
    "three": Picture("g.a - g.b == 0.3, g.a <= 0.5", P(g, [g.a - g.b == 0.3, g.a <= 0.5]), draw_three),
}


def make(name: str) -> Figure:
    """One picture, in the theme that is on."""
    picture = PICTURES[name]
    is_plane = picture.preference.m == 2
    ax: Any
    if is_plane:
        ax = new_plane(("loss a", "loss b"), 2.5, 2.5)
        ax.set(xticks=[0, 0.5, 1], yticks=[0, 0.5, 1], aspect="equal", xlim=VIEW[:, 0], ylim=VIEW[:, 1])
        draw_front(ax)
    else:
        ax = new_space(("loss a", "loss b", "loss c"), 2.6)
        ax.set_box_aspect(None, zoom=0.88)  # room for the labels
        ax.set(xticks=[0, 0.5, 1], yticks=[0, 0.5, 1], zticks=[0, 0.5, 1])
    picture.draw(ax, picture)
    ax.set_title(
        picture.title, color=preference_color(ax), family="monospace", fontsize=7.5, y=1.0 if is_plane else 0.9
    )
    finish(ax)
    figure: Figure = ax.get_figure(root=True)
    return figure


def save(name: str, folder: Path) -> tuple[Path, Path]:
    """One picture as `preference-<name>.png` and `dark/preference-<name>.png`."""
    forms, file = draw(lambda: make(name)), f"preference-{name}.png"
    return write(forms.png, folder / file), write(forms.dark, folder / "dark" / file)


def write(png: bytes, target: Path) -> Path:
    """Without empty space around it, and with few colours so that it is small."""
    image = Image.open(BytesIO(png)).convert("RGB")
    paper = Image.new("RGB", image.size, image.getpixel((0, 0)))
    left, top, right, bottom = ImageChops.difference(image, paper).getbbox() or (0, 0, *image.size)
    around = (max(left - PAD, 0), max(top - PAD, 0), min(right + PAD, image.width), min(bottom + PAD, image.height))
    target.parent.mkdir(parents=True, exist_ok=True)
    image.crop(around).quantize(256, kmeans=2).save(target, optimize=True)
    return target


def main(folder: Path = FOLDER) -> None:
    """All of them."""
    for name in PICTURES:
        print(*(path.relative_to(folder) for path in save(name, folder)))


if __name__ == "__main__":
    main(*(Path(folder) for folder in sys.argv[1:]))
