"""The recordings as the experiment uses them: a set for each language and split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch

from ferero.errors import InputError
from ferero_lab.experiments.experiment import Settings
from ferero_lab.speech.batches import SpeechBatch, SpeechBatches, batches_of
from ferero_lab.speech.corpora import RATE, Alphabet, Corpus, find_corpora, words_like
from ferero_lab.speech.corpora.corpus import LANGUAGES, SPLITS, Skipped
from ferero_lab.speech.experiment.plan import SpeechPlan
from ferero_lab.speech.features import HOP
from ferero_lab.speech.prepare import Prepared, prepare

__all__ = ["Sets", "check_there", "load_sets"]

_HELD_OUT_FRAMES = {"cuda": 60_000}
_FEW_FRAMES = 4_000


@dataclass(frozen=True)
class Sets:
    """All of it.

    Attributes:
        name: of the corpus.
        alphabets: of each language.
        prepared: of each (language, split).
        skipped: what was left out, by reason.
    """

    name: str
    alphabets: Mapping[str, Alphabet]
    prepared: Mapping[tuple[str, str], Prepared]
    skipped: Skipped

    def symbols(self) -> dict[str, int]:
        """How many each language has."""
        return {language: len(alphabet) for language, alphabet in self.alphabets.items()}

    def frames(self, language: str) -> int:
        """Of the training set."""
        return int(self.prepared[language, "train"].lengths.sum())

    def hours(self, language: str) -> float:
        """Of the training set."""
        return self.frames(language) / (RATE // HOP) / 3600

    def streams(self, seconds: float, seed: int, device: torch.device) -> dict[str, SpeechBatches]:
        """Training batches of each language; a step of both has about so many seconds, in proportion."""
        every = sum(self.frames(language) for language in LANGUAGES)
        share = seconds * (RATE // HOP) / every
        return {
            language: SpeechBatches(
                self.prepared[language, "train"],
                max(int(share * self.frames(language)), 1),
                seed=seed,
                device=device,
            )
            for language in LANGUAGES
        }

    def held_out(self, split: str, device: torch.device) -> dict[str, list[SpeechBatch]]:
        """Every utterance of a split once; in large batches on a GPU, in small ones that fit a CPU's caches."""
        frames = _HELD_OUT_FRAMES.get(device.type, _FEW_FRAMES)
        return {language: batches_of(self.prepared[language, split], frames, device) for language in LANGUAGES}

    def sizes(self) -> dict[str, dict[str, int]]:
        """Utterances by language and split."""
        return {language: {split: len(self.prepared[language, split]) for split in SPLITS} for language in LANGUAGES}


def check_there(plan: SpeechPlan, settings: Settings) -> None:
    """Look for the recordings without reading them.

    Raises:
        InputError: when they are not where the settings say.
    """
    _corpus(plan.corpus, settings.data)


def load_sets(plan: SpeechPlan, settings: Settings, cache: Path | None) -> Sets:
    """Read the recordings, or take them from the cache; once in a process."""
    return _load(plan.corpus, plan.unit, plan.trimmed, settings.data, cache)


@lru_cache(maxsize=1)
def _load(corpus: str, unit: str, trimmed: bool, data: Path | None, cache: Path | None) -> Sets:
    found = _corpus(corpus, data)
    alphabets = {
        "zh": Alphabet.of(found.of(language="zh", split="train"), unit=unit),
        "en": Alphabet.letters(),
    }
    prepared = {
        (language, split): prepare(found.of(language=language, split=split), alphabets, cache=cache, trimmed=trimmed)
        for language in LANGUAGES
        for split in SPLITS
    }
    skipped = sum((each.skipped for each in prepared.values()), found.skipped)
    _check_some(found.name, {key: len(each) for key, each in prepared.items()}, skipped)
    return Sets(found.name, alphabets, prepared, skipped)


@lru_cache(maxsize=1)
def _corpus(name: str, data: Path | None) -> Corpus:
    found = words_like() if name == "synthetic" else find_corpora(data, name)
    counts = {(each, split): len(found.of(language=each, split=split)) for each in LANGUAGES for split in SPLITS}
    _check_some(found.name, counts, found.skipped)
    return found


def _check_some(corpus: str, counts: Mapping[tuple[str, str], int], skipped: Skipped) -> None:
    reasons = ", ".join(f"{number} with {reason}" for reason, number in skipped.counts().items()) or "none"
    for (language, split), count in counts.items():
        if count == 0:
            raise InputError(
                f"{corpus}: expected recordings in {language} for {split}, found none to use; left out of all: "
                f"{reasons}. Mend the corpus, or name another folder with --data FOLDER or FERERO_DATA."
            )
