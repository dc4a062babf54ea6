"""The synthetic experiments as parts that can be kept: one for each panel, the scales, and the times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ferero.errors import InputError
from ferero_lab.experiments.chosen import chosen
from ferero_lab.experiments.experiment import Experiment, Found, Part, Settings, Story
from ferero_lab.experiments.synthetic.plan import FIGURES, METHODS, Column, SyntheticCase, cases
from ferero_lab.experiments.synthetic.report import COLUMNS, tell_story
from ferero_lab.experiments.synthetic.solve import DEGREES, DISTANCE, solve_case, solve_scales, time_methods

__all__ = ["EXPERIMENT"]

PANELS = (*FIGURES, "scale", "time")


class SyntheticExperiment:
    """The paper's Figures 2 and 3, its single-loop and scale-invariance figures and its run-time table."""

    name = "synthetic"
    summary = "Figures 2 and 3, the single loop, other units, and time per iteration, on two losses"
    defaults: Mapping[str, Any] = {
        "threads": 1,
        "seeds": 10,
        "seeds_quick": 1,
        "degrees": DEGREES,
        "distance": DISTANCE,
    }

    def parts(self, settings: Settings) -> Sequence[Part]:
        """One part for each panel and column of settings."""
        _check(settings)
        seeds = count_seeds(settings)
        made = [Part(case.key, _title(case), partial(solve_case, case, seeds)) for case in chosen_cases(settings)]
        if _is_chosen("scale", settings) and not settings.methods:
            for column in columns(settings):
                run: Callable[..., Found] = partial(solve_scales, column)
                made.append(Part(f"scale-{column}", f"scale invariance, {COLUMNS[column]}", run))
        if _is_chosen("time", settings) and not settings.methods:
            timed = partial(time_methods, settings.mode == "quick")
            made.append(Part("time", "time per iteration", timed, alone=True))
        return made

    def story(self, settings: Settings, found: Mapping[str, Found]) -> Story:
        """The report of what was run."""
        return tell_story(chosen_cases(settings), found, count_seeds(settings))


def columns(settings: Settings) -> tuple[Column, ...]:
    """The columns of settings that are run, never mixed."""
    return ("paper",) if settings.mode == "paper" else ("paper", "ours")


def count_seeds(settings: Settings) -> int:
    """The user's number, or ours."""
    return settings.seeds or int(SyntheticExperiment.defaults["seeds_quick" if settings.mode == "quick" else "seeds"])


def chosen_cases(settings: Settings) -> list[SyntheticCase]:
    """The panels that the user chose."""
    return [
        case
        for column in columns(settings)
        for case in cases(column, settings.mode == "quick")
        if _is_chosen(case.figure, settings) and (not settings.methods or case.method in settings.methods)
    ]


def _title(case: SyntheticCase) -> str:
    return f"{case.figure}, {case.start} start, {COLUMNS[case.column]}: {case.title}"


def _is_chosen(panel: str, settings: Settings) -> bool:
    return not settings.only or panel in settings.only


def _check(settings: Settings) -> None:
    chosen("--only", settings.only, PANELS)
    chosen("--methods", settings.methods, tuple(METHODS))
    if settings.epochs is not None:
        raise InputError(f"--epochs: synthetic trains nothing, found {settings.epochs}; leave it out.")
    if settings.device != "cpu":
        raise InputError(f"--device: synthetic runs on the cpu, found {settings.device!r}; leave it out.")
    if settings.methods and not chosen_cases(settings):
        raise InputError(
            f"--methods: none of {', '.join(settings.methods)} is in {', '.join(settings.only)}; leave one of them out."
        )


EXPERIMENT: Experiment = SyntheticExperiment()
