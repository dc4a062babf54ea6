"""The costs of families: every row comes out, and a sample is what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ferero_lab.bench import family_cost


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family_cost, "MANY", 640)
    monkeypatch.setattr(family_cost, "EXAMPLES", 6400)
    monkeypatch.setattr(family_cost, "_held_alone", lambda: 2e6)


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_every_row_comes_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    family_cost.main(["--quick", "--out", str(tmp_path / "out.json")])
    rows = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["rows"]
    assert [row["group"] for row in rows].count("added to a step, ms") == 6
    assert {row["group"] for row in rows} == {"added to a step, ms", "building, s", "memory, MB", "spread, s"}
    assert all(row["value"] > 0 for row in rows)
    assert "6400 bounds, a sample of 64" in capsys.readouterr().out


def test_memory_is_counted_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family_cost.subprocess, "run", lambda *_, **__: type("Done", (), {"stdout": "noise 12.5\n"}))
    assert family_cost._held_alone() == 12.5
