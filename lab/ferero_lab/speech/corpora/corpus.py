"""Recorded utterances with their transcripts, and which are left out and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ferero.errors import InputError

__all__ = [
    "EMPTY",
    "LANGUAGES",
    "NO_RECORDING",
    "NO_TRANSCRIPT",
    "SPLITS",
    "TWICE",
    "UNKNOWN_LANGUAGE",
    "UNKNOWN_SPLIT",
    "Corpus",
    "Skipped",
    "SkippedCollector",
    "Utterance",
    "missing_or_empty",
    "read_lines",
]

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


NO_TRANSCRIPT = "no transcript"
NO_RECORDING = "no recording"
EMPTY = "empty recording"
TWICE = "name used before"
UNKNOWN_LANGUAGE = "unknown language"
UNKNOWN_SPLIT = "unknown split"


class SkippedCollector:
    """Collects names by reason while a corpus is read."""

    def __init__(self) -> None:
        self._names: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, reason: str, name: str) -> None:
        """One more."""
        self._names[reason].append(name)

    def skipped(self) -> Skipped:
        """All so far."""
        return Skipped({reason: tuple(names) for reason, names in self._names.items()})


def missing_or_empty(path: Path) -> str | None:
    """Why this audio file cannot be taken, judged by its size alone; None if it can."""
    if not path.is_file():
        return NO_RECORDING
    return EMPTY if path.stat().st_size == 0 else None


def read_lines(path: Path) -> list[str]:
    r"""The lines of a UTF-8 file. They end with \n or \r\n only: a text may hold Unicode's other ends of lines.

    Raises:
        InputError: when there is no such file, or it is in another encoding.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: expected a text file, found none to read ({error.strerror}).") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: expected text in UTF-8, found something else at byte {error.start}. Save it as UTF-8."
        ) from None
    return [line.rstrip("\r") for line in text.split("\n")]
