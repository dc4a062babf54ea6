"""The fairness experiment as parts that can be kept: one for each method that keeps the gap small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ferero_lab.experiments.experiment import Experiment, Found, Part, Settings, Story
from ferero_lab.experiments.fairness.plan import GAPS, TITLES, WEIGHTS, read_plan
from ferero_lab.experiments.fairness.report import tell_story
from ferero_lab.experiments.fairness.train import load_people, train_method

__all__ = ["EXPERIMENT"]


class FairnessExperiment:
    """The paper's first example as a real one: log-loss minimised while two groups' rates stay close."""

    name = "fairness"
    summary = "log-loss under abs(rate_a - rate_b) <= eps, eps swept, on a census"
    defaults: Mapping[str, Any] = {"threads": 1, "gaps": list(GAPS), "weights": list(WEIGHTS), "methods": list(TITLES)}

    def parts(self, settings: Settings) -> Sequence[Part]:
        """One part for each method."""
        plan = read_plan(settings)
        load_people(settings)
        return [Part(name, TITLES[name], partial(train_method, plan, name)) for name in plan.methods]

    def story(self, settings: Settings, found: Mapping[str, Found]) -> Story:
        """The report of what was run."""
        return tell_story(read_plan(settings), found)


EXPERIMENT: Experiment = FairnessExperiment()
