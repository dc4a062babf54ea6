"""A corpus in two files: a tar of recordings, and a table that says whose they are and what is said in them."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ferero.errors import InputError
from ferero_lab.speech.corpora.corpus import LANGUAGES, SPLITS, Corpus, Utterance
from ferero_lab.speech.corpora.leaving_out import (
    EMPTY,
    NO_RECORDING,
    NO_TRANSCRIPT,
    TWICE,
    UNKNOWN_LANGUAGE,
    UNKNOWN_SPLIT,
    LeavingOut,
)
from ferero_lab.speech.corpora.written import read_lines

__all__ = ["read_listed"]

_COLUMNS = ("utt", "file", "speaker", "lang", "split", "seconds", "text")


@dataclass(frozen=True)
class _Member:
    """The bytes of one file in a tar; each call opens the tar anew, so that threads and processes may share it."""

    tar: Path
    offset: int
    size: int

    def __call__(self) -> bytes:
        with self.tar.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.size)


def read_listed(tar: str | Path, listing: str | Path) -> Corpus:
    """The recordings of a tar that a listing describes. The tar is not unpacked: its members are read in place.

    Left out, by name and with the reason: lines without text, without a recording or with an empty one, in a language
    or split that is not known, or with a name that an earlier line has; and recordings that no line speaks of.

    Args:
        tar: uncompressed, with audio files.
        listing: UTF-8, tab separated, without quoting; the first line names the columns utt, file (the name in the
            tar), speaker, lang, split, seconds, text, and, if there is one, pinyin (syllables with spaces between).

    Returns:
        The corpus, under the tar's name, in the order of the listing.

    Raises:
        InputError: when a file is missing, the tar is compressed or damaged, a column is missing, or a line has more
            or fewer fields than there are columns.
    """
    tar, listing = Path(tar), Path(listing)
    members = _index(tar)
    left_out, utterances, names = LeavingOut(), [], set()
    unlisted = dict.fromkeys(members)
    for row in _rows(listing):
        file = _plain(row["file"])
        unlisted.pop(file, None)
        reason = TWICE if row["utt"] in names else _reason(row, members.get(file))
        if reason:
            left_out.add(reason, row["utt"])
            continue
        names.add(row["utt"])
        syllables = tuple(row.get("pinyin", "").split())
        utterances.append(
            Utterance(row["utt"], row["lang"], row["split"], row["speaker"], row["text"], syllables, members[file])
        )
    for name in unlisted:
        left_out.add(NO_TRANSCRIPT, name)
    return Corpus(tar.stem, tuple(utterances), left_out.skipped())


def _reason(row: Mapping[str, str], member: _Member | None) -> str | None:
    if not row["text"].strip():
        return NO_TRANSCRIPT
    if row["lang"] not in LANGUAGES:
        return UNKNOWN_LANGUAGE
    if row["split"] not in SPLITS:
        return UNKNOWN_SPLIT
    if member is None:
        return NO_RECORDING
    return None if member.size else EMPTY


def _plain(name: str) -> str:
    """The name of a member without a leading ./ ."""
    return str(PurePosixPath(name))


def _index(tar: Path) -> dict[str, _Member]:
    """Where each file of the tar begins, by name."""
    try:
        with tarfile.open(tar, "r:") as archive:
            return {
                _plain(each.name): _Member(tar, each.offset_data, each.size)
                for each in archive
                if each.isfile() and not each.issparse()
            }
    except OSError as error:
        raise InputError(f"{tar}: expected a tar of recordings, found none to read ({error.strerror}).") from None
    except tarfile.TarError as error:
        raise InputError(
            f"{tar}: expected an uncompressed tar, found one that is compressed or damaged ({error}). "
            "Unpack a compressed one with gunzip, fetch a damaged one again."
        ) from None


def _rows(listing: Path) -> Iterator[dict[str, str]]:
    """The lines of the listing, by column."""
    lines = read_lines(listing)
    columns = lines[0].split("\t")
    missing = [column for column in _COLUMNS if column not in columns]
    if missing:
        raise InputError(
            f"{listing}, line 1: expected the columns {', '.join(_COLUMNS)} between tabs, "
            f"found no {', '.join(missing)}. Name the columns in the first line."
        )
    for number, line in enumerate(lines[1:], start=2):
        fields = line.split("\t")
        if fields == [""]:
            continue
        if len(fields) != len(columns):
            raise InputError(
                f"{listing}, line {number}: expected {len(columns)} fields between tabs, as the first line has, "
                f"found {len(fields)}. Mend the line or remove it."
            )
        yield dict(zip(columns, fields, strict=True))
