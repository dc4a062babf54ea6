"""Recorded sentences and what is written down of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["LANGUAGES", "SPLITS", "Corpus", "Skipped", "Utterance"]

LANGUAGES = ("zh", "en")
SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class Utterance:
    """One recording.

    Attributes:
        name: its identity in the corpus.
        language: one of LANGUAGES.
        split: one of SPLITS.
        speaker: whose voice it is.
        text: what is said, as the corpus writes it.
        syllables: pinyin with tone digits where the corpus has it; empty otherwise.
        read: gives the bytes of the audio file (Ogg-Opus, FLAC, WAV: what soundfile reads).
    """

    name: str
    language: str
    split: str
    speaker: str
    text: str
    syllables: tuple[str, ...]
    read: Callable[[], bytes]


@dataclass(frozen=True)
class Skipped:
    """What was left out, by reason: the names of the utterances."""

    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many."""
        return sum(len(names) for names in self.names.values())

    def __add__(self, other: Skipped) -> Skipped:
        """Both."""
        reasons = dict.fromkeys((*self.names, *other.names))
        return Skipped({reason: self.names.get(reason, ()) + other.names.get(reason, ()) for reason in reasons})

    def counts(self) -> dict[str, int]:
        """How many for each reason."""
        return {reason: len(names) for reason, names in self.names.items()}


@dataclass(frozen=True)
class Corpus:
    """Recordings, and what had to be left out of them."""

    name: str
    utterances: tuple[Utterance, ...]
    skipped: Skipped = field(default_factory=Skipped)

    def of(self, *, language: str | None = None, split: str | None = None) -> tuple[Utterance, ...]:
        """The utterances of one language, of one split, or of both."""
        return tuple(
            each
            for each in self.utterances
            if (language is None or each.language == language) and (split is None or each.split == split)
        )

    @staticmethod
    def joined(name: str, corpora: Iterable[Corpus]) -> Corpus:
        """Several as one."""
        parts = tuple(corpora)
        skipped = sum((part.skipped for part in parts), Skipped())
        return Corpus(name, tuple(each for part in parts for each in part.utterances), skipped)
