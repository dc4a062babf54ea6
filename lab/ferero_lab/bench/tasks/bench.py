"""``ferero bench tasks``: ferero's default on everyday training under constraints, beside tuned rivals.

Ferero is trained anew; the rivals' scores are those of record (`lines.read_rivals`), unless ``rivals`` trains them too.
A folder of lines keeps each measured cell, so that an interrupted run continues; lines of ``python -m
ferero_lab.bench.tasks --who variants`` in it are summarised, too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ferero_lab.bench.measure import Row, result_of
from ferero_lab.bench.tasks.cell import Line, cells_of, key_of
from ferero_lab.bench.tasks.extremes import BARS, EXTREMES, QUICK, Extreme, Kind, measure
from ferero_lab.bench.tasks.lines import add_lines, missing, of_kind, read_lines, read_rivals, work_on
from ferero_lab.bench.tasks.registry import SEEDS, Half
from ferero_lab.bench.tasks.summary import summarise, summarise_variants

__all__ = ["QUICK_CELLS", "run"]

HALF: Half = "report"
QUICK_CELLS = (
    ("a <= 0.8, exponential, 0.1", "as it is"),
    ("a <= 0.8, exponential, 0.1", "a quarter of the steps"),
    ("a <= 0.6, exponential, 0.01", "a quarter of the steps"),
    ("a <= 0.3, exponential, 0.3", "a quarter of the steps"),
    ("a <= 0.3, quadratic, 0.03", "constraint x 100"),
    ("a <= 0.6, quadratic, 0.1, noise", "a quarter of the steps"),
    ("b - a == 2; minimize a, quadratic, 0.03", "a quarter of the steps"),
    ("ray 67.5, exponential, 0.3", "a quarter of the steps"),
    ("ray 22.5, quadratic, 0.03", "a quarter of the steps"),
    ("weight norm 20", "a quarter of the steps"),
    ("entropy 1", "a quarter of the steps"),
    ("distillation 0.2", "a quarter of the steps"),
)
"""Task and form of a small sample, at the first seed: the quickest of each kind."""

Progress = Callable[[str], Callable[[], None]]


def run(
    quick: bool,
    progress: Progress,
    *,
    rivals: bool = False,
    lines: Path | None = None,
    jobs: int | None = None,
    forms: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Measure everything.

    Args:
        quick: a dozen cells, with the rivals trained beside.
        progress: ``progress(title)`` gives a function to call after each piece of work.
        rivals: train the rivals of the reported half anew as well.
        lines: a folder that keeps each cell as it is done; what it holds already is not trained again.
        jobs: processes; as many as there are cores if None.
        forms: only these forms of the tasks; all if None.

    Returns:
        Plain data: rows with bars, the summary, the extremes, the variants there are, seconds, environment, date.
    """
    known = [] if lines is None else read_lines(lines)
    cells = cells_of(HALF)
    if quick:
        cells = {key: cell for key, cell in cells.items() if key[1:3] in QUICK_CELLS and cell.seed == SEEDS[HALF][0]}
    if forms is not None:
        cells = {key: cell for key, cell in cells.items() if key[2] in forms}
    extremes = QUICK if quick else EXTREMES
    left = [*(missing(cells, known, "rivals") if rivals or quick else ()), *missing(cells, known, "ferero")]
    left += _missing_extremes(extremes, known)
    begin = time.perf_counter()
    with _threads_kept():
        done = work_on(left, jobs or os.cpu_count() or 1)
        known += add_lines(
            done, None if lines is None else lines / "tasks.jsonl", progress(f"tasks, {len(left)} in all")
        )
    known = [line for line in known if "ferero" not in line or key_of(line) in cells]
    told = {"forms": list(dict.fromkeys(key[2] for key in cells)), "seconds": {"all": time.perf_counter() - begin}}
    return _result(quick, known, extremes, trained=rivals or quick) | told


def _result(quick: bool, known: list[Line], wanted: tuple[Extreme, ...], trained: bool) -> dict[str, Any]:
    theirs = of_kind(known, "rivals") if trained else read_rivals(HALF)
    summary = summarise(theirs, of_kind(known, "ferero"), () if quick else read_rivals("tune"))
    extremes = [one for name in _named(wanted) for one in of_kind(known, "extreme") if _name(one) == name]
    return result_of("tasks", quick, _rows(summary, extremes)) | {
        "half": HALF,
        "summary": summary,
        "extremes": extremes,
        "variants": summarise_variants(theirs, of_kind(known, "variants")),
    }


def _missing_extremes(wanted: tuple[Extreme, ...], known: list[Line]) -> list[Callable[[], Line]]:
    there = {_name(one) for one in of_kind(known, "extreme")}
    return [partial(measure, one) for name, one in _named(wanted).items() if name not in there]


def _named(wanted: tuple[Extreme, ...]) -> dict[tuple[str, str], Extreme]:
    tasks = ((one, one.task()) for one in wanted)
    return {(task.name, task.form): one for one, task in tasks}


def _name(line: Line) -> tuple[str, str]:
    return line["task"], line["form"]


def _rows(summary: dict[str, Any], extremes: list[Line]) -> list[Row]:
    """What has a bar; a figure that does not exist is as bad as can be."""
    ours = summary["ferero"]
    of = "of those that a rival meets"
    rows = [
        Row("cells", f"share met {of}", ours["share"] or 0.0, 0.95, True, f"{ours['met']} of {ours['cells']}"),
        Row("cells", f"saturated {of}", ours["saturated"], 0),
        Row("cells", "regret, median", _number(ours["regret"]), 0.02),
        Row("cells", "regret, 90 %", _number(ours["regret_90"]), 0.10),
        Row("cells", "steps until met over the quickest fair rival, median", _number(ours["speed"]), 1.5),
    ]
    words: dict[Kind, str] = {
        "far start": "start 1 : 1e6 off a ray: degrees at the end, worst",
        "outlier": "one batch x 1e2 to 1e12: steps until back, worst",
        "unattainable": "bound that cannot be had: steps until said, worst",
    }
    for kind, what in words.items():
        found = [one["ours"] for one in extremes if one["extreme"] == kind]
        worst = max((_number(one["value"]) for one in found), default=float("inf"))
        diverged = sum(not one["finite"] for one in found)
        rows.append(Row("out of the ordinary", what, worst, BARS[kind], note=f"{len(found)} runs, {diverged} diverged"))
    return rows


def _number(value: float | None) -> float:
    return float("inf") if value is None else float(value)


@contextmanager
def _threads_kept() -> Iterator[None]:
    """Work in this process sets the number of threads."""
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
