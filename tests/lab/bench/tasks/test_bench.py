"""Lines that are kept and resumed, the rivals of record, and the command that shows it all."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from tests.lab.bench.tasks.made_up import line, rivals, tiny, tiny_named
from typer.testing import CliRunner

from ferero.cli import _app as cli
from ferero.errors import InputError
from ferero_lab.bench import tasks
from ferero_lab.bench.tasks import bench, lines, registry
from ferero_lab.bench.tasks.__main__ import main
from ferero_lab.bench.tasks.cell import cells_of
from ferero_lab.bench.tasks.extremes import Extreme
from ferero_lab.bench.tasks.rivals import ALONE, RIVALS
from ferero_lab.bench.tasks.tables import comparison


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tiny tasks in both halves, and two short extremes; one process, one thread."""
    made = (partial(tiny_named, "vae 4", 20), partial(tiny_named, "ray 45", 20))
    monkeypatch.setattr(registry, "HALVES", {"tune": made, "report": made})
    monkeypatch.setattr(registry, "WITH_LBFGS", {"tune": (), "report": ()})
    few = (Extreme("outlier", partial(tiny, 75), 1e12), Extreme("unattainable", partial(tiny, 50, 0.1)))
    monkeypatch.setattr(bench, "QUICK", few)
    monkeypatch.setattr(bench, "EXTREMES", few)
    monkeypatch.setattr(bench, "QUICK_CELLS", (("vae 4", "as it is"), ("ray 45", "adam")))


@pytest.fixture(autouse=True)
def _threads() -> Any:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("few")
def test_a_file_is_continued_where_it_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "lines.jsonl"
    asked = ["--half", "tune", "--who", "ferero", "--only", "vae", "--jobs", "1", "--out", str(out)]
    main([*asked, "--seeds", "first", "--form", "as it is"])
    (first,) = lines.read_lines(out)
    assert (first["task"], first["form"], first["seed"]) == ("vae 4", "as it is", 0)
    main([*asked, "--form", "as it is"])
    assert [one["seed"] for one in lines.read_lines(out)] == [0, 1]
    before = out.read_text()
    main([*asked, "--form", "as it is"])
    assert out.read_text() == before
    main([*asked[:3], "variants", *asked[4:], "--form", "as it is", "--seeds", "first"])  # of another kind
    assert next(iter(lines.read_lines(out)[-1]["variants"].values())) == first["ferero"]
    assert "1 of 1" in capsys.readouterr().out


def test_what_a_file_holds_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lines.jsonl").write_text(
        json.dumps(line(task="vae 4", half="tune", ferero=[0.0, 0.0, 0.7, 600.0], status="met"))
        + "\n"
        + json.dumps(line(task="vae 4", half="tune", variants={"usual": [0.0, 0.0, 0.7, 600.0]}))
    )
    main(["--half", "tune", "--out", str(tmp_path), "--show"])
    said = capsys.readouterr().out
    for words in ("tune: 1 of 1 cells are met by a rival", "100.0 % (1 of 1)", "By form", "Constants and mechanisms"):
        assert words in said


@pytest.mark.usefixtures("few")
def test_quick_prints_its_tables(tmp_path: Path) -> None:
    out, kept = tmp_path / "tasks.json", tmp_path / "lines"
    asked = ["bench", "tasks", "--quick", "--jobs", "1", "--out", str(out), "--lines", str(kept)]
    said = CliRunner().invoke(cli.app, asked, env={"COLUMNS": "160"})
    assert said.exit_code == 0, said.output
    for words in ("cells are met by a rival", "dual, F / b - 1", "nuPI", "By family", "By form", "Out of the ordinary"):
        assert words in said.stdout
    result = json.loads(out.read_text())
    assert result["summary"]["cells"] == 2
    assert [one["extreme"] for one in result["extremes"]] == ["outlier", "unattainable"]
    assert result["rows"][0]["bar"] == 0.95
    assert len(lines.read_lines(kept)) == 2 + 2 + 2
    again = CliRunner().invoke(cli.app, asked, env={"COLUMNS": "160"})
    assert len(lines.read_lines(kept)) == 6  # nothing was trained twice
    assert again.stdout.partition("seconds")[0] == said.stdout.partition("seconds")[0]


@pytest.mark.usefixtures("few")
def test_in_full_the_rivals_are_those_of_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = rivals({3: [0.0, 0.0, 1.0, 10.0]})
    kept = [line(*key[1:], half=half, rivals=scores) for half in ("tune", "report") for key in cells_of(half)]
    lines.write_rivals(kept, tmp_path / "rivals.gz")
    monkeypatch.setattr(bench, "read_rivals", partial(lines.read_rivals, place=tmp_path / "rivals.gz"))
    (tmp_path / "variants.jsonl").write_text(json.dumps(line(seed=2, variants={"usual": [0.0, 0.0, 1.0, 20.0]})))
    result = tasks.run(False, lambda title: lambda: None, lines=tmp_path, jobs=1)
    assert result["summary"]["attainable"] == result["summary"]["cells"] == len(cells_of("report"))
    usual = tasks.run(False, lambda title: lambda: None, lines=tmp_path, jobs=1, forms=["as it is"])
    assert usual["forms"] == ["as it is"]
    assert 0 < usual["summary"]["cells"] == sum(key[2] == "as it is" for key in cells_of("report"))
    assert result["summary"]["best"]["chosen"]["setting"] == RIVALS[3].setting
    assert result["variants"][0]["speed"] == 2
    header, rows = comparison(result["summary"])
    assert [row[0] for row in rows[:2]] == ["**ferero**", "dual, F - b"]
    assert all(len(row) == len(header) for row in rows)
    console = Console(record=True, width=160)
    tasks.show(result, console)
    assert "Constants and mechanisms" in console.export_text()


def test_the_rivals_of_record_are_of_these_tasks_and_settings() -> None:
    for half in ("tune", "report"):
        found = lines.read_rivals(half)  # type: ignore[arg-type]
        keys = {(one["half"], one["task"], one["form"], one["seed"]) for one in found}
        assert keys == set(cells_of(half))  # type: ignore[arg-type]
        assert all(len(one["rivals"]) == len(RIVALS + ALONE) for one in found)
    assert lines.PLACE.stat().st_size < 400_000


def test_the_record_is_the_same_for_the_same_lines(tmp_path: Path) -> None:
    kept = [line(seed=seed, rivals=rivals({0: [0.00123456789, 0.0, 123456.789, 10.0]})) for seed in (1, 0)]
    for name, some in (("a", kept), ("b", kept[::-1])):
        lines.write_rivals(some, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    first, _ = lines.read_rivals("report", tmp_path / "a")
    assert first["rivals"][0] == [0.0012346, 0, 123460.0, 10]
    with pytest.raises(InputError, match="found none; name the folder"):
        lines.write_rivals([line(ferero=[])], tmp_path / "c")
    with pytest.raises(InputError, match="or train the rivals as well with --rivals"):
        lines.read_rivals("report", tmp_path / "nowhere")


def test_options_of_this_benchmark_are_refused_elsewhere() -> None:
    said = CliRunner().invoke(cli.app, ["bench", "core", "--rivals"])
    assert said.exit_code == 1
    assert "--rivals: only bench tasks has this option, found bench core" in said.stderr


def test_the_quick_cells_exist() -> None:
    there = {key[1:3] for key in cells_of("report")}
    assert set(bench.QUICK_CELLS) <= there
    assert len(bench.QUICK_CELLS) == 12


@pytest.mark.slow
def test_work_goes_to_several_processes() -> None:
    pieces = [partial(dict, place=i) for i in range(3)]
    assert sorted(one["place"] for one in lines.work_on(pieces, 2)) == [0, 1, 2]
