"""AISHELL-1, in the folders it is distributed in: Mandarin sentences read aloud."""

from __future__ import annotations

from pathlib import Path

from ferero.errors import InputError
from ferero_lab.speech.corpora.corpus import SPLITS, Corpus, Utterance
from ferero_lab.speech.corpora.leaving_out import NO_RECORDING, NO_TRANSCRIPT, TWICE, LeavingOut, missing_or_empty
from ferero_lab.speech.corpora.written import read_lines

__all__ = ["read_aishell"]

_TRANSCRIPT = "transcript/aishell_transcript_v0.8.txt"


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
    left_out = LeavingOut()
    texts = _texts(home / _TRANSCRIPT, left_out)
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


def _texts(path: Path, left_out: LeavingOut) -> dict[str, str]:
    """The texts by name; of two with the same name the first."""
    if not path.is_file():
        raise InputError(
            f"folder: expected {_TRANSCRIPT} in {path.parent.parent}, found none. "
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
