"""``ferero bench solver``: `ferero.minimize` beside SLSQP, IPOPT and trust-constr on the goals of record.

Each trial runs ferero, SLSQP and IPOPT in turn in one process, so that times can be compared. A folder of lines keeps
each trial as it is done; the same command then goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

import torch

from ferero.errors import InputError
from ferero_lab.bench.measure import result_of
from ferero_lab.bench.solver.registry import ProblemHalf
from ferero_lab.bench.solver.solvers import SOLVERS, available, offers
from ferero_lab.bench.solver.summary import cells_of, failures_of, profiles_of, rows_of, tails_of
from ferero_lab.bench.solver.trial import STARTS, goals_of_half, merged, run_trial, wanted
from ferero_lab.bench.solver.verdicts import PLANTED, bench_verdicts, verdict_of
from ferero_lab.bench.tasks.lines import add_lines, of_kind, read_lines, work_on

__all__ = ["QUICK_PROBLEMS", "VERDICTS", "run"]

QUICK_PROBLEMS = ("VU1", "Lov1", "DGO2", "VU2", "SRN")
"""A small sample: the first goal of each kind, one start."""

VERDICTS = 2000
"""Random problems with known answers."""

_FIRST_SEED = {"tune": 0, "report": 1_000_000}

_NONE = {"seconds": 0.0}  # of a solver that did not try

Progress = Callable[[str], Callable[[], None]]


def run(
    quick: bool,
    progress: Progress,
    *,
    lines: Path | None = None,
    jobs: int | None = None,
    half: str = "report",
    solvers: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Measure everything.

    Args:
        quick: a few goals of five problems, and 40 random ones.
        progress: ``progress(title)`` gives a function to call after each piece of work.
        lines: a folder that keeps each trial as it is done; what it holds already is not measured again.
        jobs: processes; one if None, since times are measured.
        half: of the problems, "report" or "tune".
        solvers: names; all that are installed if None.

    Returns:
        Plain data: rows with bars, the cells, profiles, failures, tails, verdicts, seconds of each solver over all
        trials, environment, date.

    Raises:
        InputError: for a half that there is not.
    """
    halves: tuple[ProblemHalf, ...] = get_args(ProblemHalf)
    chosen = next((one for one in halves if one == half), None)
    if chosen is None:
        raise InputError(f"--half: expected {' or '.join(halves)}, found {half!r}.")
    known = [] if lines is None else read_lines(lines)
    names = available() if solvers is None else tuple(solvers)
    pieces = [*_trials(quick, chosen, names, known), *_verdicts(quick, chosen, known)]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        done = work_on(pieces, min(jobs or 1, os.cpu_count() or 1))
        file = None if lines is None else lines / f"{chosen}.jsonl"
        known += add_lines(done, file, progress(f"solver, {len(pieces)} in all"))
    finally:
        torch.set_num_threads(threads)
    return _result(quick, known) | {
        "half": half,
        "solvers": list(names),
        "jobs": jobs or 1,
    }


def _trials(quick: bool, half: ProblemHalf, names: tuple[str, ...], known: list[Any]) -> list[Callable[[], Any]]:
    by_goal: dict[str, list[Any]] = {}
    for line in of_kind(known, "goal"):
        by_goal.setdefault(line["goal"], []).append(line)
    goals = goals_of_half(half)
    if quick:
        goals = [goal for goal in goals if goal.problem in QUICK_PROBLEMS and goal.index == 0]
    return [
        partial(run_trial, goal, start, group)
        for goal in goals
        for start in range(1 if quick else STARTS)
        for group in wanted(goal, start, names, by_goal.get(goal.key, ()))
    ]


def _verdicts(quick: bool, half: ProblemHalf, known: list[Any]) -> list[Callable[[], Any]]:
    import ferero

    there = {line["verdict"] for line in of_kind(known, "verdict")}
    options = {"boxed": "bounds", "constrained": "constraints"}
    kinds = [kind for kind in PLANTED if kind not in options or offers(ferero.minimize, options[kind])]
    first = _FIRST_SEED[half]
    seeds = range(first, first + (40 if quick else VERDICTS))
    return [partial(verdict_of, seed, kinds[seed % len(kinds)]) for seed in seeds if seed not in there]


def _result(quick: bool, known: list[Any]) -> dict[str, Any]:
    trials = merged(of_kind(known, "goal"))
    verdicts = sorted(of_kind(known, "verdict"), key=lambda line: int(line["verdict"]))
    cells = cells_of(trials)
    return result_of("solver", quick, [*rows_of(cells, trials), *bench_verdicts(verdicts)]) | {
        "cells": cells,
        "profiles": profiles_of(trials),
        "failures": failures_of(trials),
        "tails": tails_of(trials),
        "seconds": {name: sum(line["replies"].get(name, _NONE)["seconds"] for line in trials) for name in SOLVERS},
        "false_verdicts": [line for line in verdicts if _is_false(line)],
    }


def _is_false(line: Mapping[str, Any]) -> bool:
    if line["status"] == "unattainable":
        return bool(line["is_attainable"])
    return line["status"] == "converged" and not (line["is_right"] or line["is_local"])
