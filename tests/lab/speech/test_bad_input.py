"""Recordings that are of no use, from the files on disk to a training step: named, counted, and never a NaN."""

import io
import re
import tarfile

import numpy as np
import pytest
import torch
from tests.lab.speech.tiny import CPU, tiny_model, tiny_schedule

from ferero.errors import InputError
from ferero_lab.experiments.experiment import Settings
from ferero_lab.speech.corpora import words_like
from ferero_lab.speech.corpora.alphabet import OTHER, OUTSIDE
from ferero_lab.speech.corpora.corpus import EMPTY, NO_RECORDING, NO_TRANSCRIPT
from ferero_lab.speech.experiment.plan import Levels, method_named, preference_of, read_plan
from ferero_lab.speech.experiment.sets import check_there, load_sets
from ferero_lab.speech.experiment.speech_setup import measure
from ferero_lab.speech.experiment.train import SpeechTraining
from ferero_lab.speech.prepare import TOO_LONG, TOO_SHORT, UNREADABLE

soundfile = pytest.importorskip("soundfile")
pytest.importorskip("transformers")
pytest.importorskip("jiwer")

PAIRS = {"en": "librispeech-4spk", "zh": "aishell-2spk"}
HEADER = "utt\tfile\tspeaker\tlang\tsplit\tseconds\ttext\tpinyin"


def wav(samples):
    file = io.BytesIO()
    soundfile.write(file, samples, 16_000, format="WAV")
    return file.getvalue()


NOISE = wav(np.random.default_rng(0).normal(0, 0.1, 9600))
SILENCE = wav(np.zeros(9600))
FLAC = io.BytesIO()
soundfile.write(FLAC, np.random.default_rng(1).normal(0, 0.1, 9600), 16_000, format="FLAC")


WORDS = words_like(speakers=3, takes=1).utterances


def good(splits=("train", "dev", "test"), languages=("zh", "en"), per_split=6):
    """Rows of (language, name, split, text, bytes)."""
    rows, kept = [], {}
    for each in WORDS:
        place = each.language, each.split
        if each.split in splits and each.language in languages and kept.get(place, 0) < per_split:
            kept[place] = kept.get(place, 0) + 1
            rows.append((each.language, each.name, each.split, each.text, each.read()))
    return rows


def write(folder, rows, unlisted=()):
    """The two pairs of files; bytes of None for a recording that is not there."""
    for language, name in PAIRS.items():
        here = [row for row in rows if row[0] == language]
        with tarfile.open(folder / f"{name}.tar", "w") as archive:
            for file, data in [(f"{row[1]}.wav", row[4]) for row in here] + list(unlisted):
                if data is not None:
                    member = tarfile.TarInfo(file)
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))
        lines = [f"{utt}\t{utt}.wav\ts\t{language}\t{split}\t0.6\t{text}\t" for _, utt, split, text, _ in here]
        (folder / f"{name}.tsv").write_text("\n".join([HEADER, *lines]) + "\n", encoding="utf-8")
    return folder


def sets_of(folder, cache=None):
    settings = Settings(data=folder)
    return load_sets(read_plan(settings), settings, cache)


BAD = [
    ("en", "en-unwritten", "train", " ", NOISE),
    ("en", "en-empty", "train", "SUN", b""),
    ("zh", "zh-empty", "dev", "大山", b""),
    ("en", "en-noise", "train", "SUN", b"RIFF, but nothing that a WAV file has after it"),
    ("zh", "zh-cut", "train", "大山", FLAC.getvalue()[:200]),
    ("zh", "zh-nan", "dev", "大山", b"\x00" * 5000),
    ("en", "en-brief", "train", "SUN", wav(np.ones(300) / 9)),
    ("en", "en-long", "train", "REST AND TURN " * 9, NOISE),
    ("en", "en-twin", "dev", "S" * 9, NOISE),
    ("zh", "zh-long", "test", "大山" * 60, NOISE),
    ("en", "en-digits", "train", "ROUTE 66", NOISE),
    ("en", "en-foreign", "test", "NAÏVE", NOISE),
    ("zh", "zh-gone", "train", "大山", None),
]
REASONS = {
    NO_TRANSCRIPT: {"en-unwritten", "unlisted.wav"},
    EMPTY: {"en-empty", "zh-empty"},
    UNREADABLE: {"en-noise", "zh-cut", "zh-nan"},
    TOO_SHORT: {"en-brief"},
    TOO_LONG: {"en-long", "en-twin", "zh-long"},
    OUTSIDE: {"en-digits", "en-foreign"},
    NO_RECORDING: {"zh-gone"},
}
ODD = [
    ("zh", "zh-silent", "train", "大山", SILENCE),
    ("en", "en-silent", "dev", "SUN", SILENCE),
    ("zh", "zh-unseen", "dev", "龘山", NOISE),
    ("zh", "zh-rare", "train", "鱻雨", NOISE),
    ("en", "en-lower", "train", "sun — nest!", NOISE),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("corpus"), good() + BAD + ODD, [("unlisted.wav", NOISE)])


@pytest.mark.parametrize("cached", [False, True])
def test_what_is_of_no_use_is_named_by_its_reason(folder, cached, tmp_path):
    for _ in range(2):
        sets = sets_of(folder, tmp_path / "features" if cached else None)
        assert {reason: set(names) for reason, names in sets.skipped.names.items()} == REASONS
        assert len(sets.skipped) == len(BAD) + len(PAIRS)  # in each tar there is one that its listing does not name


def test_what_is_odd_is_kept(folder):
    sets = sets_of(folder)
    kept = {each.name: key for key, prepared in sets.prepared.items() for each in prepared.utterances}
    assert {name for _, name, *_ in good() + ODD} == set(kept)
    other = 1 + sets.alphabets["zh"].symbols.index(OTHER)
    for name in ("zh-unseen", "zh-rare"):
        prepared = sets.prepared[kept[name]]
        target = prepared.targets[[each.name for each in prepared.utterances].index(name)]
        assert target[0] == other
        assert target[1] != other
    silent = sets.prepared["zh", "train"]
    index = [each.name for each in silent.utterances].index("zh-silent")
    assert not silent.store[index].any()


@pytest.mark.parametrize("name", ["ferero", "mgda"])
def test_training_on_the_rest_is_finite(folder, name):
    sets = sets_of(folder)
    preference = preference_of(name, Levels(3.0, 0.2))
    training = SpeechTraining(
        tiny_model(sets),
        sets,
        preference,
        method_named(name),
        tiny_schedule(steps=3, every=1, seconds=100.0),
        seed=0,
        device=CPU,
    )
    trajectory = training.run()
    assert torch.tensor(trajectory.held_out).isfinite().all()
    assert torch.tensor(trajectory.training[1:]).isfinite().all()
    assert all(each.isfinite().all() for each in training.model.parameters())
    for split in ("dev", "test"):
        found = measure(training.model, sets, split, CPU)
        assert torch.tensor([*found["losses"].values(), *found["standard_errors"].values()]).isfinite().all()


def without(language, split):
    return [row for row in good(per_split=4) if (row[0], row[2]) != (language, split)]


@pytest.mark.parametrize("split", ["train", "dev", "test"])
@pytest.mark.parametrize("language", ["zh", "en"])
def test_a_language_without_recordings_in_a_split_is_refused_before_anything_is_run(language, split, tmp_path):
    settings = Settings(data=write(tmp_path, without(language, split)))
    message = (
        f"librispeech-4spk + aishell-2spk: expected recordings in {language} for {split}, found none to use; "
        "left out of all: none. Mend the corpus, or name another folder with --data FOLDER or FERERO_DATA."
    )
    for call in (lambda: check_there(read_plan(settings), settings), lambda: sets_of(tmp_path)):
        with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
            call()


def test_a_split_in_which_nothing_can_be_used_is_refused_with_the_reasons(tmp_path):
    rows = [*without("en", "dev"), ("en", "a", "dev", "SUN", b"damaged"), ("en", "b", "dev", "99", NOISE)]
    settings = Settings(data=write(tmp_path, rows))
    check_there(read_plan(settings), settings)
    with pytest.raises(InputError, match=r"expected recordings in en for dev, found none to use; left out of all: "):
        sets_of(tmp_path)
    with pytest.raises(InputError, match=f"1 with {UNREADABLE}, 1 with {OUTSIDE}"):
        sets_of(tmp_path)


def test_files_without_a_single_recording_are_refused(tmp_path):
    with pytest.raises(InputError, match="expected recordings in zh for train, found none to use"):
        sets_of(write(tmp_path, []))


def test_a_split_with_one_utterance_is_enough(tmp_path):
    rows = good(splits=("train",)) + good(splits=("dev", "test"), per_split=1)
    sets = sets_of(write(tmp_path, rows))
    assert sets.sizes()["zh"] == {"train": 6, "dev": 1, "test": 1}
    found = measure(tiny_model(sets), sets, "dev", CPU)
    assert found["standard_errors"]["zh"] is None
    assert found["zh"]["standard_error"] is None
    assert found["losses"]["zh"] > 0


def test_one_utterance_to_train_on_is_enough(tmp_path):
    rows = good(splits=("dev", "test"), per_split=1)
    rows += [("zh", "z", "train", "大大", NOISE), ("en", "e", "train", "SUN", NOISE)]
    sets = sets_of(write(tmp_path, rows))
    preference, schedule = preference_of("ls", None), tiny_schedule(steps=2)
    training = SpeechTraining(tiny_model(sets), sets, preference, method_named("ls"), schedule, seed=0, device=CPU)
    assert torch.tensor(training.run().held_out).isfinite().all()
