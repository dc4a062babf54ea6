"""The lowest versions that are promised are those that were tested."""

from __future__ import annotations

import json
from pathlib import Path

import lowest_versions
import pytest
from packaging.version import Version

ROOT = Path(__file__).parents[2]
JUNIT = """<testsuites><testsuite>
<testcase classname="tests.a" name="fine"/>
<testcase classname="tests.a" name="left"><skipped/></testcase>
<testcase classname="tests.a" name="bad"><failure/></testcase>
</testsuite></testsuites>"""


def test_what_was_tested_is_what_pyproject_promises() -> None:
    result = json.loads((ROOT / "benchmarks/results/lowest-versions.json").read_text(encoding="utf-8"))
    bounds = lowest_versions.lower_bounds((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert result["bounds"] == bounds
    tested = result["environment"]["packages"]
    for name in set(bounds) - {"torch"}:  # older ones bring gigabytes of CUDA packages
        assert Version(tested[name]) == Version(bounds[name]), name
    assert Version(tested["torch"]) >= Version(bounds["torch"])
    assert result["exit_code"] == 0
    assert result["failed"] == []
    assert result["tests"] - result["skipped"] > 1000


def test_a_dependency_without_a_lower_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="expected name>=version, found 'numpy<3'; give it a lower bound"):
        lowest_versions.lower_bounds('[project]\ndependencies = ["numpy<3"]')


def test_failed_tests_are_named() -> None:
    assert lowest_versions.outcome(JUNIT) == {"tests": 3, "skipped": 1, "failed": ["tests.a::bad"]}
