"""Why a recording is left out of a corpus, in the same words whatever the corpus."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from ferero_lab.speech.corpora.corpus import Skipped

__all__ = [
    "EMPTY",
    "NO_RECORDING",
    "NO_TRANSCRIPT",
    "TWICE",
    "UNKNOWN_LANGUAGE",
    "UNKNOWN_SPLIT",
    "LeavingOut",
    "missing_or_empty",
]

NO_TRANSCRIPT = "no transcript"
NO_RECORDING = "no recording"
EMPTY = "empty recording"
TWICE = "name used before"
UNKNOWN_LANGUAGE = "unknown language"
UNKNOWN_SPLIT = "unknown split"


class LeavingOut:
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
