"""Features kept on disk, and what cannot be prepared."""

import json

import numpy as np
import pytest
import torch

from ferero.errors import InputError
from ferero_lab.speech.corpora.alphabet import OTHER, Alphabet
from ferero_lab.speech.corpora.audio import wav_bytes
from ferero_lab.speech.corpora.corpus import Utterance
from ferero_lab.speech.ctc import frames_needed
from ferero_lab.speech.feature_store import digest, stored
from ferero_lab.speech.features import log_mel
from ferero_lab.speech.prepare import prepare

pytest.importorskip("soundfile")
LETTERS = {"en": Alphabet.letters()}


def parts():
    generator = torch.Generator().manual_seed(0)
    yield "a", torch.randn(7, 4, generator=generator)
    yield "b", "too quiet"
    yield "c", torch.randn(3, 4, generator=generator)


def never():
    raise AssertionError("made again")


def sound(name, text="AB", seconds=1.0, seed=0, language="en", data=None):
    samples = 0.1 * np.random.default_rng(seed).standard_normal(int(16000 * seconds))
    content = wav_bytes(samples) if data is None else data
    return Utterance(name, language, "train", "me", text, (), lambda: content)


def test_a_store_gives_back_what_was_put_in(tmp_path):
    expected = [made for _, made in parts() if not isinstance(made, str)]
    for cache in (None, tmp_path / "deep" / "cache"):
        store = stored(cache, "key", 4, parts)
        assert store.names == ("a", "c")
        assert store.lengths.tolist() == [7, 3]
        assert store.skipped.names == {"too quiet": ("b",)}
        for index, features in enumerate(expected):
            assert store[index].dtype == torch.float32
            torch.testing.assert_close(store[index], features, atol=2e-3, rtol=0)


def test_it_is_made_once(tmp_path):
    first = stored(tmp_path, "key", 4, parts)
    second = stored(tmp_path, "key", 4, never)
    assert torch.equal(first.values, second.values)
    assert first.skipped == second.skipped
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key.f16", "key.json"]


def test_an_empty_store_is_kept_too(tmp_path):
    assert len(stored(tmp_path, "key", 4, lambda: [("b", "too quiet")])) == 0
    assert stored(tmp_path, "key", 4, never).skipped.names == {"too quiet": ("b",)}


def _cut(folder):
    (folder / "key.f16").write_bytes((folder / "key.f16").read_bytes()[:-2])


def _flip(folder):
    content = bytearray((folder / "key.f16").read_bytes())
    content[5] ^= 1
    (folder / "key.f16").write_bytes(content)


def _no_values(folder):
    (folder / "key.f16").unlink()


def _no_json(folder):
    (folder / "key.json").write_text('{"lengths": ')


def _other_json(folder):
    (folder / "key.json").write_text(json.dumps([1, 2]))


@pytest.mark.parametrize("damage", [_cut, _flip, _no_values, _no_json, _other_json])
def test_a_damaged_cache_is_made_again(tmp_path, damage):
    whole = stored(tmp_path, "key", 4, parts).values.clone()
    damage(tmp_path)
    assert torch.equal(stored(tmp_path, "key", 4, parts).values, whole)
    assert torch.equal(stored(tmp_path, "key", 4, never).values, whole)


def test_a_run_that_stops_half_way_leaves_nothing(tmp_path):
    def stopped():
        yield "a", torch.zeros(3, 4)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stored(tmp_path, "key", 4, stopped)
    assert list(tmp_path.iterdir()) == []


def test_writing_into_the_features_does_not_change_the_file(tmp_path):
    store = stored(tmp_path, "key", 4, parts)
    before = (tmp_path / "key.f16").read_bytes()
    store.values.zero_()
    assert (tmp_path / "key.f16").read_bytes() == before


def test_a_subset_shares_the_values_until_it_is_made_compact():
    store = stored(None, "", 4, parts)
    last = store.subset([1])
    assert last.values is store.values
    assert torch.equal(last[0], store[1])
    alone = last.compact()
    assert alone.values.shape == (3, 4)
    assert torch.equal(alone[0], store[1])
    assert store.compact() is store


def test_the_digest_tells_where_a_part_ends():
    assert digest(["ab", "c"]) != digest(["a", "bc"])
    assert digest(["ab"]) == digest([b"ab"])


def test_the_features_are_those_of_the_waveform_and_are_made_once(tmp_path):
    calls = []
    utterances = [sound("a", seconds=0.5), sound("b", seconds=0.8, seed=1)]
    first = prepare(utterances, LETTERS, cache=tmp_path, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 2), (2, 2)]
    again = prepare(utterances, LETTERS, cache=tmp_path, progress=lambda *_: never())
    assert first.lengths.tolist() == again.lengths.tolist() == [50, 80]
    assert first.targets[0].tolist() == [3, 4]
    samples = np.round(0.1 * np.random.default_rng(0).standard_normal(8000) * 32768) / 32768
    torch.testing.assert_close(first.store[0], log_mel(torch.tensor(samples).float()), atol=0.02, rtol=0)


@pytest.mark.parametrize("change", [{"trimmed": True}, {"bins": 40}, {"audio": True}])
def test_another_setting_or_another_sound_makes_other_features(tmp_path, change):
    prepare([sound("a")], LETTERS, cache=tmp_path)
    audio = sound("a", seed=int(change.pop("audio", False)))
    prepare([audio], LETTERS, cache=tmp_path, **change)
    assert len(list(tmp_path.glob("*.f16"))) == 2


def test_what_cannot_be_used_is_left_out_and_named():
    def gone():
        raise FileNotFoundError(2, "gone")

    utterances = [
        sound("good"),
        sound("damaged", data=b"RIFF and no more"),
        sound("empty", data=b""),
        Utterance("gone", "en", "train", "me", "AB", (), gone),
        sound("click", seconds=0.02),
        sound("untold", text=" "),
        sound("digits", text="ROOM 7"),
        sound("hurried", text="A" * 13),
        sound("just so", text="A" * 13, seconds=1.0),
        sound("also good", text="AB" * 12),
    ]
    prepared = prepare(utterances, LETTERS, cache=None)
    assert [each.name for each in prepared.utterances] == ["good", "hurried", "just so", "also good"]
    prepared = prepare([sound("hurried", text="A" * 14), *utterances[:7]], LETTERS, cache=None)
    assert prepared.skipped.names == {
        "audio unreadable": ("damaged", "empty", "gone"),
        "audio too short for one frame": ("click",),
        "target longer than its input": ("hurried",),
        "no transcript": ("untold",),
        "characters outside the alphabet": ("digits",),
    }
    assert len(prepared) == 1
    assert sum(map(len, prepared.targets)) == 2


def test_an_open_alphabet_writes_other_for_what_it_lacks():
    alphabet = Alphabet(("中", OTHER), "zh", "characters")
    prepared = prepare([sound("a", text="中国", language="zh")], {"zh": alphabet}, cache=None)
    assert prepared.targets[0].tolist() == [1, 2]


def test_a_subset_keeps_features_targets_and_names_together():
    utterances = [sound(name, text=text, seed=seed) for seed, (name, text) in enumerate([("a", "A"), ("b", "BB")])]
    prepared = prepare(utterances, LETTERS, cache=None)
    swapped = prepared.subset([1, 0])
    assert [each.name for each in swapped.utterances] == list(swapped.store.names) == ["b", "a"]
    assert [target.tolist() for target in swapped.targets] == [[4, 4], [3]]
    assert torch.equal(swapped.store[0], prepared.store[1])


def test_one_name_twice_is_refused():
    with pytest.raises(InputError, match="utterances: expected names that differ, found 'a' more than once"):
        prepare([sound("a"), sound("a")], LETTERS, cache=None)


@pytest.mark.parametrize("target", [[1], [1, 1], [1, 2, 1], [2, 2, 2, 1]])
def test_ctc_is_finite_from_the_needed_frames_on(target):
    symbols = torch.tensor(target)
    frames = int(frames_needed(symbols[None], torch.tensor([len(target)])))
    for count, finite in ((frames, True), (frames - 1, False)):
        scores = torch.zeros(max(1, count), 1, 4).log_softmax(-1)
        loss = torch.nn.functional.ctc_loss(
            scores, symbols[None], torch.tensor([count]), torch.tensor([len(target)]), reduction="sum"
        )
        assert bool(loss.isfinite()) == finite
