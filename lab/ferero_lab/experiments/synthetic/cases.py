"""What each panel of the synthetic figures runs: a method and its step, by the paper's tables or by us."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import ferero
from ferero.methods import Method
from ferero_lab.experiments.synthetic.wishes import even_rays

__all__ = ["FIGURES", "METHODS", "Case", "Choice", "cases"]

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
class Case:
    """One panel in one column of settings.

    Attributes:
        figure: one of `FIGURES`.
        start: one of the families of starts.
        column: "paper" or "ours".
        method: a key of `METHODS`.
        wanted: rays, lines or nothing.
        choices: one, or several of which the best on other starts is taken.
        count: of directions.
        A: the order's rows; None for the orthant.
        label: of the panel, where the method's name is not enough.
    """

    figure: str
    start: str
    column: Column
    method: str
    wanted: str
    choices: tuple[Choice, ...]
    count: int
    A: list[list[float]] | None = None
    label: str = ""

    @property
    def key(self) -> str:
        """Its name on disk."""
        words = [self.figure, self.start, self.column, self.method]
        words += ["lines"] if self.wanted == "lines" else []
        words += ["cone"] if self.figure == "single-loop" and self.A is not None else []
        return "-".join(words)

    @property
    def title(self) -> str:
        """The name of the method, and what sets this panel apart."""
        return self.label or METHODS[self.method]


def cases(column: Column, quick: bool) -> list[Case]:
    """Every panel of the figures in one column of settings."""
    steps, pulls = ((0.3,), (1.0,)) if quick else (OWN_STEPS, OWN_PULLS)
    return [*_figure2(column, steps), *_figure3(column, steps), *_single_loop(column, steps[:2], pulls)]


def _figure2(column: Column, steps: tuple[float, ...]) -> list[Case]:
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
            wanted = "nothing" if method == "mgda" else "rays"
            made.append(Case("figure2", start, column, method, wanted, choices, 5))
        made.append(Case("figure2", start, column, "ferero", "lines", choices, 5, label="FERERO, lines"))
    return made


def _figure3(column: Column, steps: tuple[float, ...]) -> list[Case]:
    made: list[Case] = []
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
            made.append(Case("figure3", start, column, method, "rays", choices, 4, A))
    return made


def _single_loop(column: Column, steps: tuple[float, ...], pulls: tuple[float, ...]) -> list[Case]:
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
        made.append(Case("single-loop", start, column, "ferero-sa", "rays", single, count, A, words))
        if column == "ours":
            learned = tuple(Choice(ferero.FereroQG(c_h=pull), s, OWN_ITER) for pull in pulls for s in steps)
            label = f"{words}, learned gramian"
            made.append(Case("single-loop", start, column, "ferero-qg", "rays", learned, count, A, label))
    return made


def _over(make: Callable[[], Method[Any]], steps: tuple[float, ...]) -> tuple[Choice, ...]:
    return tuple(Choice(make(), step, OWN_ITER) for step in steps)
