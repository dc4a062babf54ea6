"""Losses and error rates of a split, against decoders whose errors are known."""

import json

import pytest
import torch
from tests.lab.speech.tiny import CPU, tiny_model, tiny_sets

from ferero_lab.report import to_json
from ferero_lab.speech.experiment.losses import NAMES, held_out_sums
from ferero_lab.speech.experiment.speech_setup import measure, transcripts

pytest.importorskip("transformers")
pytest.importorskip("soundfile")
pytest.importorskip("jiwer")


@pytest.fixture(scope="module")
def sets():
    return tiny_sets()


@pytest.fixture(scope="module")
def model(sets):
    return tiny_model(sets)


def truths_in_order(sets, split, change=lambda language, symbols: symbols):
    """A decoder that knows the truth of the batches as they are met: Mandarin first, then English."""
    left = []
    for language, several in sets.held_out(split, CPU).items():
        for batch in several:
            targets = [sets.prepared[language, split].targets[i].tolist() for i in batch.index.tolist()]
            left.append([change(language, symbols) for symbols in targets])
    return lambda *_: left.pop(0)


def test_a_perfect_decoder_makes_no_error(sets, model):
    found = measure(model, sets, "dev", CPU, truths_in_order(sets, "dev"))
    assert (found["average"], found["gap"]) == (0, 0)
    for language in ("zh", "en"):
        assert found[language] == {"error": 0, "standard_error": 0, "characters": 0}


def test_transcripts_come_in_the_order_of_the_set(sets, model):
    for language in ("zh", "en"):
        several = sets.held_out("test", CPU)[language]
        decoder = truths_in_order(sets, "test")
        if language == "en":
            decoder()
        heard = transcripts(model, sets, language, "test", several, decoder)
        assert heard == [each.text for each in sets.prepared[language, "test"].utterances]
        assert several[0].index.tolist() != sorted(several[0].index.tolist())


def test_errors_are_counted_in_characters_of_mandarin_and_words_of_english(sets, model):
    # The last symbol is lost: one of two characters, and every word, of which 3 to 4 letters are left.
    decoder = truths_in_order(sets, "dev", lambda _, symbols: symbols[:-1])
    found = measure(model, sets, "dev", CPU, decoder)
    assert found["zh"]["error"] == pytest.approx(50)
    assert found["en"]["error"] == pytest.approx(100)
    letters = sum(len(each.text) for each in sets.prepared["en", "dev"].utterances)
    assert found["en"]["characters"] == pytest.approx(100 * 6 / letters)
    assert found["average"] == pytest.approx(75)
    assert found["gap"] == pytest.approx(50)


def test_the_gap_has_no_sign(sets, model):
    decoder = truths_in_order(sets, "dev", lambda language, symbols: symbols[:-1] if language == "zh" else symbols)
    assert measure(model, sets, "dev", CPU, decoder)["gap"] == pytest.approx(50)


def test_losses_are_the_held_out_ones_and_the_mode_is_kept(sets, model):
    for mode in (True, False):
        model.train(mode)
        found = measure(model, sets, "test", CPU)
        assert model.training is mode
        sums = held_out_sums(model, sets.held_out("test", CPU))
        assert found["losses"] == sums.means()
        assert found["standard_errors"] == {name: sums.standard_error(name) for name in NAMES}
        assert all(0 < found["standard_errors"][name] < found["losses"][name] for name in NAMES)


def test_it_is_plain_data(sets, model):
    found = measure(model, sets, "dev", CPU)
    assert json.loads(to_json(found)) == found
    assert set(found) == {"losses", "standard_errors", "zh", "en", "average", "gap"}


def test_a_random_model_is_measured_without_trouble(sets, model):
    found = measure(model, sets, "dev", CPU)
    assert torch.tensor(list(found["losses"].values())).isfinite().all()
    assert found["zh"]["error"] > 25
