"""Tests the lowest supported versions: ``.venv/bin/python benchmarks/lowest_versions.py``, with a network.

A new environment in a temporary folder gets ferero and exactly the lower bounds of pyproject.toml, then runs the core
tests. Torch is the exception: it is the one of constraints.txt, since older ones bring gigabytes of CUDA packages.
``--with numpy=1.25`` tries another bound. benchmarks/results/lowest-versions.json keeps versions and outcome.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
RESULT = Path(__file__).parent / "results/lowest-versions.json"
TESTS = ("geometry", "preference", "subprogram", "methods", "optimize")
TOOLS = ("pytest", "hypothesis")
ENVIRONMENT = "import json; from ferero_lab.bench.measure import environment; print(json.dumps(environment()))"


def lower_bounds(pyproject: str) -> dict[str, str]:
    """The lower bound of each dependency; extras are left out.

    Raises:
        ValueError: a dependency without a lower bound.
    """
    bounds = {}
    for line in tomllib.loads(pyproject)["project"]["dependencies"]:
        found = re.match(r"([\w.-]+)\s*>=\s*([\d.]+)", line)
        if found is None:
            raise ValueError(f"dependencies: expected name>=version, found {line!r}; give it a lower bound")
        bounds[found[1]] = found[2]
    return bounds


def pinned(constraints: str) -> dict[str, str]:
    """The versions of a constraints file."""
    return dict(re.findall(r"^([\w.-]+)==(\S+)$", constraints, flags=re.MULTILINE))


def outcome(junit: str) -> dict[str, Any]:
    """How many tests ran, and the names of those that failed."""
    cases = list(ElementTree.fromstring(junit).iter("testcase"))
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    return {
        "tests": len(cases),
        "skipped": sum(case.find("skipped") is not None for case in cases),
        "failed": [f"{case.get('classname')}::{case.get('name')}" for case in failed],
    }


def test_versions(versions: dict[str, str], folder: Path, every: bool) -> dict[str, Any]:
    """Installs the versions in a new environment of the folder and runs the core tests there."""
    tools = pinned((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    wanted = [f"{name}=={version}" for name, version in versions.items()]
    wanted += [f"{name}=={tools[name]}" for name in TOOLS]
    venv.create(folder / "venv", with_pip=True)
    python = str(folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(ROOT), *wanted]
    subprocess.run(install, check=True)
    report = folder / "junit.xml"
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    command += ["-m", ""] if every else []
    ran = subprocess.run([*command, *(f"tests/{name}" for name in TESTS)], cwd=ROOT, check=False)
    lab = os.environ | {"PYTHONPATH": str(ROOT / "lab")}
    measured = subprocess.run(
        [python, "-c", ENVIRONMENT], cwd=folder, env=lab, check=True, capture_output=True, text=True
    )
    return {
        "name": "lowest-versions",
        "date": datetime.now(UTC).date().isoformat(),
        "environment": json.loads(measured.stdout),
        "bounds": lower_bounds((ROOT / "pyproject.toml").read_text(encoding="utf-8")),
        "folders": [f"tests/{name}" for name in TESTS],
        "slow": every,
        "exit_code": ran.returncode,
        **outcome(report.read_text(encoding="utf-8")),
    }


def main() -> int:
    """The lower bounds, or others; the exit code is that of the tests."""
    parser = argparse.ArgumentParser(description="Tests the lowest supported versions of the dependencies.")
    parser.add_argument("--with", dest="other", action="append", default=[], metavar="NAME=VERSION")
    parser.add_argument("--slow", action="store_true", help="the slow tests too")
    parser.add_argument("--out", type=Path, default=RESULT, help="where the result is kept")
    options = parser.parse_args()
    versions = lower_bounds((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    versions["torch"] = pinned((ROOT / "constraints.txt").read_text(encoding="utf-8"))["torch"]
    versions |= dict(item.split("=", 1) for item in options.other)
    print("testing", ", ".join(f"{name} {version}" for name, version in versions.items()), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        result = test_versions(versions, Path(folder), options.slow)
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result["environment"]["packages"]))
    return int(result["exit_code"])


if __name__ == "__main__":
    sys.exit(main())
