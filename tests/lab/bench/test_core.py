"""The benchmark runs through, and what it measures is data that can be kept."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
from rich.console import Console

from ferero_lab.bench.core import run, show
from ferero_lab.bench.measure import Row, environment, rows_to_json

RESULTS = Path(__file__).parents[3] / "benchmarks/results"


def test_a_bar_is_judged_in_its_direction() -> None:
    assert Row("g", "low is good", 1.0, 2.0).passed
    assert not Row("g", "high is good", 1.0, 2.0, higher_is_better=True).passed
    assert Row("g", "for information", 1.0).passed is None
    assert rows_to_json([Row("g", "m", 3.0, 2.0)])[0]["passed"] is False


def test_the_environment_names_versions_and_no_machine() -> None:
    found = environment()
    assert {"torch", "numpy", "scipy", "piqp"} <= set(found["packages"])
    json.dumps(found)


@pytest.mark.slow
def test_the_quick_benchmark_runs_and_reaches_what_does_not_depend_on_the_clock() -> None:
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        ticks += 1

    result = run(True, lambda title: tick)
    json.dumps(result, allow_nan=False)
    console = Console(record=True, width=160)
    show(result, console)
    assert "share of all runs" in console.export_text()
    assert ticks > 100
    clockless = [
        row
        for row in result["rows"]
        if row["bar"] is not None and "time" not in row["measure"] and row["group"] != "trace"
    ]
    assert len(clockless) >= 10
    assert [row["measure"] for row in clockless if not row["passed"]] == []


@pytest.mark.parametrize("name", ["core", "steer", "methods"])
def test_a_result_of_record_is_shown(name: str) -> None:
    result = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    console = Console(record=True, width=200)
    importlib.import_module(f"ferero_lab.bench.{name}").show(result, console)
    shown = console.export_text()
    assert all(row["measure"].split()[0] in shown for row in result["rows"][:5])
