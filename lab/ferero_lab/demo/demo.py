"""A model trained under a bound; then ten rays, a bound and an impossible preference on the paper's problem."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ferero.cli import TimedResult, result_rows, to_json
from ferero.fronts import Front, trace
from ferero.optimize import minimize
from ferero.preference import Preference, spread
from ferero_lab.demo.training import BOUND, NAMES, RATE, DemoTraining
from ferero_lab.problems import Exponential
from ferero_lab.report import HtmlPage, Picture, configuration, draw

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FILES", "Demo", "run_demo"]

FILES = (
    "config.json",
    "results.json",
    "training.png",
    "front.png",
    "front.svg",
    "preferences.png",
    "history.png",
    "report.html",
)

_RAYS, _SEED = 10, 0
_BOUND = "f1 <= 0.3"
_TOO_MUCH = "f1 <= 0.5; f2 <= 0.5"


@dataclass(frozen=True)
class Demo:
    """The results of the demonstration.

    Attributes:
        problem: the two losses.
        front: the points on the rays.
        rays: the same, with the time that each took: an equal share of the whole.
        bound: the best point with f1 bounded.
        too_much: the closest point to both losses bounded, which no point meets.
    """

    problem: Exponential
    front: Front
    rays: tuple[TimedResult, ...]
    bound: TimedResult
    too_much: TimedResult

    @property
    def answers(self) -> tuple[TimedResult, ...]:
        """All results."""
        return (*self.rays, self.bound, self.too_much)

    @property
    def some_answers(self) -> tuple[TimedResult, ...]:
        """Every third ray, and what is no ray: enough for a terminal."""
        return (*self.rays[::3], self.bound, self.too_much)

    def config(self) -> dict[str, Any]:
        """What was run, with which versions."""
        return configuration("demo", problem=self.problem.name, q=self.problem.q, start="easy", seed=_SEED, rays=_RAYS)

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain data."""
        return {
            "problem": self.problem.name,
            "hypervolume": self.front.hypervolume(self.problem.reference_point),
            "distance_to_front": self.problem.distance_to_front(self.front.losses).tolist(),
            "answers": [answer.to_dict() for answer in self.answers],
        }

    def files(self, training: DemoTraining) -> dict[str, bytes]:
        """The report folder's contents, by name.

        Args:
            training: the trained models.

        Raises:
            MissingExtraError: without matplotlib or moocore.
        """
        front, preferences, history = self.front_picture(), draw(self._draw_preferences), draw(self._draw_history)
        training_picture = training.picture()
        return {
            "config.json": to_json(self.config()).encode(),
            "results.json": to_json({**self.to_dict(), "training": training.to_dict()}).encode(),
            "training.png": training_picture.png,
            "front.png": front.png,
            "front.svg": front.svg,
            "preferences.png": preferences.png,
            "history.png": history.png,
            "report.html": self._page(training, training_picture, front, preferences, history),
        }

    def front_picture(self) -> Picture:
        """The rays, the trajectories and the points, in the forms that pages need.

        Raises:
            MissingExtraError: without matplotlib.
        """
        return draw(self._draw_front)

    # the report ---------------------------------------------------------------------------------------

    def _page(
        self,
        training: DemoTraining,
        training_picture: Picture,
        front: Picture,
        preferences: Picture,
        history: Picture,
    ) -> bytes:
        page = HtmlPage("ferero demo: losses that pull against each other")
        _tell_training(page, training, training_picture)
        page.heading("Two losses of a smooth problem")
        page.text(
            f"The paper's problem: {self.problem.q} parameters, two losses, each zero at its own point. Both "
            "cannot be small at once; what is possible at best is the front, the grey curve. Every run below "
            "starts from the same random point."
        )
        page.subheading("Ten rays")
        page.text(
            "Preference: losses in a given proportion, as small as possible. Found: the points where the rays "
            "meet the front."
        )
        page.picture(front, "The rays (dashed), the trajectories and the points found, in losses.")
        page.table(*result_rows(self.rays))
        page.text("All rays are traced together; the milliseconds are each one's share.")
        page.subheading("A bound")
        page.text("Preference:")
        page.verbatim(str(self.bound.result.preference))
        page.text(f"Found ({self.bound.result.status}): {self.bound.result.message}")
        page.table(*result_rows([self.bound]))
        page.picture(
            history,
            "The losses at each step and, below, how far beyond the bound they are (not at all in the gap).",
        )
        page.subheading("An impossible preference")
        page.text("Preference:")
        page.verbatim(str(self.too_much.result.preference))
        page.text(f"Found ({self.too_much.result.status}): {self.too_much.result.message}")
        page.table(*result_rows([self.too_much]))
        page.picture(
            preferences,
            "Both preferences, shaded in the colours of the points found for them; no losses reach the square.",
        )
        versions = ", ".join(f"{name} {version}" for name, version in self.config()["versions"].items())
        page.footer(f"ferero demo, seed {_SEED}. {versions}.")
        return page.render()

    def _draw_front(self) -> Figure:
        from ferero.plot import plot_front

        return _figure(plot_front(self.front, truth=self.problem.front(400)))

    def _draw_preferences(self) -> Figure:
        from ferero.plot import plot_front, plot_region
        from ferero.plot.style import page_of

        both = Front.from_results([self.bound.result, self.too_much.result])
        ax = plot_front(both, truth=self.problem.front(400))
        for preference, color in zip(both.preferences, page_of(ax).colors(len(both)), strict=True):
            plot_region(preference, ax, color=color, label="")
        return _figure(ax)

    def _draw_history(self) -> Figure:
        from ferero.plot import plot_history

        return _figure(plot_history(self.bound.result)[0])


def _tell_training(page: HtmlPage, training: DemoTraining, picture: Picture) -> None:
    page.heading("A model under a constraint")
    page.text("An autoencoder of 8 x 8 digits. Preference:")
    page.verbatim(str(training.task.preference))
    page.text(
        f"Trained three times on the same batches from the same weights: with loss = steer(losses), ferero's default; "
        f"with a {NAMES[1]} of five lines, whose multiplier moves by {RATE:g} times the relative violation; and on the "
        f"{NAMES[2]}, which knows of no bound. At ten times that rate the five lines arrive as well: it has to be "
        "found, task by task, where ferero has nothing to set."
    )
    page.table(*training.table())
    page.picture(picture, f"Both losses on all digits, step by step; rec is to be at most {BOUND:g} (dashed).")
    page.text("What ferero's report says at the end:")
    page.verbatim(str(training.report))


def run_demo() -> Demo:
    """Runs what needs no training: a fraction of a second."""
    problem = Exponential()
    start = problem.starts("easy", 1, torch.Generator().manual_seed(_SEED))[0]
    rays = spread(2, _RAYS)
    trace(problem, start, rays, max_iter=1)  # what happens once per process is no part of a ray's time
    began = perf_counter()
    front = trace(problem, start, rays)
    share = 1e3 * (perf_counter() - began) / len(front)
    return Demo(
        problem,
        front,
        tuple(TimedResult(result, share) for result in front),
        _answer(problem, start, _BOUND),
        _answer(problem, start, _TOO_MUCH),
    )


def _answer(problem: Exponential, start: Tensor, text: str) -> TimedResult:
    preference = Preference.parse(text, names=problem.names)
    began = perf_counter()
    result = minimize(problem, start, preference)
    return TimedResult(result, 1e3 * (perf_counter() - began))


def _figure(ax: Any) -> Figure:
    figure: Figure = ax.get_figure(root=True)
    return figure
