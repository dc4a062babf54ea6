"""Lines of trials, summed up: a cell for each family and kind, performance profiles, and where ferero fails."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from ferero_lab.bench.measure import Row
from ferero_lab.bench.solver.goal import KINDS
from ferero_lab.bench.solver.smooth import FAMILIES
from ferero_lab.bench.solver.trial import SLOW, TrialLine

__all__ = ["RIVALS", "cell_of", "cells_of", "failures_of", "profiles_of", "rows_of", "tails_of"]

RIVALS = ("SLSQP", "IPOPT")
"""Whom the bars are about."""

_TIME = 1.5  # most of SLSQP's
_CHEAP = "compiled losses of 5 to 50 us: what the solvers cost"


def cells_of(lines: Sequence[TrialLine]) -> list[dict[str, Any]]:
    """A cell for each family and kind that there are lines of, in order."""
    cells = []
    for family in FAMILIES:
        for kind in KINDS:
            some = [line for line in lines if (line["family"], line["kind"]) == (family, kind)]
            if some:
                cells.append({"family": family, "kind": kind, **cell_of(some)})
    return cells


def cell_of(lines: Sequence[TrialLine]) -> dict[str, Any]:
    """Figures of each solver over some trials.

    Returns:
        ``trials``, ``all_arrive`` (trials that ferero, SLSQP and IPOPT all solve), and by solver: the share solved, the
        share that ends in a local solution, the medians of evaluations where all arrive, the 90 % quantile there, and
        the median time over SLSQP's where both solve it in turn. None where there is nothing to take it of.
    """
    names = list(dict.fromkeys(name for line in lines for name in line["replies"]))
    compared = [name for name in ("ferero", *RIVALS) if name in names]
    arrived = [line for line in lines if all(_solves(line, name) for name in compared)]
    solvers = {}
    for name in names:
        replies = [line["replies"][name] for line in lines if name in line["replies"]]
        taken = [line["replies"][name]["evaluations"] for line in arrived if name in line["replies"]]
        ratios = [
            line["replies"][name]["seconds"] / line["replies"]["SLSQP"]["seconds"]
            for line in lines
            if _solves(line, name) and _solves(line, "SLSQP") and name not in SLOW
        ]
        solvers[name] = {
            "tried": len(replies),
            "solved": sum(reply["solved"] for reply in replies) / len(replies),
            "local": sum(reply["local"] for reply in replies) / len(replies),
            "evaluations": median(taken) if taken else None,
            "evaluations_90": float(np.percentile(taken, 90)) if taken else None,
            "time_over_slsqp": median(ratios) if ratios else None,
        }
    return {"trials": len(lines), "all_arrive": len(arrived), "solvers": solvers}


def _solves(line: TrialLine, name: str) -> bool:
    return name in line["replies"] and bool(line["replies"][name]["solved"])


def rows_of(cells: Sequence[dict[str, Any]], lines: Sequence[TrialLine]) -> list[Row]:
    """The bars: success in each cell; evaluations and time in each family."""
    rows = []
    for cell in cells:
        solvers = cell["solvers"]
        if "ferero" not in solvers:
            continue
        best = max((solvers[name]["solved"] for name in RIVALS if name in solvers), default=None)
        group, note = f"{cell['family']}, {cell['kind']}", f"{cell['trials']} trials"
        rows.append(Row(group, "solved", solvers["ferero"]["solved"], best, True, note))
    for family in FAMILIES:
        some = [line for line in lines if line["family"] == family and "ferero" in line["replies"]]
        if not some:
            continue
        whole = cell_of(some)
        ours = whole["solvers"]["ferero"]
        taken = [whole["solvers"][name]["evaluations"] for name in RIVALS if name in whole["solvers"]]
        if ours["evaluations"] is not None:
            note = f"{whole['all_arrive']} trials where all arrive"
            rows.append(Row(family, "evaluations, median", ours["evaluations"], min(taken), note=note))
        if ours["time_over_slsqp"] is not None:
            rows.append(Row(family, "time over SLSQP, median", ours["time_over_slsqp"], _TIME, note=_CHEAP))
        ratios = [line["torch_seconds"][0] / line["torch_seconds"][1] for line in some if "torch_seconds" in line]
        if ratios:
            note = f"losses of torch, gradients by autograd; {len(ratios)} trials"
            rows.append(Row(family, "the same with torch", median(ratios), _TIME, note=note))
    return rows


def profiles_of(lines: Sequence[TrialLine]) -> dict[str, dict[str, list[int | None]]]:
    """By family and solver the evaluations of each trial, None if it is not solved; solvers that tried all alone."""
    found: dict[str, dict[str, list[int | None]]] = {}
    for family in FAMILIES:
        some = [line for line in lines if line["family"] == family]
        if not some:
            continue
        names = [name for name in some[0]["replies"] if all(name in line["replies"] for line in some)]
        found[family] = {
            name: [line["replies"][name]["evaluations"] if _solves(line, name) else None for line in some]
            for name in names
        }
    return found


def failures_of(lines: Sequence[TrialLine]) -> list[dict[str, Any]]:
    """Trials that SLSQP or IPOPT solves and ferero does not."""
    failures = []
    for line in lines:
        by = [name for name in RIVALS if _solves(line, name)]
        if "ferero" not in line["replies"] or _solves(line, "ferero") or not by:
            continue
        keys = ("status", "local", "evaluations", "violation", "gap", "optimality")
        reply = {key: line["replies"]["ferero"][key] for key in keys}
        failures.append({"goal": line["goal"], "start": line["start"], "family": line["family"], "by": by, **reply})
    return failures


def tails_of(lines: Sequence[TrialLine], most: int = 20) -> list[dict[str, Any]]:
    """Trials where ferero arrives and takes the largest multiple of the better rival's evaluations, worst first."""
    found = []
    for line in lines:
        theirs = [line["replies"][name]["evaluations"] for name in RIVALS if _solves(line, name)]
        if _solves(line, "ferero") and theirs:
            ours = line["replies"]["ferero"]["evaluations"]
            found.append({"goal": line["goal"], "start": line["start"], "ferero": ours, "rival": min(theirs)})
    return sorted(found, key=lambda one: -one["ferero"] / one["rival"])[:most]
