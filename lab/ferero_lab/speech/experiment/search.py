"""The step of each method: it is tried with several at the first seed, a part each, and keeps the best."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ferero_lab.experiments.experiment import Found
from ferero_lab.speech.experiment.plan import Levels, SpeechPlan

__all__ = ["best_key", "best_run", "rate_key", "rate_keys", "tried"]


def rate_key(name: str, index: int) -> str:
    """The part in which a method tries a step of the plan at the first seed."""
    return f"{name}-rate-{index}"


def rate_keys(plan: SpeechPlan, name: str) -> tuple[str, ...]:
    """Those of all steps of the plan, in order."""
    return tuple(rate_key(name, index) for index in range(len(plan.rates)))


def tried(name: str, found: Mapping[str, Found]) -> dict[str, Found]:
    """A method's runs at the first seed that are there, by key, in the order of the plan's steps."""
    there = (re.fullmatch(rf"{name}-rate-(\d+)", key) for key in found)
    indices = sorted(int(match[1]) for match in there if match is not None)
    return {rate_key(name, index): found[rate_key(name, index)] for index in indices}


def best_key(name: str, found: Mapping[str, Found]) -> str | None:
    """The part of the step that a method keeps, of those that are there; None where there is none.

    It has the lowest average error on the dev set; for FERERO among those that keep its levels. Where no run keeps
    them, it is the one that fails least.
    """
    return min(tried(name, found), key=lambda key: _order(found[key]), default=None)


def best_run(runs: Iterable[Found]) -> Found:
    """The run of `best_key`, of one at least."""
    return min(runs, key=_order)


def _order(run: Found) -> tuple[float, float]:
    return _failure(run), run["dev"]["average"]


def _failure(run: Found) -> float:
    """By how much a run fails its levels on the dev set, beyond what is tolerated; 0 without levels."""
    return 0.0 if run["levels"] is None else Levels(**run["levels"]).failure(run["dev"]["losses"])
