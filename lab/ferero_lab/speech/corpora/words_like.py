"""Words that nobody said: a stand-in for a bilingual corpus, for tests and for runs without data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ferero.errors import InputError
from ferero_lab.speech.corpora.audio import RATE, wav_bytes
from ferero_lab.speech.corpora.corpus import Corpus, Utterance

__all__ = ["words_like"]

_ENGLISH = ("SUN", "NUT", "NEST", "TUNE", "REST", "TURN")
_MANDARIN = {
    "大山": ("da4", "shan1"),
    "小山": ("xiao3", "shan1"),
    "大雨": ("da4", "yu3"),
    "小雨": ("xiao3", "yu3"),
    "春雨": ("chun1", "yu3"),
    "春风": ("chun1", "feng1"),
}
_SYMBOLS = tuple(dict.fromkeys("".join((*_ENGLISH, *_MANDARIN))))
_FIRST = (280.0, 520.0, 950.0)
_SECOND = (1400.0, 2000.0, 2800.0, 3800.0)
# In hertz, 12 pairs for 6 letters and 6 characters; the stride of 5 sets neighbours in the list of symbols far apart.
_FORMANTS = {symbol: (_FIRST[5 * i % 12 // 4], _SECOND[5 * i % 4]) for i, symbol in enumerate(_SYMBOLS)}


@dataclass(frozen=True)
class _Voice:
    """How a speaker sounds: pitch in hertz, speed, and how far the formants lie from their usual places."""

    name: str
    pitch: float
    speed: float
    size: float


def words_like(seed: int = 0, *, speakers: int = 8, takes: int = 3) -> Corpus:
    """A synthetic stand-in for recorded words: no speaker behind any. For tests and runs without data only.

    Six English and six Mandarin words. Each letter has a sound of its own, and so has each character: a harmonic tone
    with two formants, about 0.1 s long for a letter and 0.16 s for a character. A speaker has a pitch, a speed and a
    shift of the formants; within a take the pitch wavers from symbol to symbol, noise lies 30 dB below, and there is
    0.1 to 0.18 s of silence before and after. Error rates on it say nothing about those on speech.

    Args:
        seed: of the speakers and the takes; the sounds of the symbols are always the same.
        speakers: at least 3. An eighth of them, at least one, is for dev, as many for test, the others for training.
        takes: of each word by each speaker.

    Returns:
        A corpus of ``12 * speakers * takes`` WAV files in memory, with 16,000 samples a second, 0.4 to 0.9 s each.

    Raises:
        InputError: for fewer than 3 speakers or no take.
        MissingExtraError: without soundfile; it comes with ``ferero-lab[speech]``.

    Example:
        >>> len(words_like(speakers=3, takes=1).of(language="zh", split="train"))
        6
    """
    if speakers < 3:
        raise InputError(f"speakers: expected at least 3, one for each split, found {speakers}.")
    if takes < 1:
        raise InputError(f"takes: expected at least 1, found {takes}.")
    held = max(1, speakers // 8)
    splits = ("train",) * (speakers - 2 * held) + ("dev",) * held + ("test",) * held
    words = [("en", word, ()) for word in _ENGLISH] + [("zh", word, said) for word, said in _MANDARIN.items()]
    utterances = []
    for number, split in enumerate(splits):
        generator = np.random.default_rng((seed, number))
        voice = _Voice(
            f"synthetic{number + 1:02d}",
            generator.uniform(90, 170),
            generator.uniform(0.88, 1.14),
            generator.uniform(0.96, 1.04),
        )
        for i, (language, word, syllables) in enumerate(words):
            for take in range(1, takes + 1):
                name = f"{voice.name}-{i:02d}-{take:02d}"
                data = wav_bytes(_said(word, 0.1 if language == "en" else 0.16, voice, generator))
                utterances.append(Utterance(name, language, split, voice.name, word, syllables, partial(bytes, data)))
    return Corpus("words-like (synthetic)", tuple(utterances))


def _said(word: str, seconds: float, voice: _Voice, generator: np.random.Generator) -> NDArray[np.float64]:
    """The samples of one take."""
    before, after = (np.zeros(round(RATE * generator.uniform(0.1, 0.18))) for _ in range(2))
    speed = voice.speed * generator.uniform(0.95, 1.05)
    pitches = voice.pitch * generator.uniform(0.85, 1.15, len(word))
    sounds = [
        _sound(symbol, round(RATE * seconds / speed), pitch, voice) for symbol, pitch in zip(word, pitches, strict=True)
    ]
    samples = np.concatenate([before, *sounds, after])
    loudness = generator.uniform(0.2, 0.4) / np.abs(samples).max()
    noise = 10 ** (-30 / 20) * samples.std() * generator.standard_normal(len(samples))
    return np.asarray(loudness * (samples + noise))


def _sound(symbol: str, n: int, pitch: float, voice: _Voice) -> NDArray[np.float64]:
    """One symbol: harmonics of the pitch, loud where the formants are; it swells and fades within 10 ms."""
    harmonics = pitch * np.arange(1, int(4_500 / pitch) + 1)
    first, second = (voice.size * formant for formant in _FORMANTS[symbol])
    loud = 1 / (1 + ((harmonics - first) / 110) ** 2) + 0.7 / (1 + ((harmonics - second) / 160) ** 2)
    time = np.arange(n) / RATE
    edge = np.minimum(1.0, np.minimum(np.arange(n), np.arange(n)[::-1]) / (0.01 * RATE))
    return np.asarray(edge * (loud @ np.sin(2 * np.pi * harmonics[:, None] * time)))
