"""Draws docs/pictures/preference-*.png: what each kind of preference means in the plane of its losses.

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
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from PIL import Image
from torch import Tensor

import ferero
from ferero.plot.clip import clip_line, clip_polygon, line_of
from ferero.plot.frame import finish, new_plane, new_space
from ferero.plot.region import wanted_segment
from ferero.plot.style import BOLD, DOT, LINE, OKABE_ITO, RING, SHADE, THIN, theme

FOLDER = Path(__file__).parents[1] / "docs/pictures"
WISH, REACHED, INK, GREY = OKABE_ITO["blue"], OKABE_ITO["vermillion"], "#1A1A1A", "#BDBDBD"
DASHES = (0, (5, 2.5))
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
        title: the wish as one writes it.
        preference: the same as an object.
        draw: what draws it on axes with the front on them.
        status: how `minimize` must end, or a picture would show something else than its page says.
    """

    title: str
    preference: ferero.Preference
    draw: Callable[[Axes, Picture], None]
    status: str = "converged"


# the parts that all pictures share ------------------------------------------------------------------------


def draw_front(ax: Axes) -> None:
    """The front as a dark curve, and lightly shaded what can be had."""
    s = np.linspace(0, 1, 200)
    arm = np.linspace(0, 1, 50)
    left, right = np.stack([arm**2, (1 + arm) ** 2], axis=1), np.stack([(1 + arm) ** 2, arm**2], axis=1)
    front = np.stack([s**2, (1 - s) ** 2], axis=1)
    edge = np.concatenate([left[::-1], front, right])
    ax.fill(*edge.T, facecolor=GREY, alpha=0.28, linewidth=0, zorder=0.2)
    ax.plot(*front.T, color=INK, linewidth=BOLD, solid_capstyle="round", zorder=2.5)


def draw_wish(ax: Axes, preference: ferero.Preference, hatch: str | None = None) -> None:
    """Areas filled, lines dashed."""
    rows, offsets = preference.B_g.numpy(), preference.b_g.numpy()
    if preference.m_g and preference.ray is None:
        corners = clip_polygon(VIEW, rows, offsets)
        ax.fill(*corners.T, facecolor=WISH, alpha=SHADE + 0.06, linewidth=0, zorder=0.5)
        if hatch:
            ax.fill(*corners.T, facecolor="none", edgecolor=WISH, alpha=0.5, hatch=hatch, linewidth=0, zorder=0.6)
        for i, row in enumerate(rows):
            others = np.delete(rows, i, axis=0), np.delete(offsets, i)
            edge = clip_line(VIEW, *line_of(row, float(offsets[i])), *others)
            if edge is not None:
                ax.plot(*edge.T, color=WISH, linewidth=LINE, zorder=1.5)
    segment = wanted_segment(preference, VIEW)
    if segment is not None:
        ax.plot(*segment.T, color=WISH, linewidth=1.8, linestyle=DASHES, zorder=2)


def draw_run(ax: Axes, result: ferero.Result) -> None:
    """The start as a ring, the way thin, and the point that was reached: a cross where the wish was not to be had."""
    way = np.asarray(result.history.losses)
    ax.plot(*way.T, color=INK, linewidth=THIN, linestyle=":", zorder=3)
    ax.scatter(way[0, 0], way[0, 1], s=RING, facecolor="white", edgecolor=INK, linewidth=THIN, zorder=4)
    marker = "o" if result.success else "X"
    point = result.losses.tolist()
    ax.scatter(point[0], point[1], s=1.4 * DOT, color=REACHED, edgecolor="white", marker=marker, zorder=5)


# one for each kind ------------------------------------------------------------------------------------------


def draw_plain(ax: Axes, picture: Picture) -> None:
    """The wish, and a run towards it."""
    draw_wish(ax, picture.preference)
    draw_run(ax, reach(picture.preference))


def draw_pareto(ax: Axes, picture: Picture) -> None:
    """No wish: the whole front would do. With the legend that serves for all."""
    front = ax.lines[0].get_xydata()
    ax.plot(*np.asarray(front).T, color=WISH, linewidth=3 * BOLD, alpha=SHADE + 0.1, zorder=2)
    draw_run(ax, reach(picture.preference))
    handles = [
        Line2D([], [], color=INK, linewidth=BOLD),
        Patch(facecolor=GREY, alpha=0.28),
        Line2D([], [], color=WISH, linewidth=1.8, linestyle=DASHES),
        Patch(facecolor=WISH, alpha=SHADE + 0.06),
        Line2D([], [], color=INK, linewidth=THIN, linestyle=":", marker="o", markersize=4, markerfacecolor="white"),
        Line2D([], [], color=REACHED, linewidth=0, marker="o", markersize=6),
    ]
    words = ("front", "attainable", "wish: a line", "wish: an area", "start and way", "reached")
    ax.legend(handles, words, loc="upper right", frameon=True, framealpha=1, edgecolor="white", fontsize=7)


def draw_and(ax: Axes, picture: Picture) -> None:
    """Two wishes, each in its own area; what is wanted is where they overlap."""
    band, cap = picture.preference.constraints
    draw_wish(ax, ferero.Preference(f, [band]))
    draw_wish(ax, ferero.Preference(f, [cap]), hatch="///")
    draw_run(ax, reach(picture.preference))


def draw_cone(ax: Axes, picture: Picture) -> None:
    """The part of the front that no attainable losses beat in the order of the cone, and what is better than a point.

    In the order of the cone a point of this convex front stays optimal while its normal is in the dual cone.
    """
    cone = picture.preference.cone
    assert cone is not None
    result = reach(picture.preference)
    point = np.asarray(result.losses)
    A = cone.matrix.numpy()
    ax.fill(*clip_polygon(VIEW, A, -A @ point).T, facecolor=WISH, alpha=SHADE + 0.06, linewidth=0, zorder=0.5)
    for i, row in enumerate(A):
        others = np.delete(A, i, axis=0)
        edge = clip_line(VIEW, point, line_of(row, 0.0)[1], others, -others @ point)
        if edge is not None:
            ax.plot(*edge.T, color=WISH, linewidth=LINE, zorder=1.5)
    front = np.asarray(ax.lines[0].get_xydata())
    best = front[ferero.nondominated(torch.from_numpy(front), cone).numpy()]
    ax.plot(*best.T, color=WISH, linewidth=3 * BOLD, alpha=SHADE + 0.16, solid_capstyle="butt", zorder=2)
    draw_run(ax, result)


def draw_minimize(ax: Axes, picture: Picture) -> None:
    """The losses of the same sum as the point's: a line that touches the front there."""
    result = reach(picture.preference)
    row = picture.preference.A[0].numpy()
    level = clip_line(VIEW, *line_of(row, -float(row @ np.asarray(result.losses))), np.zeros((0, 2)), np.zeros(0))
    assert level is not None
    ax.plot(*level.T, color=WISH, linewidth=1.8, linestyle=DASHES, zorder=2)
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
    draw_wish(ax, picture.preference)
    for preference, marker, color in (
        (ferero.Preference(f, [constraint.with_margin(0)]), "s", INK),
        (picture.preference, "o", REACHED),
    ):
        found, _ = steered(preference)
        mean = found.mean(axis=0)
        ax.scatter(found[::5, 0], found[::5, 1], s=3, color=color, alpha=0.35, linewidth=0, zorder=4)
        ax.scatter(mean[0], mean[1], s=1.4 * DOT, color=color, edgecolor="white", marker=marker, zorder=5)
    handles = [Line2D([], [], color=c, linewidth=0, marker=m, markersize=6) for c, m in ((INK, "s"), (REACHED, "o"))]
    ax.legend(handles, ("no margin", "margin 3"), loc="upper right", frameon=False, fontsize=7)


def draw_three(ax: Any, picture: Picture) -> None:
    """The front of three losses is the image of the triangle; an equality cuts a curve out of it."""
    shares = np.array([(i, j, 24 - i - j) for i in range(25) for j in range(25 - i)]) / 24
    surface = three_losses(torch.from_numpy(shares @ CORNERS.numpy())[:, None, :]).numpy()
    triangles = mpl.tri.Triangulation(shares[:, 0], shares[:, 1]).triangles
    ax.plot_trisurf(*surface.T, triangles=triangles, color=GREY, alpha=0.45, linewidth=0, shade=False)
    for i in range(3):
        t = np.linspace(0, 1, 60)[:, None]
        edge = CORNERS[i].numpy() * t + CORNERS[i - 1].numpy() * (1 - t)
        ax.plot(*three_losses(torch.from_numpy(edge)[:, None, :]).numpy().T, color=INK, linewidth=1.8)
    # a - b == 0.3 is the line x_1 == 0.65, in the triangle up to its right side; of it a <= 0.5 is allowed
    height = np.linspace(0, math.sqrt(3) * 0.35, 60)
    curve = three_losses(torch.from_numpy(np.stack([np.full(60, 0.65), height], axis=1))[:, None, :]).numpy()
    ax.plot(*curve.T, color=WISH, linewidth=1.8, linestyle=DASHES)
    allowed = picture.preference.is_satisfied(torch.from_numpy(curve), atol=1e-9).numpy()
    ax.plot(*curve[allowed].T, color=WISH, linewidth=2 * BOLD, alpha=0.5)
    result = reach(picture.preference)
    ax.scatter(*result.losses.tolist(), s=1.4 * DOT, color=REACHED, edgecolor="white", depthshade=False, zorder=5)


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


def save(name: str, folder: Path) -> Path:
    """One picture as `preference-<name>.png`, with few colours so that it is small."""
    picture, target = PICTURES[name], folder / f"preference-{name}.png"
    with theme():
        is_plane = picture.preference.m == 2
        ax: Any
        if is_plane:
            ax = new_plane(("loss a", "loss b"), 2.5, 2.5)
            ax.set(xticks=[0, 0.5, 1], yticks=[0, 0.5, 1], aspect="equal")
            draw_front(ax)
        else:
            ax = new_space(("loss a", "loss b", "loss c"), 2.6)
            ax.set_box_aspect(None, zoom=0.88)  # room for the labels
            ax.set(xticks=[0, 0.5, 1], yticks=[0, 0.5, 1], zticks=[0, 0.5, 1])
        picture.draw(ax, picture)
        if is_plane:
            ax.set(xlim=VIEW[:, 0], ylim=VIEW[:, 1])
        ax.set_title(picture.title, color=WISH, family="monospace", fontsize=7.5, y=1.0 if is_plane else 0.9)
        figure, drawn = ax.get_figure(root=True), BytesIO()
        assert figure is not None
        finish(ax)
        figure.savefig(drawn, format="png", dpi=160, bbox_inches="tight", pad_inches=0.06 if is_plane else 0.2)
        plt.close(figure)
    small = Image.open(drawn).convert("RGB").quantize(256, kmeans=2)
    small.save(target, optimize=True)
    return target


def main(folder: Path = FOLDER) -> None:
    """All of them."""
    mpl.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    for name in PICTURES:
        print(save(name, folder).name)


if __name__ == "__main__":
    main(*(Path(folder) for folder in sys.argv[1:]))
