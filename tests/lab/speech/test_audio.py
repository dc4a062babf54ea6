"""Recordings become samples at one rate in one channel, or are refused by name."""

import io
import pickle
import re
import sys
from functools import partial

import numpy as np
import pytest
import torch

from ferero.errors import InputError, MissingExtraError
from ferero_lab.speech.corpora import RATE, AudioError, Utterance, waveform, words_like
from ferero_lab.speech.corpora.audio import wav_bytes

soundfile = pytest.importorskip("soundfile")


def utterance(data):
    return Utterance("call-7", "en", "test", "me", "A", (), partial(bytes, data))


def encoded(samples, rate=RATE, container="WAV", subtype="FLOAT"):
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=container, subtype=subtype)
    return file.getvalue()


def tone(hertz, rate, seconds=1.0):
    return 0.5 * np.sin(2 * np.pi * hertz * np.arange(round(rate * seconds)) / rate)


def test_samples_come_back_as_they_were_written():
    samples = tone(440, RATE)
    found = waveform(utterance(encoded(samples)))
    assert found.dtype == torch.float32
    assert torch.equal(found, torch.from_numpy(samples.astype(np.float32)))


@pytest.mark.parametrize(("container", "subtype"), [("WAV", "PCM_16"), ("FLAC", "PCM_16"), ("OGG", "OPUS")])
def test_the_formats_of_the_corpora_are_read(container, subtype):
    found = waveform(utterance(encoded(tone(440, RATE), container=container, subtype=subtype)))
    assert found.shape == (RATE,)
    assert found.std() == pytest.approx(0.5 / np.sqrt(2), rel=0.02)


def test_channels_are_averaged():
    left, right = tone(300, RATE), tone(500, RATE)
    found = waveform(utterance(encoded(np.stack([left, right], axis=1))))
    torch.testing.assert_close(found, torch.from_numpy((left + right) / 2).float())


@pytest.mark.parametrize("rate", [8_000, 22_050, 44_100, 48_000])
def test_another_rate_is_resampled_to_the_same_tone(rate):
    found = waveform(utterance(encoded(tone(440, rate), rate)))
    expected = torch.from_numpy(tone(440, RATE)).float()
    assert found.shape == expected.shape
    inner = slice(500, -500)  # a filter rings where the sound begins and ends
    torch.testing.assert_close(found[inner], expected[inner], atol=2e-3, rtol=0)


def test_what_a_wav_holds_is_given_back_within_its_16_bits():
    samples = tone(440, RATE)
    found = waveform(utterance(wav_bytes(samples))).numpy()
    assert np.abs(found - samples).max() <= 1 / 2**15


NAN, INFINITE, HUGE = (np.array([0.1, bad, 0.2]) for bad in (np.nan, -np.inf, 1e30))
WAV = wav_bytes(np.zeros(100))
BAD = "call-7: expected samples between -1 and 1, found NaN, infinite or huge ones."


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "call-7: expected an audio file, found an empty one."),
        (
            b"not audio",
            "call-7: expected audio that soundfile reads, found 9 bytes that it does not (Format not recognised).",
        ),
        (WAV[:-20], "call-7: expected a whole WAV file of 244 bytes, found the first 224."),
        (wav_bytes(np.zeros(0)), "call-7: expected sound, found an audio file with no samples."),
        (encoded(NAN), BAD),
        (encoded(INFINITE), BAD),
        (encoded(HUGE), BAD),
    ],
    ids=["empty", "no audio", "cut off", "no samples", "NaN", "infinite", "huge"],
)
def test_bad_audio_is_named(data, message):
    with pytest.raises(AudioError, match=f"^{re.escape(message)}$"):
        waveform(utterance(data))


@pytest.mark.parametrize(("container", "subtype"), [("FLAC", "PCM_16"), ("OGG", "OPUS")])
def test_half_a_compressed_file_is_refused(container, subtype):
    data = encoded(np.random.default_rng(0).uniform(-0.5, 0.5, RATE), container=container, subtype=subtype)
    with pytest.raises(AudioError, match=r"^call-7: expected "):
        waveform(utterance(data[: len(data) // 2]))


def test_a_wav_whose_writer_did_not_know_its_length_is_read():
    data = bytearray(WAV)
    data[4:8] = data[40:44] = b"\xff\xff\xff\xff"
    assert waveform(utterance(bytes(data))).shape == (100,)


def test_a_recording_that_is_gone_is_named(tmp_path):
    gone = Utterance("call-7", "en", "test", "me", "A", (), (tmp_path / "gone.wav").read_bytes)
    expected = r"^call-7: expected an audio file, found none to read \(No such file or directory\)\.$"
    with pytest.raises(AudioError, match=expected):
        waveform(gone)


def test_without_soundfile_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    message = 'speech: soundfile, which reads the recordings, is not installed; pip install "ferero-lab[speech]".'
    with pytest.raises(MissingExtraError, match=f"^{re.escape(message)}$"):
        waveform(utterance(WAV))


class TestWordsLike:
    def test_every_speaker_says_every_word_and_is_in_one_split(self):
        corpus = words_like(speakers=8, takes=2)
        assert len(corpus.utterances) == 8 * 12 * 2 == len({each.name for each in corpus.utterances})
        assert "synthetic" in corpus.name
        speakers = {split: {each.speaker for each in corpus.of(split=split)} for split in ("train", "dev", "test")}
        assert {split: len(names) for split, names in speakers.items()} == {"train": 6, "dev": 1, "test": 1}
        assert len(set.union(*speakers.values())) == 8
        texts = {(each.language, each.text) for each in corpus.utterances}
        for split in speakers:
            assert {(each.language, each.text) for each in corpus.of(split=split)} == texts
        assert {language: sum(pair[0] == language for pair in texts) for language in ("en", "zh")} == {"en": 6, "zh": 6}

    def test_a_clip_is_short_and_has_silence_around_it(self):
        for each in words_like(speakers=3, takes=1).utterances:
            samples = waveform(each)
            assert 0.45 < len(samples) / RATE < 1
            edge, loud = samples[: RATE // 20].std(), samples.std()
            assert edge < 0.1 * loud
            assert samples[-RATE // 20 :].std() < 0.1 * loud
            assert samples.abs().max() < 0.5
            assert not each.syllables or len(each.syllables) == len(each.text)

    def test_the_seed_decides(self):
        one, same, other = (words_like(seed, speakers=3, takes=1).utterances[0].read() for seed in (1, 1, 2))
        assert one == same
        assert one != other

    def test_a_symbol_sounds_alike_by_all_speakers_and_unlike_the_others(self):
        """The spectrum of a whole word, whoever says it, is nearest to the mean of that word by the other speakers."""
        corpus = words_like(speakers=8, takes=1)
        spectra, words, speakers = [], [], []
        for each in corpus.utterances:
            power = torch.stft(waveform(each), 512, window=torch.hann_window(512), return_complex=True).abs().square()
            # Bands of 125 Hz, in the first and second half of the clip: wider than a harmonic, narrower than a formant.
            halves = [half.mean(1)[:128].reshape(32, 4).sum(1) for half in power.chunk(2, dim=1)]
            spectra.append(torch.cat(halves).add(1e-4).log())
            words.append(each.text)
            speakers.append(each.speaker)
        table = torch.stack([spectrum - spectrum.mean() for spectrum in spectra])
        right = 0
        for i, word in enumerate(words):
            means = {
                w: table[[j for j in range(len(words)) if words[j] == w and speakers[j] != speakers[i]]].mean(0)
                for w in set(words)
            }
            right += min(means, key=lambda w: (means[w] - table[i]).norm()) == word
        assert right / len(words) > 0.9

    def test_an_utterance_can_be_sent_to_another_process(self):
        each = words_like(speakers=3, takes=1).utterances[5]
        assert pickle.loads(pickle.dumps(each)).read() == each.read()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"speakers": 2}, r"^speakers: expected at least 3, one for each split, found 2\.$"),
            ({"takes": 0}, r"^takes: expected at least 1, found 0\.$"),
        ],
    )
    def test_too_few_are_refused(self, options, message):
        with pytest.raises(InputError, match=message):
            words_like(**options)
