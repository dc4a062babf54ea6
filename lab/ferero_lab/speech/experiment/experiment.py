"""The speech experiment as parts that can be kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ferero_lab.experiments.experiment import Experiment, Found, Part, Settings, Story
from ferero_lab.speech.experiment.parts import make_parts
from ferero_lab.speech.experiment.plan import METHODS, SpeechPlan, read_plan
from ferero_lab.speech.experiment.report import tell_story
from ferero_lab.speech.experiment.sets import check_there

__all__ = ["EXPERIMENT"]


class SpeechExperiment:
    """A recogniser of English and Mandarin, tuned under ``cpc <= eps_1`` and ``zh - en == eps_2``."""

    name = "speech"
    summary = "a recogniser of two languages under two constraints, on recordings"
    defaults: Mapping[str, Any] = {"methods": list(METHODS)}

    def parts(self, settings: Settings) -> Sequence[Part]:
        """Pre-training, then each method, the sweep of the gap, the time of a step, and sentences."""
        plan = read_plan(settings)
        check_there(plan, settings)
        return make_parts(plan)

    def story(self, settings: Settings, found: Mapping[str, Found]) -> Story:
        """The report of what was run, by the plan that it was run by."""
        kept = next((part["plan"] for part in found.values() if "plan" in part), None)
        return tell_story(read_plan(settings) if kept is None else SpeechPlan.from_dict(kept), found)


EXPERIMENT: Experiment = SpeechExperiment()
