"""The features of many utterances in one array, kept on disk between runs."""

from __future__ import annotations

import hashlib
import json
import tempfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ferero.files import write_whole
from ferero_lab.speech.corpora.corpus import Skipped

__all__ = ["FeatureStore", "Made", "digest", "stored"]

Made = tuple[str, Tensor | str]


@dataclass(frozen=True, eq=False)
class FeatureStore:
    """The features of n utterances.

    Attributes:
        values: (all frames, bins), float16, one utterance after the other; a mapped file where there is a cache.
        starts: (n,), the first frame of each utterance in values.
        lengths: (n,), how many frames each has.
        names: of the utterances.
        skipped: those that have no features, by reason.
    """

    values: Tensor
    starts: Tensor
    lengths: Tensor
    names: tuple[str, ...]
    skipped: Skipped = field(default_factory=Skipped)

    def __len__(self) -> int:
        """How many utterances."""
        return len(self.names)

    def __getitem__(self, index: int) -> Tensor:
        """The features of one utterance, (frames, bins), float32."""
        start = int(self.starts[index])
        return self.values[start : start + int(self.lengths[index])].float()

    def subset(self, indices: Sequence[int]) -> FeatureStore:
        """Some of them, in that order; the values are shared, and nothing is skipped."""
        chosen = torch.tensor(list(indices), dtype=torch.int64)
        names = tuple(self.names[each] for each in indices)
        return FeatureStore(self.values, self.starts[chosen], self.lengths[chosen], names)

    def compact(self) -> FeatureStore:
        """The same with values that hold these utterances alone, in order; itself where that is so."""
        starts = _starts(self.lengths)
        total = int(self.lengths.sum())
        if len(self.values) == total and torch.equal(starts, self.starts):
            return self
        values = torch.empty(total, self.values.shape[1], dtype=self.values.dtype)
        for to, start, length in zip(starts.tolist(), self.starts.tolist(), self.lengths.tolist(), strict=True):
            values[to : to + length] = self.values[start : start + length]
        return FeatureStore(values, starts, self.lengths, self.names, self.skipped)


def digest(parts: Iterable[str | bytes]) -> str:
    """32 hexadecimal digits that another list of parts would not have."""
    sums = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        sums.update(f"{len(content)}:".encode())
        sums.update(content)
    return sums.hexdigest()[:32]


def stored(cache: Path | None, key: str, bins: int, make: Callable[[], Iterable[Made]]) -> FeatureStore:
    """The store of a key: read from the cache if it is there and whole, made and kept otherwise.

    A store is two files, ``<key>.f16`` with the values and ``<key>.json`` with the names, lengths and a checksum of
    the values. The second is written last, each in one move: a run that is stopped leaves nothing half done that
    would be believed.

    Args:
        cache: a folder, made if there is none; None to keep nothing.
        key: names the content, and changes with it (see ``digest``).
        bins: of the features.
        make: gives for each utterance its name and its features (frames, bins), or the reason why it has none.
    """
    if cache is None:
        parts, lengths, skipped = [np.empty((0, bins), np.float16)], {}, {}
        for name, made in make():
            if isinstance(made, str):
                skipped[name] = made
            else:
                parts.append(_half(made))
                lengths[name] = len(made)
        return _store(np.concatenate(parts), lengths, skipped)
    found = _read(cache, key, bins)
    if found is None:
        _write(cache, key, make())
        found = _read(cache, key, bins)
    if found is None:
        raise OSError(f"{cache}: the features that were just written there cannot be read back. Is the disk full?")
    return found


def _store(values: np.ndarray, lengths: dict[str, int], skipped: dict[str, str]) -> FeatureStore:
    reasons: dict[str, tuple[str, ...]] = {}
    for name, reason in skipped.items():
        reasons[reason] = (*reasons.get(reason, ()), name)
    counts = torch.tensor(list(lengths.values()), dtype=torch.int64)
    return FeatureStore(torch.from_numpy(values), _starts(counts), counts, tuple(lengths), Skipped(reasons))


def _starts(lengths: Tensor) -> Tensor:
    return lengths.cumsum(0) - lengths


def _half(features: Tensor) -> np.ndarray:
    values: np.ndarray = features.half().numpy()
    return values


def _read(cache: Path, key: str, bins: int) -> FeatureStore | None:
    """The store, or None where it is missing or damaged."""
    try:
        index = json.loads((cache / f"{key}.json").read_text("utf-8"))
        lengths = {str(name): int(length) for name, length in index["lengths"].items()}
        skipped = {str(name): str(reason) for name, reason in index["skipped"].items()}
        values = _map(cache / f"{key}.f16", sum(lengths.values()), bins)
        whole = zlib.crc32(values.data) == index["checksum"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return _store(values, lengths, skipped) if whole else None


def _map(path: Path, frames: int, bins: int) -> np.ndarray:
    """The file as an array that may be written to without changing the file, for torch wants it writable."""
    if path.stat().st_size != frames * bins * 2:
        raise ValueError
    if frames == 0:
        return np.empty((0, bins), np.float16)
    return np.asarray(np.memmap(path, np.float16, "c", shape=(frames, bins)))


def _write(cache: Path, key: str, made: Iterable[Made]) -> None:
    """Write the values as they come, so that they need not fit into memory, then the index."""
    cache.mkdir(parents=True, exist_ok=True)
    lengths: dict[str, int] = {}
    skipped: dict[str, str] = {}
    checksum = 0
    with tempfile.NamedTemporaryFile(dir=cache, prefix=f".{key}-", delete=False) as file:
        try:
            for name, features in made:
                if isinstance(features, str):
                    skipped[name] = features
                    continue
                content = _half(features).tobytes()
                checksum = zlib.crc32(content, checksum)
                file.write(content)
                lengths[name] = len(features)
            file.flush()
            Path(file.name).replace(cache / f"{key}.f16")
        except BaseException:
            with suppress(FileNotFoundError):
                Path(file.name).unlink()
            raise
    index = {"lengths": lengths, "skipped": skipped, "checksum": checksum}
    write_whole(cache / f"{key}.json", json.dumps(index, ensure_ascii=False).encode())
