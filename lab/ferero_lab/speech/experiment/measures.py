"""Figures of record of the speech experiment, from what its parts gave; nothing here is trained."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean, median, stdev
from typing import Any

from ferero_lab.experiments.experiment import Found
from ferero_lab.speech.experiment.losses import NAMES
from ferero_lab.speech.experiment.parts import SWEPT, runs_of
from ferero_lab.speech.experiment.plan import METHODS, Levels
from ferero_lab.speech.experiment.search import best_key, tried
from ferero_lab.speech.experiment.train import LATE

__all__ = [
    "DATA",
    "against",
    "constraint_rows",
    "levels_by_seed",
    "method_runs",
    "search_rows",
    "summary",
    "sweep_rows",
]

DATA = ("dev", "test")


def method_runs(found: Mapping[str, Found]) -> dict[str, list[Found]]:
    """What there is of each method, one run a seed: "start" (pre-training) first."""
    runs = {name: runs_of(name, found) for name in METHODS}
    start = sorted((one for one in found.values() if one.get("method") == "start"), key=lambda one: int(one["seed"]))
    return {name: several for name, several in {"start": start, **runs}.items() if several}


def levels_by_seed(runs: Mapping[str, Sequence[Found]]) -> dict[int, Levels]:
    """What FERERO was asked for at each seed; empty where it was not run."""
    under = [run for name, several in runs.items() if name.startswith("ferero") for run in several]
    return {run["seed"]: Levels(**run["levels"]) for run in under}


def summary(runs: Sequence[Found]) -> dict[str, Any]:
    """A method's step and, on dev and test, its losses and error rates, each over seeds.

    Each figure has its values "by_seed", their "mean", the standard error of that mean as seeds vary (None for one
    seed), and the one as utterances vary (the mean over seeds: all have the same utterances).
    """
    return {
        "rate": runs[0]["rate"],
        "steps": runs[0]["steps"],
        "seeds": [run["seed"] for run in runs],
        "seconds": [run["seconds"] for run in runs],
        **{data: {"errors": _errors(runs, data), "losses": _losses(runs, data)} for data in DATA},
    }


def constraint_rows(runs: Sequence[Found], levels: Mapping[int, Levels]) -> list[dict[str, Any]]:
    """For each seed how the losses on dev and test stand to its levels, with standard errors over utterances."""
    return [
        {
            "seed": run["seed"],
            "kept": run["course"]["kept"],
            "levels": asdict(levels[run["seed"]]),
            "late": _late(run, levels[run["seed"]]),
            **{data: _held_to(run[data], levels[run["seed"]]) for data in DATA},
        }
        for run in runs
        if run["seed"] in levels
    ]


def against(ours: Sequence[Found], theirs: Sequence[Found]) -> dict[str, Any]:
    """Differences of the average error, seed by seed, and the gap between the error rates of both."""
    pairs = [(a, b) for a in ours for b in theirs if a["seed"] == b["seed"]]
    return {
        data: {
            "average": _over_seeds([a[data]["average"] - b[data]["average"] for a, b in pairs]),
            "gap": _over_seeds([a[data]["gap"] for a, _ in pairs]),
            "their_gap": _over_seeds([b[data]["gap"] for _, b in pairs]),
        }
        for data in DATA
    }


def sweep_rows(found: Mapping[str, Found]) -> list[dict[str, Any]]:
    """Of each model in the sweep: the gap asked for and the gaps reached, from the smallest."""
    runs = [one for key, one in found.items() if key.startswith(f"{SWEPT}-")]
    rows = [
        {
            "asked": run["levels"]["gap"],
            "cpc_level": run["levels"]["cpc"],
            "steps": run["steps"],
            "rate": run["rate"],
            "late": _late(run, Levels(**run["levels"])),
            **{data: _held_to(run[data], Levels(**run["levels"])) for data in DATA},
            **{f"{data}_average": run[data]["average"] for data in DATA},
        }
        for run in runs
    ]
    return sorted(rows, key=lambda row: row["asked"])


def search_rows(name: str, found: Mapping[str, Found]) -> list[dict[str, Any]]:
    """What a method tried at the first seed, on the dev set, and which it took; of a run that goes on, so far."""
    chosen = best_key(name, found)
    return [
        {
            "rate": run["rate"],
            "zh": run["dev"]["zh"]["error"],
            "en": run["dev"]["en"]["error"],
            "average": run["dev"]["average"],
            "violations": None if run["levels"] is None else Levels(**run["levels"]).violations(run["dev"]["losses"]),
            "is_chosen": key == chosen,
        }
        for key, run in tried(name, found).items()
    ]


def _errors(runs: Sequence[Found], data: str) -> dict[str, Any]:
    found = {}
    for language in ("en", "zh"):
        figures = [run[data][language] for run in runs]
        found[language] = _over_seeds([each["error"] for each in figures]) | {
            "standard_error_utterances": _mean_known([each["standard_error"] for each in figures])
        }
    both = _root_sum(found["en"]["standard_error_utterances"], found["zh"]["standard_error_utterances"])
    return found | {
        "average": _over_seeds([run[data]["average"] for run in runs])
        | {"standard_error_utterances": None if both is None else both / 2},
        "gap": _over_seeds([run[data]["gap"] for run in runs]) | {"standard_error_utterances": both},
        "en_letters": _over_seeds([run[data]["en"]["characters"] for run in runs]),
    }


def _losses(runs: Sequence[Found], data: str) -> dict[str, Any]:
    return {
        name: _over_seeds([run[data]["losses"][name] for run in runs])
        | {"standard_error_utterances": _mean_known([run[data]["standard_errors"][name] for run in runs])}
        for name in NAMES
    }


def _held_to(measured: Mapping[str, Any], levels: Levels) -> dict[str, Any]:
    losses, errors = measured["losses"], measured["standard_errors"]
    return {
        "losses": losses,
        "gap": losses["zh"] - losses["en"],
        "violations": levels.violations(losses),
        "standard_errors": {"cpc": errors["cpc"], "gap": _root_sum(errors["zh"], errors["en"])},
    }


def _late(run: Found, levels: Levels) -> dict[str, Any]:
    """The looks of the last third: how many there were, how many held the levels, the median distance of the gap."""
    course = run["course"]
    looks = [
        dict(zip(NAMES, losses, strict=True))
        for step, losses in zip(course["steps"], course["held_out"], strict=True)
        if step >= LATE * run["steps"]
    ]
    return {
        "looks": len(looks),
        "held": sum(levels.failure(losses) == 0 for losses in looks),
        "off": median(levels.violations(losses)["gap"] for losses in looks),
    }


def _over_seeds(values: Sequence[float]) -> dict[str, Any]:
    several = len(values) > 1
    return {
        "by_seed": list(values),
        "mean": fmean(values) if values else None,
        "standard_error_seeds": stdev(values) / math.sqrt(len(values)) if several else None,
    }


def _mean_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _root_sum(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else math.hypot(first, second)
