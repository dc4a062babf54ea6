"""What `say_sentences` keeps for the report, with models that were never trained."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from ferero_lab.experiments.experiment import Context, Settings
from ferero_lab.speech.corpora import words_like
from ferero_lab.speech.experiment import sentences, sets
from ferero_lab.speech.experiment.plan import SpeechPlan, read_plan
from ferero_lab.speech.experiment.sentences import say_sentences
from ferero_lab.speech.experiment.speech_setup import SpeechSetup, keep_model, measure, start_key
from ferero_lab.speech.recogniser import SIZES, ConformerSize

SETTINGS = Settings(mode="quick")


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Iterator[SpeechPlan]:
    """On three speakers who say each word once, with a conformer of one block."""
    tiny = ConformerSize(blocks=1, width=16, heads=2, kernel=7, inner=16, channels=4)
    monkeypatch.setitem(SIZES, "tiny", tiny)
    monkeypatch.setattr(sets, "words_like", lambda: words_like(speakers=3, takes=1))
    _forget()
    yield replace(read_plan(SETTINGS), size="tiny")
    _forget()


def _forget() -> None:
    sets._load.cache_clear()
    sets._corpus.cache_clear()


def _context(tmp_path: Path, plan: SpeechPlan, *kept: str) -> Context:
    """A run's folder in which these parts have left a model, each with other weights and a lower error."""
    found = {key: {"levels": None, "dev": {"average": -float(seed)}} for seed, key in enumerate(kept)}
    context = Context(SETTINGS, tmp_path / "sentences", lambda *_: None, found)
    for seed, key in enumerate(kept):
        folder = context.folder_of(key)
        folder.mkdir(parents=True)
        keep_model(SpeechSetup.of(plan, context).fresh(seed), folder)
    return context


def test_three_sentences_a_language_are_heard_by_every_model(tmp_path: Path, plan: SpeechPlan) -> None:
    context = _context(tmp_path, plan, start_key(0), "ls-rate-0", "ferero-rate-0", "ferero-rate-1")
    found = say_sentences(plan, context)
    assert found["listener"] == "ferero"
    assert [each["language"] for each in found["sentences"]] == ["zh"] * 3 + ["en"] * 3
    prepared = SpeechSetup.of(plan, context).sets.prepared
    for each in found["sentences"]:
        assert list(each["heard"]) == ["start", "ls", "ferero"]
        said = {one.name: one.text for one in prepared[each["language"], "test"].utterances}
        assert said[each["name"]] == each["truth"]
    assert len({each["name"] for each in found["sentences"]}) == 6


def test_rates_are_those_of_the_whole_test_set(tmp_path: Path, plan: SpeechPlan) -> None:
    context = _context(tmp_path, plan, start_key(0), "ls-rate-0", "ferero-rate-0", "ferero-rate-1")
    found = say_sentences(plan, context)
    setup = SpeechSetup.of(plan, context)
    measured = measure(setup.kept(context.folder_of("ferero-rate-1")), setup.sets, "test", setup.device)
    assert found["rates"]["greedy"] == {key: measured[key] for key in ("zh", "en", "average", "gap")}
    assert set(found["rates"]) == {"greedy", "beam"}


def test_a_model_that_is_not_there_is_left_out(tmp_path: Path, plan: SpeechPlan) -> None:
    found = say_sentences(plan, _context(tmp_path, plan, start_key(0)))
    assert found["listener"] == "start"
    assert all(list(each["heard"]) == ["start"] for each in found["sentences"])


def test_without_any_model_there_is_nothing_to_tell(tmp_path: Path, plan: SpeechPlan) -> None:
    found = say_sentences(plan, _context(tmp_path, plan))
    assert found == {"listener": None, "rates": None, "sentences": [], "pictures": []}


def test_pictures_align_the_truth_and_stay_small(tmp_path: Path, plan: SpeechPlan) -> None:
    found = json.loads(json.dumps(say_sentences(plan, _context(tmp_path, plan, start_key(0)))))
    assert len(json.dumps(found)) < 300_000
    assert [picture["language"] for picture in found["pictures"]] == ["zh", "en"]
    for picture in found["pictures"]:
        assert "".join(picture["symbols"]) == picture["truth"]
        assert all(last < first for (_, last), (first, _) in pairwise(picture["frames"]))
        assert len(picture["probabilities"]) == len(picture["frames"]) == len(picture["truth"])
        assert all(0 <= p <= 1 for row in picture["probabilities"] for p in row)
        frames = len(picture["probabilities"][0])
        assert picture["frames"][-1][1] < frames
        seconds = len(picture["spectrogram"][0]) * picture["column_seconds"]
        assert seconds == pytest.approx(frames * picture["frame_seconds"], abs=0.04)


def test_a_long_spectrogram_is_thinned_by_means(
    tmp_path: Path, plan: SpeechPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sentences, "_COLUMNS", 20)
    context = _context(tmp_path, plan, start_key(0))
    picture = say_sentences(plan, context)["pictures"][0]
    prepared = SpeechSetup.of(plan, context).sets.prepared["zh", "test"]
    features = prepared.store[[each.name for each in prepared.utterances].index(picture["name"])].float()
    group = -(-len(features) // 20)
    assert group > 1
    assert picture["column_seconds"] == pytest.approx(group / 100)
    wanted = torch.stack([part.mean(dim=0) for part in features.split(group)], dim=1)
    assert torch.tensor(picture["spectrogram"]).shape == wanted.shape
    assert torch.allclose(torch.tensor(picture["spectrogram"]), wanted, atol=0.006)
