"""Readers of corpora: LibriSpeech and AISHELL-1 as distributed, and a tar of recordings with a listing."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from ferero.errors import InputError
from ferero_lab.speech.corpora.corpus import (
    EMPTY,
    LANGUAGES,
    NO_RECORDING,
    NO_TRANSCRIPT,
    SPLITS,
    TWICE,
    UNKNOWN_LANGUAGE,
    UNKNOWN_SPLIT,
    Corpus,
    SkippedCollector,
    Utterance,
    missing_or_empty,
    read_lines,
)

__all__ = ["LIBRISPEECH_SPLITS", "read_aishell", "read_librispeech", "read_listed"]

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
    left_out = SkippedCollector()
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


def _read_chapter(chapter: Path, split: str, utterances: dict[str, Utterance], left_out: SkippedCollector) -> None:
    speaker = chapter.parent.name
    unwritten = {path.stem: path for path in sorted(chapter.glob("*.flac"))}
    for name, text in _librispeech_texts(chapter / f"{speaker}-{chapter.name}.trans.txt"):
        path = chapter / f"{name}.flac"
        unwritten.pop(name, None)
        reason = (TWICE if name in utterances else None) or (missing_or_empty(path) if text else NO_TRANSCRIPT)
        if reason:
            left_out.add(reason, name)
        else:
            utterances[name] = Utterance(name, "en", split, speaker, text, (), path.read_bytes)
    for name in unwritten:
        left_out.add(NO_TRANSCRIPT, name)


def _librispeech_texts(path: Path) -> list[tuple[str, str]]:
    """Names and texts of one chapter."""
    if not path.is_file():
        return []
    pairs = (line.partition(" ") for line in read_lines(path) if line.strip())
    return [(name, text.strip()) for name, _, text in pairs]


_AISHELL_TRANSCRIPT = "transcript/aishell_transcript_v0.8.txt"


def read_aishell(folder: str | Path) -> Corpus:
    """AISHELL-1: ``wav/<split>/<speaker>/*.wav``, and all texts in one file, a name and words in each line.

    The spaces between the words are taken out. Recordings without a text, texts without a recording, empty recordings
    and names met before are left out, by name.

    Args:
        folder: the folder data_aishell, or the one it lies in.

    Returns:
        The corpus, in the order of the names, split as its authors did. It has no syllables.

    Raises:
        InputError: when the texts or a split are missing, the texts are not in UTF-8, or speakers are still packed.
    """
    home = Path(folder)
    home = home / "data_aishell" if (home / "data_aishell").is_dir() else home
    left_out = SkippedCollector()
    texts = _aishell_texts(home / _AISHELL_TRANSCRIPT, left_out)
    _check_unpacked(home / "wav")
    utterances: dict[str, Utterance] = {}
    spoken = set()
    for split in SPLITS:
        paths = sorted((home / "wav" / split).glob("*/*.wav"))
        if not paths:
            raise InputError(
                f"folder: expected wav/{split}/<speaker>/*.wav in {home}, found none. Unpack AISHELL-1 there."
            )
        for path in paths:
            name = path.stem
            spoken.add(name)
            reason = TWICE if name in utterances else missing_or_empty(path) if texts.get(name) else NO_TRANSCRIPT
            if reason:
                left_out.add(reason, name)
            else:
                utterances[name] = Utterance(name, "zh", split, path.parent.name, texts[name], (), path.read_bytes)
    for name in texts:
        if name not in spoken:
            left_out.add(NO_RECORDING, name)
    return Corpus("AISHELL-1", tuple(utterances.values()), left_out.skipped())


def _aishell_texts(path: Path, left_out: SkippedCollector) -> dict[str, str]:
    """The texts by name; of two with the same name the first."""
    if not path.is_file():
        raise InputError(
            f"folder: expected {_AISHELL_TRANSCRIPT} in {path.parent.parent}, found none. "
            "Name the folder data_aishell, or the one it lies in."
        )
    texts: dict[str, str] = {}
    for line in read_lines(path):
        name, *words = line.split() or [""]
        if name in texts:
            left_out.add(TWICE, name)
        elif name:
            texts[name] = "".join(words)
    return texts


def _check_unpacked(wav: Path) -> None:
    """Raises InputError when a speaker's archive lies there and the speaker's folder does not."""
    unpacked = {path.name for split in SPLITS for path in (wav / split).glob("*")}
    packed = [path.name for path in sorted(wav.glob("*.tar.gz")) if path.name.removesuffix(".tar.gz") not in unpacked]
    if packed:
        raise InputError(
            f"folder: expected the recordings of every speaker in {wav}, found {len(packed)} still packed "
            f'({packed[0]} first). Unpack them there: for each in *.tar.gz; do tar -xzf "$each"; done'
        )


_LISTED_COLUMNS = ("utt", "file", "speaker", "lang", "split", "seconds", "text")


@dataclass(frozen=True)
class _TarMember:
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
    members = _tar_index(tar)
    left_out, utterances, names = SkippedCollector(), [], set()
    unlisted = dict.fromkeys(members)
    for row in _listed_rows(listing):
        file = _plain_name(row["file"])
        unlisted.pop(file, None)
        reason = TWICE if row["utt"] in names else _why_left_out(row, members.get(file))
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


def _why_left_out(row: Mapping[str, str], member: _TarMember | None) -> str | None:
    if not row["text"].strip():
        return NO_TRANSCRIPT
    if row["lang"] not in LANGUAGES:
        return UNKNOWN_LANGUAGE
    if row["split"] not in SPLITS:
        return UNKNOWN_SPLIT
    if member is None:
        return NO_RECORDING
    return None if member.size else EMPTY


def _plain_name(name: str) -> str:
    """The name of a member without a leading ./ ."""
    return str(PurePosixPath(name))


def _tar_index(tar: Path) -> dict[str, _TarMember]:
    """Where each file of the tar begins, by name."""
    try:
        with tarfile.open(tar, "r:") as archive:
            return {
                _plain_name(each.name): _TarMember(tar, each.offset_data, each.size)
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


def _listed_rows(listing: Path) -> Iterator[dict[str, str]]:
    """The lines of the listing, by column."""
    lines = read_lines(listing)
    columns = lines[0].split("\t")
    missing = [column for column in _LISTED_COLUMNS if column not in columns]
    if missing:
        raise InputError(
            f"{listing}, line 1: expected the columns {', '.join(_LISTED_COLUMNS)} between tabs, "
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
