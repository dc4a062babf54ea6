"""Recorded English and Mandarin: the readers of corpora, audio, and the alphabets they are written in."""

from __future__ import annotations

from ferero_lab.speech.corpora.alphabet import OTHER, UNITS, Alphabet
from ferero_lab.speech.corpora.audio import RATE, AudioError, waveform
from ferero_lab.speech.corpora.corpus import LANGUAGES, SPLITS, Corpus, Skipped, Utterance
from ferero_lab.speech.corpora.find_corpora import find_corpora
from ferero_lab.speech.corpora.readers import read_aishell, read_librispeech, read_listed
from ferero_lab.speech.corpora.words_like import words_like

__all__ = [
    "LANGUAGES",
    "OTHER",
    "RATE",
    "SPLITS",
    "UNITS",
    "Alphabet",
    "AudioError",
    "Corpus",
    "Skipped",
    "Utterance",
    "find_corpora",
    "read_aishell",
    "read_librispeech",
    "read_listed",
    "waveform",
    "words_like",
]
