"""The tables: what each method reaches at its default, at its best single setting and at its best setting per task."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable
from statistics import median
from typing import Any

__all__ = ["FAMILIES", "best_single", "tables"]

FAMILIES = ("exponential", "pairs", "three", "exponential, noise 0.3", "quadratic", "quadratic, noise 0.3")
NAMES = ("ferero", "nuPI", "ALM")
GOOD = {"three": 0.01}  # largest violation; elsewhere degrees:
GOOD_RAY = 2.0

Run = dict[str, Any]


def best_single(runs: list[Run], family: str, method: str) -> dict[str, float]:
    """The setting whose worst error over the family is smallest; on a tie, whose mean error is."""
    of = _by_setting(runs, (family,), method)
    return json.loads(min(of, key=lambda s: (_worst(of[s]), math.fsum(map(_error, of[s])) / len(of[s]))))


def tables(result: dict[str, Any]) -> str:
    """Markdown."""
    runs = result["runs"]
    default = json.dumps(result["searches"]["ferero"]["default"], sort_keys=True)
    lines = [
        "Worst error over the last tenth of the steps (degrees; for `three` the violation), the worst of all tasks.",
        "",
        "| family (tasks) | ferero default | ferero best single | ferero best per task | nuPI best single | "
        "nuPI best per task | ALM best single | ALM best per task | level nuPI | level ALM |",
        "|---" * 10 + "|",
    ]
    for family in FAMILIES:
        cells = [_number(_worst(_by_setting(runs, (family,), "ferero").get(default, [])))]
        for method in NAMES:
            of = _by_setting(runs, (family,), method)
            cells += [_number(min(map(_worst, of.values()), default=math.nan)), _number(_best_per_task(of))]
        cells += [_level(runs, family, default, method) for method in NAMES[1:]]
        count = len({run["task"] for run in runs if run["family"] == family})
        lines.append(f"| {family} ({count}) | " + " | ".join(cells) + " |")
    lines += ["", *_settings(runs), "", *_sensitivity(runs, default), "", *_transfer(runs)]
    return "\n".join(lines)


def _settings(runs: list[Run]) -> list[str]:
    lines = ["| family | best single: ferero | nuPI | ALM |", "|---" * 4 + "|"]
    found = [family for family in FAMILIES if any(run["family"] == family for run in runs)]
    return lines + [
        f"| {family} | " + " | ".join(_text(best_single(runs, family, name)) for name in NAMES) + " |"
        for family in found
    ]


def _sensitivity(runs: list[Run], default: str) -> list[str]:
    """How much the choice of a setting matters: shares of good runs, and one setting for everything."""
    lines = [
        f"Share of all searched runs that end within {GOOD_RAY:g} degrees (`three`: violation 0.01); in brackets, "
        "those that diverged.",
        "",
        "| family | ferero | nuPI | ALM |",
        "|---" * 4 + "|",
    ]
    for family in FAMILIES:
        cells = []
        for method in NAMES:
            found = [run for run in runs if (run["family"], run["method"]) == (family, method)]
            good = sum(_error(run) <= GOOD.get(family, GOOD_RAY) for run in found)
            lost = sum(run["worst"] is None for run in found)
            cells.append(f"{good / max(1, len(found)):.0%} ({lost})")
        lines.append(f"| {family} | " + " | ".join(cells) + " |")
    rays = tuple(family for family in FAMILIES if family != "three")
    cells = []
    for method in NAMES:
        of = _by_setting(runs, rays, method)
        best = min(of, key=lambda s: _worst(of[s]))
        cells.append(f"{_number(_worst(of[best]))} ({_text(json.loads(best))})")
    at_default = _number(_worst(_by_setting(runs, rays, "ferero").get(default, [])))
    lines += ["", f"One setting for all rays, worst error: ferero default {at_default}; best single: "
              + "; ".join(f"{name} {cell}" for name, cell in zip(NAMES, cells, strict=True)) + "."]  # fmt: skip
    return lines


def _transfer(runs: list[Run]) -> list[str]:
    lines = [
        "Settings carried over (ferero default, best single of nuPI and ALM): worst error; in brackets, the median.",
        "",
        "| | ferero | nuPI | ALM |",
        "|---" * 4 + "|",
    ]
    for family in dict.fromkeys(run["family"] for run in runs if run["family"] not in FAMILIES):
        cells = []
        for method in NAMES:
            found = [run for run in runs if (run["family"], run["method"]) == (family, method)]
            cells.append(f"{_number(_worst(found))} ({_number(median(map(_error, found)))})")
        lines.append(f"| {family} | " + " | ".join(cells) + " |")
    return lines


def _level(runs: list[Run], family: str, default: str, method: str) -> str:
    """Median over tasks of the length of the losses over ferero's, both at one setting and on target."""
    ours = {run["task"]: run for run in _by_setting(runs, (family,), "ferero").get(default, [])}
    best = json.dumps(best_single(runs, family, method), sort_keys=True) if ours else ""
    pairs = [(run, ours[run["task"]]) for run in _by_setting(runs, (family,), method).get(best, [])]
    limit = GOOD.get(family, GOOD_RAY) * 2
    ratios = [
        math.hypot(*a["losses"]) / math.hypot(*b["losses"]) for a, b in pairs if max(_error(a), _error(b)) <= limit
    ]
    return f"{median(ratios):.3f} (of {len(ratios)}: {min(ratios):.2f} to {max(ratios):.2f})" if ratios else "-"


def _by_setting(runs: list[Run], families: Iterable[str], method: str) -> dict[str, list[Run]]:
    of: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if run["family"] in families and run["method"] == method:
            of[json.dumps(run["setting"], sort_keys=True)].append(run)
    return of


def _best_per_task(of: dict[str, list[Run]]) -> float:
    best: dict[str, float] = defaultdict(lambda: math.inf)
    for found in of.values():
        for run in found:
            best[run["task"]] = min(best[run["task"]], _error(run))
    return max(best.values(), default=math.nan)


def _error(run: Run) -> float:
    return math.inf if run["worst"] is None else run["worst"]


def _worst(runs: list[Run]) -> float:
    return max(map(_error, runs), default=math.nan)


def _number(value: float) -> str:
    if math.isinf(value):
        return "diverges"
    return f"{value:.1e}" if value < 5e-4 else f"{value:.3f}" if value < 1 else f"{value:.2f}"


def _text(setting: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in setting.items())
