"""The pages are run: their snippets in order, and their tables are the measured ones."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.lab.speech.test_report import PLAN, _found

from ferero.errors import InputError
from ferero_lab import experiments
from ferero_lab.speech.experiment.report import tell_story

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
RUN_ELSEWHERE = {"gallery.md"}  # tests/test_gallery.py runs the files that the page shows
LONG = {"training.md", "reading.md"}  # run with the slow tests


def _snippets(page: Path) -> object:
    return pytest.param(page, id=page.name, marks=[pytest.mark.slow] if page.name in LONG else [])


@pytest.mark.parametrize("page", [_snippets(page) for page in PAGES if page.name not in RUN_ELSEWHERE])
def test_the_snippets_run_in_order(page: Path) -> None:
    scope: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(compile(block, page.name, "exec"), scope)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_links_to_exists(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_tests_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name, test in re.findall(r"`((?:tests|ferero|ferero_lab|examples)/[\w/]+\.py)(?:::(\w+))?`", text):
        file = next((place / name for place in (ROOT, ROOT / "src", ROOT / "lab") if (place / name).exists()), None)
        assert file is not None, name
        assert not test or f"def {test}(" in file.read_text(encoding="utf-8"), f"{name}::{test}"


@pytest.mark.parametrize("name", ["methods", "experiments", "data"])
def test_the_tables_are_the_measured_ones(name: str) -> None:
    module = import_module(f"{name}_table")
    text = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
    assert module.filled(text, module.read()) == text


def test_the_page_of_experiments_says_of_the_recordings_what_was_counted() -> None:
    text = (ROOT / "docs/experiments.md").read_text(encoding="utf-8")
    counted = import_module("data_table").read()
    found = counted["units"]["characters"]
    assert f"{found['outside']} of the {found['test']} test characters are outside the alphabet" in text
    assert f"a CER under {100 * found['outside'] / found['test']:.1f} %" in text
    assert f"about {sum(counted['hours'].values()):.1f} hours to train on" in text


def test_every_mark_of_the_experiments_page_has_its_table() -> None:
    text = (ROOT / "docs/experiments.md").read_text(encoding="utf-8")
    marks = re.findall(r"<!-- ([\w-]+):begin -->", text)
    assert sorted(marks) == sorted(import_module("experiments_table").TABLES)


def test_results_of_experiments_say_what_ran_where_and_nothing_of_the_machine() -> None:
    results = import_module("experiments_table").read()
    times = results.pop("quick-times")
    assert {"python", "cores", "packages"} <= set(times["environment"])
    assert set(times["seconds"]) == set(experiments.names())
    assert not re.search(r"/(?:tmp|home|work|root)/", json.dumps(times))
    on_gpu = {"images", "images-paper", "speech", "speech-narrow", "speech-earlier"}
    for name, result in results.items():
        config = result["config"]
        assert config["options"]["experiment"] == result["name"] == name.partition("-")[0]
        assert {"ferero", "python", "torch"} <= set(config["versions"])
        assert config["device"] == ("NVIDIA H200" if name in on_gpu else "cpu")
        assert "data" not in config["options"]
        assert not re.search(r"/(?:tmp|home|work|root)/", json.dumps(result)), name


def test_a_goal_that_rounding_would_hide_is_shown_as_missed() -> None:
    figure = import_module("experiments_table")._figure
    assert figure(1.0503, 1.05) == "1.0503"
    assert figure(1.0497, 1.05) == "1.05"


def speech_results() -> dict[str, Any]:
    """What keeping made-up runs would give: three of sentences, one of words."""
    plans = {"speech": PLAN, "speech-narrow": PLAN, "speech-earlier": PLAN, "speech-quick": replace(PLAN, mode="quick")}
    stories = {name: tell_story(plan, _found()) for name, plan in plans.items()}
    keep_run = import_module("keep_run")
    return {
        name: {"name": "speech", "measures": story.measures, "tables": keep_run.tables_of(story)}
        for name, story in stories.items()
    }


def test_tables_of_speech_are_found_in_its_report() -> None:
    module = import_module("experiments_table")
    names = [name for name in module.TABLES if name.startswith("speech-")]
    assert len(names) == 12
    for name in names:
        assert module.TABLES[name](speech_results()).startswith("| "), name
    assert "| FERERO (the paper) | 5.4 | 4.9 |" in module.TABLES["speech-errors"](speech_results())
    settings = module.TABLES["speech-settings"](speech_results())
    assert "| passes of tuning; steps to choose from | 15; 0.0001, 0.0002 |" in settings
    assert "| FERERO | 27.50 ± 1.50 (0.60) |" in module.TABLES["speech-small"](speech_results())
    assert "the paper" not in module.TABLES["speech-small"](speech_results())
    study = "| of record | 15 | -0.1 | 0.015 | -2.00 ± 1.00 | -1.00, -3.00 | 2.0 | 4.0 |"
    assert study in module.TABLES["speech-studies"](speech_results())


def test_goals_of_speech_are_judged_by_the_experiment() -> None:
    module = import_module("experiments_table")
    lines = {line[0]: line[1:] for line in module._speech_goals(speech_results())}
    goal = "below 0, or one standard error and a smaller gap"
    assert lines["speech: average error minus that of LS, points"] == ["-2 ± 1", goal, "reached", "test set"]
    assert lines["speech: violation of a constraint, worst seed"] == ["0.015", "0.02", "reached", "dev set"]
    worse = lines["recorded words: character errors, worse language, %"]
    assert worse == ["25.5", "25", "**missed**", "unseen speakers"]


def test_what_the_page_says_of_speech_is_what_was_measured() -> None:
    text = (ROOT / "docs/experiments.md").read_text(encoding="utf-8")
    measures = import_module("experiments_table").read()["speech"]["measures"]
    study = measures["methods"]

    def lower(loss: str, data: str) -> list[float]:
        """By how many percent FERERO ends under linear scalarization, seed by seed."""
        ours, theirs = (study[name][data]["losses"][loss]["by_seed"] for name in ("ferero", "ls"))
        return [100 * (1 - a / b) for a, b in zip(ours, theirs, strict=True)]

    assert all(value > 0 for data in ("dev", "test") for loss in ("cpc", "zh", "en") for value in lower(loss, data))
    assert "lower than linear scalarization in all three, at every seed, on the dev set and on the test set" in text
    ranges = [f"{min(v):.0f} to {max(v):.0f} %" for v in (lower(loss, "test") for loss in ("cpc", "zh", "en"))]
    assert "(test: CPC by {}, Mandarin by {}, English by {})".format(*ranges) in text
    mandarin = {name: study[name]["test"]["errors"]["zh"]["mean"] for name in study}
    assert min(mandarin, key=lambda name: mandarin[name]) == "start"
    alone = study["cpc"]["dev"]["losses"]["cpc"]["by_seed"]
    assert all(low < row["levels"]["cpc"] for low, row in zip(alone, measures["constraints"]["ferero"], strict=True))
    narrowest, *others = measures["sweep"]
    assert all(narrowest["late"]["off"] < row["late"]["off"] for row in others)
    assert all(narrowest["test_average"] < row["test_average"] for row in others)
    assert measures["plan"]["sweeping"] / measures["plan"]["tuning"] == 3 / 5


def test_pictures_of_the_experiments_page_are_those_that_are_kept() -> None:
    text = (ROOT / "docs/experiments.md").read_text(encoding="utf-8")
    kept = [name for shown in import_module("keep_run").SHOWN.values() for name in shown.values()]
    assert sorted(re.findall(r"\(pictures/([\w-]+)\.png\)", text)) == sorted(kept)
    for name in kept:
        assert (ROOT / f"docs/pictures/{name}.png").stat().st_size < 300_000, name


def test_a_kept_run_reads_back_and_shows_no_path() -> None:
    keep_run = import_module("keep_run")
    value = {"a": [1.5, None, "x" * 300], "b": {"c": list(range(200))}, "d": {}}
    assert json.loads(keep_run.compact(value)) == value
    assert keep_run.rounded({"x": [0.123456789, 3, True]}) == {"x": [0.123457, 3, True]}
    keep_run._check_places({"text": "0.1 / 0.2 and/or LS/FERERO"}, "result")
    with pytest.raises(InputError, match=r"result\.text: expected no path of this machine, found 'see /home/me/run'"):
        keep_run._check_places({"text": "see /home/me/run"}, "result")
