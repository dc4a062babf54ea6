"""The report of the speech experiment: its figures on made-up runs, and its whole on a run of a few steps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ferero_lab.experiments.experiment import Context, Found, Section, Settings, Story
from ferero_lab.report import to_json
from ferero_lab.report.panels import Heat, Lines, Table
from ferero_lab.report.story import story_files
from ferero_lab.speech.corpora import words_like
from ferero_lab.speech.experiment import sets
from ferero_lab.speech.experiment.parts import make_parts
from ferero_lab.speech.experiment.plan import SpeechPlan, read_plan
from ferero_lab.speech.experiment.report import tell_story
from ferero_lab.speech.experiment.speech_setup import start_key
from ferero_lab.speech.recogniser import SIZES, ConformerSize

SETTINGS = Settings(mode="quick")
PLAN = replace(read_plan(SETTINGS), mode="ours", corpus="sentences", seeds=2, tuning=15, rates=(1e-4, 2e-4))


def _measured(en: float, zh: float, losses: tuple[float, float, float]) -> dict[str, Any]:
    return {
        "losses": dict(zip(("cpc", "zh", "en"), losses, strict=True)),
        "standard_errors": {"cpc": 0.01, "zh": 0.03, "en": 0.04},
        "en": {"error": en, "standard_error": 0.6, "characters": en / 3},
        "zh": {"error": zh, "standard_error": 0.8, "characters": zh},
        "average": (en + zh) / 2,
        "gap": abs(en - zh),
    }


def _run(method: str, seed: int, en: float, zh: float, losses: tuple[float, float, float], **more: Any) -> Found:
    constraints = 2 if more.get("levels") else 0
    course = {
        "steps": [0, 10],
        "held_out": [[3.0, 1.5, 1.0], list(losses)],
        "training": [[3.0, 1.5, 1.0]] * 2,
        "weights": [[1.0, 1.0, 1.0]] * 2,
        "multipliers": [[0.1] * constraints] * 2,
        "kept": 10,
    }
    measures = {"dev": _measured(en, zh, losses), "test": _measured(en, zh, losses)}
    one = {"method": method, "seed": seed, "rate": 1e-4, "steps": 10, "levels": None, "course": course, "seconds": 1.0}
    return {**one, **measures, **more}


def _start(seed: int) -> Found:
    facts = {
        "parameters": {"encoder": 50_000_000, "all": 58_000_000},
        "corpus": "LibriSpeech + AISHELL",
        "sizes": {language: {"train": 30, "dev": 5, "test": 6} for language in ("zh", "en")},
        "hours": {"zh": 0.75, "en": 1.25},
        "symbols": {"zh": 900, "en": 28},
        "skipped": {"audio unreadable": 2},
    }
    return {**_run("start", seed, 40.0, 30.0, (3.0, 1.5, 1.0)), **facts}


def _found() -> dict[str, Found]:
    """Two seeds: FERERO's average error is 1 and 3 points lower, and its constraints hold but for 0.01 and 0.015."""
    levels = [{"cpc": 2.25, "gap": 0.25}, {"cpc": 2.0, "gap": 0.5}]
    ours = [
        _run("ferero", 0, 29.0, 27.0, (2.26, 1.25, 1.0), levels=levels[0]),
        _run("ferero", 1, 26.0, 24.0, (1.9, 1.515, 1.0), levels=levels[1]),
    ]
    swept = [_run("ferero", 0, 30.0, 28.0, (2.0, 1.5 + off, 1.0), levels={"cpc": 2.5, "gap": 0.5}) for off in (0.03,)]
    swept.append(_run("ferero", 0, 30.0, 28.0, (2.0, 1.0, 1.01), levels={"cpc": 2.5, "gap": 0.0}))
    return {
        start_key(0): _start(0),
        start_key(1): _start(1),
        "ls-rate-0": _run("ls", 0, 31.0, 27.0, (2.5, 1.4, 1.0)),
        "ls-rate-1": _run("ls", 0, 35.0, 33.0, (2.6, 1.4, 1.0), rate=2e-4),
        "ls-1": _run("ls", 1, 30.0, 26.0, (2.4, 1.6, 1.0)),
        "ferero-rate-0": ours[0],
        "ferero-1": ours[1],
        "sweep-0": swept[0],
        "sweep-1": swept[1],
        "timing": {
            "rounds": 4,
            "utterances": {"zh": 8, "en": 9},
            "frames": {"zh": 5_000, "en": 7_000},
            "ratio": 1.04,
            "ratios": [1.04] * 4,
            "seconds": {"weighted sum": 0.1, "ferero": 0.104},
        },
        "sentences": _heard(),
    }


def _heard() -> Found:
    rates = {key: _measured(29.0, 27.0, (1.0, 1.0, 1.0))[key] for key in ("zh", "en", "average", "gap")}
    sentence = {"language": "en", "name": "a-1", "speaker": "a", "truth": "AB C", "heard": {"start": "", "ls": "AB"}}
    picture = {
        "language": "en",
        "name": "a-2",
        "truth": "AB C",
        "heard": "AB",
        "column_seconds": 0.02,
        "spectrogram": [[0.0, 1.0, 2.0]] * 4,
        "frame_seconds": 0.04,
        "symbols": ["A", "B", " ", "C"],
        "frames": [[1, 1], [2, 3], [4, 4], [6, 6]],
        "probabilities": [[0.5] * 8] * 4,
        "score": -1.0,
    }
    return {
        "listener": "ls",
        "rates": {"greedy": rates, "beam": rates},
        "sentences": [{**sentence, "beam": "AB C"}],
        "pictures": [picture],
    }


def _section(story: Story, title: str) -> Section:
    return next(section for section in story.sections if section.title == title)


def _table(story: Story, title: str) -> Table:
    return next(table for section in story.sections for table in section.tables if table.title == title)


def test_the_papers_rows_stand_beside_ours() -> None:
    story = tell_story(PLAN, _found())
    table = _table(story, "Test set, beside the paper's table")
    rows = {row[0]: list(row[1:]) for row in table.rows}
    assert rows["Komatsu et al. (the paper)"] == ["7.11", "-", "-", "-", "-"]
    assert rows["FERERO (the paper)"] == ["5.4", "4.9", "5.1", "0.5", "-"]
    assert rows["linear scalarization (ours)"][:4] == [
        "30.50 ± 0.50 (0.60)",
        "26.50 ± 0.50 (0.80)",
        "28.50 ± 0.50 (0.50)",
        "4.00 ± 0.00 (1.00)",
    ]
    assert "1138 hours" in table.note
    assert "ours are 2.00 hours, 569 times less" in table.note


def test_differences_to_linear_scalarization_are_taken_seed_by_seed() -> None:
    versus = tell_story(PLAN, _found()).measures["against_ls"]["test"]
    assert versus["average"] == {"by_seed": [-1.0, -3.0], "mean": -2.0, "standard_error_seeds": pytest.approx(1.0)}
    assert versus["gap"]["mean"] == 2.0
    assert versus["their_gap"]["mean"] == 4.0


def test_violations_are_of_each_seeds_own_levels() -> None:
    story = tell_story(PLAN, _found())
    ours, theirs = (story.measures["constraints"][name] for name in ("ferero", "ls"))
    assert [row["dev"]["violations"]["cpc"] for row in ours] == [pytest.approx(0.01), 0.0]
    assert [row["dev"]["violations"]["gap"] for row in ours] == [0.0, pytest.approx(0.015)]
    assert [row["dev"]["violations"]["cpc"] for row in theirs] == [pytest.approx(0.25), pytest.approx(0.4)]
    assert ours[0]["test"]["standard_errors"] == {"cpc": 0.01, "gap": pytest.approx(0.05)}
    assert story.measures["bars"]["violation_dev"] == {"value": pytest.approx(0.015), "bar": 0.02, "is_met": True}
    rows = _table(story, "Losses and levels").rows
    assert list(rows[2]) == [
        "FERERO", "0", "10", "2.250", "2.260", "0.010", "0.010 ± 0.010", "0.250", "0.250", "0.000", "0.000 ± 0.050",
        "1 of 1", "0.000",
    ]  # fmt: skip


def test_how_steadily_levels_were_held_is_told_of_the_last_third_of_the_steps() -> None:
    found = _found()
    course = found["ferero-rate-0"]["course"]
    course["steps"] = [0, 6, 7, 8, 9, 10]
    gaps = (0.25, 0.25, 0.25, 0.35, 0.05, 0.26)  # the level is 0.25; step 6 is before the last third
    course["held_out"] = [[2.0, 1.0 + gap, 1.0] for gap in gaps]
    course["held_out"][-1][0] = 2.28  # its gap holds, its cpc does not
    found["sweep-0"]["course"] = course | {"held_out": [[2.0, 1.5 + gap, 1.0] for gap in gaps]}
    story = tell_story(PLAN, found)
    late = story.measures["constraints"]["ferero"][0]["late"]
    assert late == {"looks": 4, "held": 1, "off": pytest.approx(0.055)}
    assert list(_table(story, "Losses and levels").rows[2])[-2:] == ["1 of 4", "0.055"]
    assert list(_table(story, "Swept gap").rows[1])[-2:] == ["0 of 4", "0.255"]


@pytest.mark.parametrize(
    ("en", "zh", "is_met"),
    [
        pytest.param((30.9, 29.9), (26.9, 25.9), True, id="lower"),
        pytest.param((29.5, 31.0), (28.5, 27.0), True, id="within a standard error, smaller gap"),
        pytest.param((33.0, 31.0), (25.0, 27.0), False, id="equal, larger gap"),
        pytest.param((33.0, 32.0), (31.0, 30.0), False, id="clearly higher"),
    ],
)
def test_the_bar_on_the_average_error(en: tuple[float, float], zh: tuple[float, float], is_met: bool) -> None:
    found = _found()
    levels = {"cpc": 2.25, "gap": 0.25}
    found["ferero-rate-0"] = _run("ferero", 0, en[0], zh[0], (2.0, 1.25, 1.0), levels=levels)
    found["ferero-1"] = _run("ferero", 1, en[1], zh[1], (2.0, 1.25, 1.0), levels=levels)
    assert tell_story(PLAN, found).measures["bars"]["average_error"]["is_met"] is is_met


def test_a_single_utterance_has_no_standard_error() -> None:
    found = _found()
    for one in found.values():
        for data in ("dev", "test"):
            if data in one:
                one[data]["standard_errors"] = {"cpc": None, "zh": None, "en": None}
    assert "and by at most 0.015 on the test set" in tell_story(PLAN, found).lead


def test_one_seed_has_no_standard_error_over_seeds() -> None:
    found = {key: one for key, one in _found().items() if key not in {"pretrain-1", "ls-1", "ferero-1", "sweep-1"}}
    story = tell_story(PLAN, found)
    assert story.measures["against_ls"]["test"]["average"]["standard_error_seeds"] is None
    assert _table(story, "Dev set").rows[1][1] == "31.00 (0.60)"


def test_the_levels_are_drawn_where_the_first_seed_has_them() -> None:
    panels = _section(tell_story(PLAN, _found()), "Losses on the way").panels
    drawn = {panel.title: [level.y for level in panel.levels] for panel in panels if isinstance(panel, Lines)}
    assert drawn == {"CPC": [2.25], "Mandarin minus English": [0.25], "CTC, Mandarin": [], "CTC, English": []}
    gap = panels[1]
    assert isinstance(gap, Lines)
    assert list(gap.lines[1].y) == pytest.approx([0.5, 0.25])


def test_the_sweep_is_told_from_the_smallest_gap() -> None:
    story = tell_story(PLAN, _found())
    assert [row["asked"] for row in story.measures["sweep"]] == [0.0, 0.5]
    assert story.measures["bars"]["gap_follows"]["value"] == pytest.approx(0.03)
    panel = _section(story, "Other gaps").panels[0]
    assert isinstance(panel, Lines)
    assert panel.lines[0].dashed
    assert list(panel.lines[0].x) == list(panel.lines[0].y) == [0.0, 0.5]
    assert list(panel.lines[1].y) == pytest.approx([-0.01, 0.53])


def test_the_search_names_the_step_that_was_chosen() -> None:
    rows = _table(tell_story(PLAN, _found()), "A small search").rows
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("linear scalarization", "0.0001", "yes"),
        ("linear scalarization", "0.0002", ""),
        ("FERERO", "0.0001", "yes"),
    ]


def test_english_words_are_marked_at_their_first_letters() -> None:
    spectrogram, alignment = _section(tell_story(PLAN, _found()), "A sentence in English").panels
    assert isinstance(spectrogram, Heat)
    assert isinstance(alignment, Heat)
    assert [(mark.x, mark.label) for mark in spectrogram.marks] == [
        (pytest.approx(0.04), "AB"),
        (pytest.approx(0.24), "C"),
    ]
    assert alignment.rows == ["A", "B", "·", "C"]
    assert [mark.row for mark in alignment.marks] == [0, 1, 1, 2, 3]
    assert alignment.top_down


def test_what_nobody_heard_is_said_so() -> None:
    rows = _table(tell_story(PLAN, _found()), "English").rows
    assert [list(row) for row in rows] == [
        ["truth (a-1)", "AB C"],
        ["pre-trained", "(nothing)"],
        ["linear scalarization", "AB"],
        ["linear scalarization, beam", "AB C"],
    ]


def test_the_lead_says_what_was_trained_and_what_came_out() -> None:
    lead = tell_story(PLAN, _found()).lead
    assert "58.0 million parameters" in lead
    assert "2.00 hours of speech" in lead
    assert "2 seeds" in lead
    assert "-2.00 ± 1.00 (standard error over seeds) points" in lead
    assert "at most 0.015 on the dev set, which drives them (bar 0.02, met)" in lead
    assert "of all looks at the dev set in the last third of the steps, 2 of 2 had both constraints within 0.02" in lead
    assert "1.04 times" in lead


def test_nothing_found_is_said_so() -> None:
    story = tell_story(PLAN, {})
    assert story.lead == "Nothing was trained yet."
    assert story.sections == []


@pytest.mark.parametrize("key", sorted(_found()))
def test_any_part_may_be_missing_or_alone(key: str) -> None:
    found = _found()
    for some in ({name: one for name, one in found.items() if name != key}, {key: found[key]}):
        story = tell_story(PLAN, some)
        assert story.sections or key in {"ls-1", "ferero-1"}
        json.dumps(story.measures, allow_nan=False)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[SpeechPlan]:
    """Everything, with three speakers, a conformer of one block, and one pass each."""
    size = ConformerSize(blocks=1, width=16, heads=2, kernel=7, inner=16, channels=4)
    monkeypatch.setitem(SIZES, "tiny", size)
    monkeypatch.setattr(sets, "words_like", lambda: words_like(speakers=3, takes=1))
    sets._load.cache_clear()
    sets._corpus.cache_clear()
    plan = read_plan(SETTINGS)
    yield replace(plan, size="tiny", pretraining=1, seeds=2, rates=(1e-3, 2e-3), every=1, shifts=(-0.1, 0.1))
    sets._load.cache_clear()
    sets._corpus.cache_clear()


@pytest.mark.slow
def test_the_parts_give_what_the_report_reads(tmp_path: Path, tiny: SpeechPlan) -> None:
    found: dict[str, Found] = {}
    for part in make_parts(tiny):
        folder = tmp_path / part.key
        folder.mkdir()
        read = {key: found[key] for key in part.after}
        given = part.run(Context(SETTINGS, folder, lambda *_: None, read))
        found[part.key] = json.loads(to_json(given))
    story = tell_story(tiny, found)
    assert "sounds that nobody said" in story.lead
    assert "characters_unseen" in story.measures["bars"]
    titles = [section.title for section in story.sections]
    assert titles == [
        "Error rates", "The constraints", "Losses on the way", "Weights and multipliers", "Other gaps",
        "The step of each method", "Time of a step", "What is heard", "A sentence in Mandarin", "A sentence in English",
        "Recordings and pre-training",
    ]  # fmt: skip
    page = story_files(story, {})["report.html"].decode()
    assert all(f"{title}</h2>" in page for title in titles)


def test_errors_of_syllables_are_not_called_errors_of_characters() -> None:
    for unit, name in (("characters", "Mandarin CER"), ("syllables", "Mandarin SER"), ("toneless", "Mandarin SER")):
        story = tell_story(replace(PLAN, unit=unit), _found())
        headers = [cell for section in story.sections for table in section.tables for cell in table.header]
        assert {cell for cell in headers if cell.startswith("Mandarin ")} == {name}
        assert f"{name} " in story.lead
