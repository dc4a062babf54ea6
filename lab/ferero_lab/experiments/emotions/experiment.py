"""The emotions experiment as parts that can be kept: one for each method, and two about FERERO alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ferero_lab.experiments.emotions.plan import METHODS, PAPER, REFERENCE, TITLES, read_plan
from ferero_lab.experiments.emotions.report import tell_story
from ferero_lab.experiments.emotions.train import load_songs, train_constant, train_held_out, train_method
from ferero_lab.experiments.experiment import Experiment, Found, Part, Settings, Story

__all__ = ["EXPERIMENT"]


class EmotionsExperiment:
    """Six losses of one network, ten rays: the paper's relative loss profiles and its hypervolume row."""

    name = "emotions"
    summary = "six losses, ten rays: relative loss profiles and the hypervolume row, on songs"
    defaults: Mapping[str, Any] = {
        "threads": 1,
        "network": "72-64-64-64-6, ReLU",
        "batch": 50,
        "reference_point": list(REFERENCE),
        "methods": list(METHODS),
        "methods_paper": list(PAPER),
    }

    def parts(self, settings: Settings) -> Sequence[Part]:
        """A part for each method; FERERO with a constant step; FERERO driven by held-out losses."""
        plan = read_plan(settings)
        load_songs(settings)
        made = [
            Part(f"rays-{name}", f"ten rays, {TITLES[name]}", partial(train_method, plan, name))
            for name in plan.methods
            if "rays" in plan.panels
        ]
        if "ferero" in plan.methods and "constant" in plan.panels:
            made.append(Part("constant", "FERERO, a constant step", partial(train_constant, plan)))
        if "ferero" in plan.methods and "held-out" in plan.panels:
            made.append(Part("held-out", "FERERO, held-out losses", partial(train_held_out, plan)))
        return made

    def story(self, settings: Settings, found: Mapping[str, Found]) -> Story:
        """The report of what was run."""
        return tell_story(read_plan(settings), found)


EXPERIMENT: Experiment = EmotionsExperiment()
