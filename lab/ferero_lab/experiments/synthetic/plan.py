"""What the synthetic experiments run: starts, preferences, and the method and step of each panel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi
from typing import Any, Literal

import torch
from torch import Tensor

import ferero
from ferero.methods import Method
from ferero.preference import Preference
from ferero_lab.problems import Exponential

__all__ = [
    "ASCENT",
    "FIGURES",
    "METHODS",
    "STARTS",
    "Choice",
    "Column",
    "Direction",
    "SyntheticCase",
    "cases",
    "draw_starts",
    "even_rays",
    "make_directions",
]

STARTS = {
    "printed": "N(0, 1), as the paper prints it",
    "released": "+-0.3 alternating + 0.1 N(0, 1), as its released code has it",
    "easy": "U[-0.3, 0.3]",
    "hard": "U[0.15, 0.5] with one random sign per run",
}
STILL = 1e-9  # of the start's losses: a change as small as that has no direction
PREFERENCES = {
    "rays": "rays from the origin",
    "lines": "lines through the losses of the start",
    "nothing": "any optimum",
}


@dataclass(frozen=True)
class Direction:
    """One run's preference as a direction in the plane of losses, which tells whether it was met.

    Attributes:
        angle: of its ray or line to the first axis, in degrees.
        preference: for the method.
        ray: the direction (2,), unit; losses are measured along it from ``through``.
        through: where it begins, (2,).
    """

    angle: float
    preference: Preference
    ray: Tensor
    through: Tensor

    def error(self, losses: Tensor) -> float:
        """The angle between losses (2,), seen from ``through``, and the ray, in degrees; NaN if they did not move."""
        along = losses - self.through
        has_moved = float(along.abs().max()) > STILL * float(self.through.abs().max())
        return float(ferero.ray_error(along, self.ray)) if has_moved else float("nan")

    def violation(self, losses: Tensor) -> float:
        """The distance of losses (2,) from the ray's line."""
        along = losses - self.through
        return float((along - (along @ self.ray) * self.ray).norm())


def even_rays(count: int) -> Tensor:
    """The paper's unit vectors (count, 2): at equal distances between pi/20 and 9 pi/20."""
    angles = torch.linspace(0.05, 0.45, count, dtype=torch.float64) * pi
    return torch.stack([angles.cos(), angles.sin()], dim=1)


def draw_starts(kind: str, count: int, seed: int) -> Tensor:
    """Starting points (count, 20) of one of `STARTS`, the same for every method."""
    generator, problem = torch.Generator().manual_seed(seed), Exponential()
    if kind in ("easy", "hard"):
        return problem.starts(kind, count, generator)
    noise = torch.randn(count, problem.n, generator=generator, dtype=torch.float64)
    if kind == "printed":
        return noise
    alternating = torch.full((problem.n,), 0.3, dtype=torch.float64)
    alternating[1::2] *= -1
    return alternating + 0.1 * noise


def make_directions(
    preferences: str, count: int, start: str, seed: int, A: list[list[float]] | None
) -> tuple[list[Direction], Tensor]:
    """The preferences of one seed's runs, and where these begin.

    Args:
        preferences: one of `PREFERENCES`.
        count: how many directions.
        start: one of `STARTS`.
        seed: of the starts.
        A: the rows of the order's cone; None for the orthant.

    Returns:
        The directions, and starts (count, 20): one for each, or one for all where lines go through its losses.
    """
    starts, origin = draw_starts(start, count, seed), torch.zeros(2, dtype=torch.float64)
    rays = even_rays(count)
    cone = None if A is None else ferero.Cone(A)
    angles = [float(torch.rad2deg(torch.atan2(ray[1], ray[0]))) for ray in rays]
    if preferences == "lines":
        starts = starts[:1].expand(count, -1).clone()
        begin = Exponential()(starts[0])
        lines = [Preference.between(begin - 0.5 * ray, begin, cone=cone) for ray in rays]
        return [Direction(a, p, -ray, begin) for a, p, ray in zip(angles, lines, rays, strict=True)], starts
    is_ray = preferences == "rays"
    made = [Preference.ray(ray, cone=cone) if is_ray else Preference.pareto(2, cone=cone) for ray in rays]
    return [Direction(a, p, ray, origin) for a, p, ray in zip(angles, made, rays, strict=True)], starts


FIGURES = ("figure2", "figure3", "single-loop")
METHODS = {
    "ls": "LS",
    "mgda": "MGDA",
    "pmtl": "PMTL",
    "epo": "EPO",
    "ferero": "FERERO",
    "ferero-sa": "single loop",
    "ferero-qg": "learned gramian",
}
ASCENT = [[1 / 5**0.5, 2 / 5**0.5], [2 / 5**0.5, 1 / 5**0.5]]  # the paper's A for controlled ascent
OWN_STEPS, OWN_ITER = (0.1, 0.3, 1.0), 200
OWN_PULLS = (0.1, 1.0)  # c_h of the single loops
OWN_TOLERANCE = 1e-6  # of EPO: its usual 1e-4 ends at some tenths of a degree
PAPER_GAMMAS = (0.1, 1.0)  # not printed, so it gets the better one; 0.1 is the step of the inner loop it replaces

Column = Literal["paper", "ours"]


@dataclass(frozen=True)
class Choice:
    """A method with its step: `words` is what a reader sees."""

    method: Method[Any]
    step: float | Literal["auto"]
    max_iter: int

    @property
    def words(self) -> str:
        """The step, the most iterations and what else was set."""
        method = self.method
        more = [f"gamma {method.gamma:g}"] if isinstance(method, ferero.FereroSA) else []
        if isinstance(method, (ferero.Ferero, ferero.FereroSA, ferero.FereroQG)) and method.c_h != 1:
            more.append(f"c_h {method.c_h:g}")
        if isinstance(method, ferero.EPO) and method.tolerance != ferero.EPO().tolerance:
            more.append(f"tolerance {method.tolerance:g}")
        step = "auto" if self.step == "auto" else f"{self.step:g}"
        return ", ".join([f"step {step}", *more, f"{self.max_iter} its"])


@dataclass(frozen=True)
class SyntheticCase:
    """One panel in one column of settings.

    Attributes:
        figure: one of `FIGURES`.
        start: one of the families of starts.
        column: "paper" or "ours".
        method: a key of `METHODS`.
        preferences: one of `PREFERENCES`.
        choices: one, or several of which the best on other starts is taken.
        count: of directions.
        A: the order's rows; None for the orthant.
        label: of the panel, where the method's name is not enough.
    """

    figure: str
    start: str
    column: Column
    method: str
    preferences: str
    choices: tuple[Choice, ...]
    count: int
    A: list[list[float]] | None = None
    label: str = ""

    @property
    def key(self) -> str:
        """Its name on disk."""
        words = [self.figure, self.start, self.column, self.method]
        words += ["lines"] if self.preferences == "lines" else []
        words += ["cone"] if self.figure == "single-loop" and self.A is not None else []
        return "-".join(words)

    @property
    def title(self) -> str:
        """The name of the method, and what sets this panel apart."""
        return self.label or METHODS[self.method]


def cases(column: Column, quick: bool) -> list[SyntheticCase]:
    """Every panel of the figures in one column of settings."""
    steps, pulls = ((0.3,), (1.0,)) if quick else (OWN_STEPS, OWN_PULLS)
    return [*_figure2(column, steps), *_figure3(column, steps), *_single_loop(column, steps[:2], pulls)]


def _figure2(column: Column, steps: tuple[float, ...]) -> list[SyntheticCase]:
    rays, made = even_rays(5).tolist(), []
    pmtl = ferero.PMTL(vectors=rays)
    paper: dict[str, Choice] = {
        "ls": Choice(ferero.LinearScalarization(), 0.1, 150),
        "mgda": Choice(ferero.MGDA(), 0.2, 150),
        "pmtl": Choice(pmtl, 0.2, 150),
        "epo": Choice(ferero.EPO(), 0.1, 100),
        "ferero": Choice(ferero.Ferero(), 0.05, 100),
    }
    ours: dict[str, tuple[Choice, ...]] = {
        "ls": (Choice(ferero.LinearScalarization(), "auto", 200),),
        "mgda": (Choice(ferero.MGDA(), "auto", 200),),
        "pmtl": _over(lambda: pmtl, steps),
        "epo": _over(lambda: ferero.EPO(tolerance=OWN_TOLERANCE), steps),
        "ferero": (Choice(ferero.Ferero(), "auto", 200),),
    }
    for start in ("printed", "released"):
        for method, choice in paper.items():
            choices = (choice,) if column == "paper" else ours[method]
            preferences = "nothing" if method == "mgda" else "rays"
            made.append(SyntheticCase("figure2", start, column, method, preferences, choices, 5))
        made.append(SyntheticCase("figure2", start, column, "ferero", "lines", choices, 5, label="FERERO, lines"))
    return made


def _figure3(column: Column, steps: tuple[float, ...]) -> list[SyntheticCase]:
    made: list[SyntheticCase] = []
    pmtl = ferero.PMTL(vectors=even_rays(4).tolist())
    paper: dict[str, dict[str, Choice]] = {
        "easy": {
            "pmtl": Choice(pmtl, 0.25, 100),
            "epo": Choice(ferero.EPO(), 0.1, 60),
            "ferero": Choice(ferero.Ferero(), 0.6, 10),
        },
        "hard": {
            "pmtl": Choice(pmtl, 0.5, 200),
            "epo": Choice(ferero.EPO(), 0.2, 120),
            "ferero": Choice(ferero.Ferero(c_h=0.01), 0.6, 200),
        },
    }
    ours: dict[str, tuple[Choice, ...]] = {
        "pmtl": _over(lambda: pmtl, steps),
        "epo": _over(lambda: ferero.EPO(tolerance=OWN_TOLERANCE), steps),
        "ferero": (Choice(ferero.Ferero(), "auto", 200),),
    }
    for start, methods in paper.items():
        for method, choice in methods.items():
            choices = (choice,) if column == "paper" else ours[method]
            A = ASCENT if column == "paper" and method == "ferero" else None  # ours finds a cone by itself
            made.append(SyntheticCase("figure3", start, column, method, "rays", choices, 4, A))
    return made


def _single_loop(column: Column, steps: tuple[float, ...], pulls: tuple[float, ...]) -> list[SyntheticCase]:
    panels: list[tuple[str, int, list[list[float]] | None, str, tuple[float, int, float]]] = [
        ("released", 5, None, "as Figure 2", (0.10, 100, 6.0)),
        ("easy", 4, ASCENT, "easy start", (0.06, 100, 6.0)),
        ("hard", 4, None, "hard start, A = I", (0.15, 250, 0.1)),
        ("hard", 4, ASCENT, "hard start, general A", (0.15, 250, 0.1)),
    ]
    made = []
    for start, count, A, words, (step, most, c_h) in panels:
        if column == "paper":
            single = tuple(Choice(ferero.FereroSA(gamma=g, c_h=c_h), step, most) for g in PAPER_GAMMAS)
        else:
            methods = [ferero.FereroSA(gamma=1.0, c_h=pull, bound=10.0) for pull in pulls]
            single = tuple(Choice(method, s, OWN_ITER) for method in methods for s in steps)
        made.append(SyntheticCase("single-loop", start, column, "ferero-sa", "rays", single, count, A, words))
        if column == "ours":
            learned = tuple(Choice(ferero.FereroQG(c_h=pull), s, OWN_ITER) for pull in pulls for s in steps)
            label = f"{words}, learned gramian"
            made.append(SyntheticCase("single-loop", start, column, "ferero-qg", "rays", learned, count, A, label))
    return made


def _over(make: Callable[[], Method[Any]], steps: tuple[float, ...]) -> tuple[Choice, ...]:
    return tuple(Choice(make(), step, OWN_ITER) for step in steps)
