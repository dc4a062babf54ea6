"""Which corpora lie in the folder that the user names. None of them can be downloaded by ferero."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ferero.errors import InputError
from ferero_lab.speech.corpora.corpus import Corpus
from ferero_lab.speech.corpora.readers import LIBRISPEECH_SPLITS, read_aishell, read_librispeech, read_listed

__all__ = ["find_corpora"]

CORPORA = ("sentences", "words")
"""What can be asked for."""

_ENGLISH, _MANDARIN, _WORDS = "librispeech-4spk", "aishell-2spk", "dspspeech20-32spk"
_Reader = Callable[[], Corpus]


def find_corpora(folder: str | Path | None, which: str) -> Corpus:
    """English and Mandarin recordings.

    Sentences are LibriSpeech and data_aishell, as distributed, when both are there in full; else, for each language,
    the pair librispeech-4spk.tar and .tsv, or aishell-2spk.tar and .tsv, or else the full one. Words are the pair
    dspspeech20-32spk.tar and .tsv. All are looked for in the folder and in its sub-folder ``speech``.

    Args:
        folder: where to look; None for the folder in the environment variable FERERO_DATA.
        which: "sentences" or "words".

    Returns:
        One corpus with both languages.

    Raises:
        InputError: when no folder is named, it does not exist, a corpus is not in it, or its files are malformed.
    """
    if which not in CORPORA:
        raise InputError(f"which: expected one of {', '.join(CORPORA)}, found {which!r}.")
    home = _folder(folder, which)
    places = (home, home / "speech")
    if which == "words":
        return _found(_pair(places, _WORDS), home, f"{_WORDS}.tar and {_WORDS}.tsv")()
    full = _full_librispeech(places), _full_aishell(places)
    small = _pair(places, _ENGLISH), _pair(places, _MANDARIN)
    english, mandarin = full if all(full) else (small[0] or full[0], small[1] or full[1])
    wanted = (
        f"{_ENGLISH}.tar and {_ENGLISH}.tsv, or the folder LibriSpeech with {', '.join(LIBRISPEECH_SPLITS)}",
        f"{_MANDARIN}.tar and {_MANDARIN}.tsv, or the folder data_aishell with wav and transcript",
    )
    readers = [_found(reader, home, files) for reader, files in zip((english, mandarin), wanted, strict=True)]
    corpora = [reader() for reader in readers]
    return Corpus.joined(" + ".join(corpus.name for corpus in corpora), corpora)


def _folder(folder: str | Path | None, which: str) -> Path:
    named = folder if folder is not None else os.environ.get("FERERO_DATA") or None
    if named is None:
        raise InputError(
            f"{which}: expected a folder with recordings, found none named. Name it with --data FOLDER or FERERO_DATA; "
            "recordings are not downloaded."
        )
    path = Path(named).expanduser()
    if not path.is_dir():
        who = "folder" if folder is not None else "FERERO_DATA"
        raise InputError(f"{who}: expected a folder with recordings, found no folder at {path}.")
    return path


def _found(reader: _Reader | None, home: Path, files: str) -> _Reader:
    if reader is None:
        raise InputError(
            f"{home}: expected {files}, found none there or in its sub-folder speech. "
            "Put them there, or name another folder with --data FOLDER or FERERO_DATA; recordings are not downloaded."
        )
    return reader


def _pair(places: tuple[Path, ...], name: str) -> _Reader | None:
    for place in places:
        tar, listing = place / f"{name}.tar", place / f"{name}.tsv"
        if tar.is_file() and listing.is_file():
            return lambda: read_listed(tar, listing)
    return None


def _full_librispeech(places: tuple[Path, ...]) -> _Reader | None:
    for place in places:
        home = place / "LibriSpeech"
        if all((home / subset).is_dir() for subset in LIBRISPEECH_SPLITS):
            return lambda: read_librispeech(home)
    return None


def _full_aishell(places: tuple[Path, ...]) -> _Reader | None:
    for place in places:
        home = place / "data_aishell"
        if (home / "wav").is_dir() and (home / "transcript").is_dir():
            return lambda: read_aishell(home)
    return None
