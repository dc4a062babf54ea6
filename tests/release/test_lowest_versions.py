"""The lowest versions that are promised are those that were tested."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from packaging.version import Version

ROOT = Path(__file__).parents[2]
JUNIT = """<testsuites><testsuite>
<testcase classname="tests.a" name="fine"/>
<testcase classname="tests.a" name="left"><skipped/></testcase>
<testcase classname="tests.a" name="bad"><failure/></testcase>
</testsuite></testsuites>"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lowest_versions", ROOT / "benchmarks/lowest_versions.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_was_tested_is_what_pyproject_promises(script: ModuleType) -> None:
    result = json.loads((ROOT / "benchmarks/results/lowest-versions.json").read_text(encoding="utf-8"))
    bounds = script.lower_bounds((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert result["bounds"] == bounds
    tested = result["environment"]["packages"]
    for name in set(bounds) - {"torch"}:  # older ones bring gigabytes of CUDA packages
        assert Version(tested[name]) == Version(bounds[name]), name
    assert Version(tested["torch"]) >= Version(bounds["torch"])
    assert result["exit_code"] == 0
    assert result["failed"] == []
    assert result["tests"] - result["skipped"] > 1000


def test_a_dependency_without_a_lower_bound_is_refused(script: ModuleType) -> None:
    with pytest.raises(ValueError, match="expected name>=version, found 'numpy<3'; give it a lower bound"):
        script.lower_bounds('[project]\ndependencies = ["numpy<3"]')


def test_failed_tests_are_named(script: ModuleType) -> None:
    assert script.outcome(JUNIT) == {"tests": 3, "skipped": 1, "failed": ["tests.a::bad"]}
