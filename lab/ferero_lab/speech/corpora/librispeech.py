"""LibriSpeech, in the folders it is distributed in: English read aloud from books."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from ferero.errors import InputError
from ferero_lab.speech.corpora.corpus import SPLITS, Corpus, Utterance
from ferero_lab.speech.corpora.leaving_out import NO_TRANSCRIPT, TWICE, LeavingOut, missing_or_empty
from ferero_lab.speech.corpora.written import read_lines

__all__ = ["LIBRISPEECH_SPLITS", "read_librispeech"]

LIBRISPEECH_SPLITS: Mapping[str, str] = MappingProxyType(
    {"train-clean-100": "train", "dev-clean": "dev", "test-clean": "test"}
)
"""Which subset serves as which split unless the caller says otherwise."""


def read_librispeech(folder: str | Path, splits: Mapping[str, str] = LIBRISPEECH_SPLITS) -> Corpus:
    """The subsets of LibriSpeech that are asked for.

    A subset has a folder for each speaker, in it one for each chapter, and there ``<speaker>-<chapter>-<number>.flac``
    with their texts in ``<speaker>-<chapter>.trans.txt``, a name and a text in each line. Recordings without a text,
    texts without a recording, empty recordings and names met before are left out, by name.

    Args:
        folder: the folder LibriSpeech, or the one it lies in.
        splits: which split each subset is for; "train-other-500" or any other may be named.

    Returns:
        The corpus, in the order of the names.

    Raises:
        InputError: when a subset is missing or has no chapter in it, texts are not in UTF-8, or a split is none of
            train, dev, test.
    """
    unknown = [split for split in splits.values() if split not in SPLITS]
    if unknown:
        raise InputError(f"splits: expected {', '.join(SPLITS)}, found {unknown[0]!r}.")
    home = Path(folder)
    home = home / "LibriSpeech" if (home / "LibriSpeech").is_dir() else home
    left_out = LeavingOut()
    utterances: dict[str, Utterance] = {}
    for subset, split in splits.items():
        chapters = sorted(path for path in (home / subset).glob("*/*") if path.is_dir())
        if not chapters:
            raise InputError(
                f"folder: expected {subset} with <speaker>/<chapter>/*.flac in {home}, found none. "
                "Unpack that part of LibriSpeech there, or leave it out of splits."
            )
        for chapter in chapters:
            _read_chapter(chapter, split, utterances, left_out)
    return Corpus("LibriSpeech", tuple(utterances.values()), left_out.skipped())


def _read_chapter(chapter: Path, split: str, utterances: dict[str, Utterance], left_out: LeavingOut) -> None:
    speaker = chapter.parent.name
    unwritten = {path.stem: path for path in sorted(chapter.glob("*.flac"))}
    for name, text in _texts(chapter / f"{speaker}-{chapter.name}.trans.txt"):
        path = chapter / f"{name}.flac"
        unwritten.pop(name, None)
        reason = (TWICE if name in utterances else None) or (missing_or_empty(path) if text else NO_TRANSCRIPT)
        if reason:
            left_out.add(reason, name)
        else:
            utterances[name] = Utterance(name, "en", split, speaker, text, (), path.read_bytes)
    for name in unwritten:
        left_out.add(NO_TRANSCRIPT, name)


def _texts(path: Path) -> list[tuple[str, str]]:
    """Names and texts of one chapter."""
    if not path.is_file():
        return []
    pairs = (line.partition(" ") for line in read_lines(path) if line.strip())
    return [(name, text.strip()) for name, _, text in pairs]
