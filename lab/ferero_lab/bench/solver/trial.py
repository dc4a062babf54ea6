"""A trial: one goal from one start by every solver, in turn; a line of plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any, TypeAlias

from ferero_lab.bench.solver.best_known import read_goals, seed_of
from ferero_lab.bench.solver.goal import Goal
from ferero_lab.bench.solver.judge import judge
from ferero_lab.bench.solver.registry import ProblemHalf, half_of
from ferero_lab.bench.solver.solvers import SOLVERS, refusal, seconds_on_torch

__all__ = ["SLOW", "STARTS", "TrialLine", "goals_of_half", "merged", "run_trial", "wanted"]

TrialLine: TypeAlias = Mapping[str, Any]

STARTS = 2
"""Starts of each goal; others than those that its best answer was found from."""


SLOW = ("trust-constr",)
"""Solvers that try the first start only, and by themselves, since they take most of the time."""


def goals_of_half(half: ProblemHalf) -> list[Goal]:
    """The goals of record of a half."""
    return [goal for goal in read_goals() if half_of(goal.of) == half]


def run_trial(goal: Goal, start: int, solvers: tuple[str, ...]) -> TrialLine:
    """What each solver makes of a goal.

    Args:
        goal: the goal.
        start: which of `STARTS`.
        solvers: names; those that cannot try it are left out.

    Returns:
        ``{"goal", "start", "family", "kind", "replies"}``, and ``torch_seconds`` of ferero and SLSQP for the first goal
        of each kind at the first start where both solve it; a reply has solved, local, evaluations, seconds, status,
        violation, gap (to the best known) and optimality.
    """
    x0 = goal.of.starts(STARTS, seed_of(goal.key))[start]
    goal.of.values(x0)
    goal.of.jacobian(x0)  # compiled before anything is timed
    replies = {}
    for name in solvers:
        if refusal(name, goal):
            continue
        reply = SOLVERS[name](goal, x0, False)
        found = judge(goal, reply.x)
        best = goal.best if goal.best is not None else float("nan")
        numbers = {**asdict(found), "gap": found.objective - best}
        replies[name] = {
            "solved": found.is_solved(goal.best),
            "local": found.is_local(goal.best),
            "evaluations": reply.evaluations,
            "seconds": float(f"{reply.seconds:.4g}"),
            "status": reply.status,
            **{key: float(f"{value:.4g}") if isfinite(value) else None for key, value in numbers.items()},
        }
    line = {"goal": goal.key, "start": start, "family": goal.of.family, "kind": goal.kind, "replies": replies}
    is_timed = goal.index == start == 0 and not goal.of.has_kinks
    if is_timed and all(replies.get(name, {}).get("solved") for name in ("ferero", "SLSQP")):
        line["torch_seconds"] = [float(f"{seconds:.4g}") for seconds in seconds_on_torch(goal, x0)]
    return line


def wanted(goal: Goal, start: int, solvers: Sequence[str], known: Iterable[TrialLine]) -> list[tuple[str, ...]]:
    """The solvers that no known line of this goal and start has, in groups that run together."""
    there = {name for line in known if (line["goal"], line["start"]) == (goal.key, start) for name in line["replies"]}
    left = [name for name in solvers if name not in there and not refusal(name, goal)]
    quick = tuple(name for name in left if name not in SLOW)
    slow = tuple(name for name in left if name in SLOW and start == 0)
    return [group for group in (quick, slow) if group]


def merged(lines: Iterable[TrialLine]) -> list[TrialLine]:
    """One line for each goal and start, with the replies of all, in order."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for line in lines:
        one = found.setdefault((line["goal"], line["start"]), {**line, "replies": {}})
        one |= {**line, "replies": one["replies"] | line["replies"]}
    return [found[key] for key in sorted(found)]
