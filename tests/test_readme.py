"""The README is run: its snippets in order, its commands by name."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_snippets_run_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    mpl.use("Agg")
    scope: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL):
        exec(compile(block, "README.md", "exec"), scope)
    plt.close("all")
    printed = capsys.readouterr().out
    assert "converged" in printed
    assert scope["r"].success  # type: ignore[attr-defined]


def test_exactly_two_commands_set_everything_up() -> None:
    commands = re.findall(r"^    (make \w+)", README, flags=re.MULTILINE)
    assert commands == ["make demo", "make test"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(f"\n{command.split()[1]}: $(READY)" in makefile for command in commands)


def test_what_the_readme_links_to_exists() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_table_is_the_measured_one() -> None:
    path = ROOT / "benchmarks" / "readme_table.py"
    spec = importlib.util.spec_from_file_location("readme_table", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    result = json.loads((ROOT / "benchmarks/results/core.json").read_text(encoding="utf-8"))
    assert not result["quick"]
    assert module.BEGIN + module.table(result) + module.END in README
    measured = [json.loads((ROOT / "benchmarks/results" / name).read_text()) for name in module.STEER_FILES]
    assert not measured[0]["quick"]
    assert module.STEER_BEGIN + module.steering_table(measured) + module.STEER_END in README
