"""Music and the emotions it stirs: six labels a song, the data of the paper's experiment with six losses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ferero.errors import InputError
from ferero_lab.data.arff import read_arff
from ferero_lab.data.files import find_file
from ferero_lab.data.splits import standardised

__all__ = ["EMOTIONS", "Emotions", "Songs", "emotions", "emotions_like"]

EMOTIONS = ("amazed-suprised", "happy-pleased", "relaxing-calm", "quiet-still", "sad-lonely", "angry-aggresive")
"""The six labels, spelt as in the file."""

_FEATURES = 72
_SHARES = np.array([173, 166, 264, 148, 168, 189]) / 593
# How each emotion goes with pleasure and with arousal; the other factors of the stand-in colour the features only.
_MOODS = np.array([[0.0, 0.9], [1.0, 0.1], [0.4, -0.9], [-0.4, -0.9], [-0.5, -0.8], [-0.7, 0.8]])


@dataclass(frozen=True)
class Songs:
    """Songs and their emotions.

    Attributes:
        features: float32, (n, 72), standardised by the training songs.
        labels: float32, 0 or 1, (n, 6).
    """

    features: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.features)


@dataclass(frozen=True)
class Emotions:
    """Songs in three parts.

    Attributes:
        train: songs to learn from.
        validation: songs taken from the training file; none unless asked for.
        test: songs of the test file.
        feature_names: 72.
        label_names: six.
    """

    train: Songs
    validation: Songs
    test: Songs
    feature_names: tuple[str, ...]
    label_names: tuple[str, ...]


def emotions(folder: str | Path | None = None, *, validation: int = 0, seed: int = 0) -> Emotions:
    """The emotions data of Mulan: 391 songs to train on and 202 to test on, as its authors divided them.

    Args:
        folder: where to look for the files first; see ``ferero_lab.data.find_file``.
        validation: how many of the training songs are set aside.
        seed: which ones.

    Returns:
        Features standardised by the songs that are left for training, and labels.

    Raises:
        InputError: when a file is damaged or has another checksum, or too many songs are to be set aside.
        DownloadError: when a file is neither in the folder nor can be downloaded.
    """
    train, names = _read(find_file("emotions/emotions-train.arff", folder))
    test, names_of_test = _read(find_file("emotions/emotions-test.arff", folder))
    if names != names_of_test:
        raise InputError("emotions-test.arff: expected the attributes of emotions-train.arff, found others.")
    return _parts(train, test, names, validation, seed)


def emotions_like(seed: int = 0, *, validation: int = 0) -> Emotions:
    """A synthetic stand-in for ``emotions``: the same shapes, no song behind any row. For quick runs without data only.

    Five latent factors, the first two read as pleasure and arousal, give each song its 72 features, with noise. A
    label is 1 for the songs that rank highest in a mixture of pleasure, arousal and noise, as many as in the true data
    (593 songs). Losses and fronts on it say nothing about those on the true data.

    Args:
        seed: of the whole set.
        validation: how many of the 391 training songs are set aside.

    Returns:
        The same as ``emotions``.

    Raises:
        InputError: when too many songs are to be set aside.
    """
    generator = np.random.default_rng(seed)
    factors = generator.standard_normal((593, 5))
    mixing = generator.standard_normal((5, _FEATURES))
    features = factors @ mixing + 2.5 * generator.standard_normal((593, _FEATURES))
    scores = factors[:, :2] @ _MOODS.T + 0.8 * generator.standard_normal((593, 6))
    rank = scores.argsort(axis=0).argsort(axis=0)
    labels = rank >= np.round(593 * (1 - _SHARES))
    table = np.hstack([features, labels])
    names = (*(f"feature {i}" for i in range(1, _FEATURES + 1)), *EMOTIONS)
    return _parts(table[:391], table[391:], names, validation, seed)


def _read(path: Path) -> tuple[np.ndarray, tuple[str, ...]]:
    table = read_arff(path)
    names = tuple(attribute.name for attribute in table.attributes)
    labels = table.attributes[_FEATURES:]
    if names[_FEATURES:] != EMOTIONS or any(attribute.values != ("0", "1") for attribute in labels):
        raise InputError(
            f"{path}: expected {_FEATURES} features and then {', '.join(EMOTIONS)} in {{0,1}}, "
            f"found {len(names)} attributes that end with {', '.join(names[-6:])}."
        )
    return table.rows, names


def _parts(train: np.ndarray, test: np.ndarray, names: tuple[str, ...], validation: int, seed: int) -> Emotions:
    if not 0 <= validation < len(train):
        raise InputError(f"validation: expected 0 to {len(train) - 1} of the training songs, found {validation}.")
    order = np.random.default_rng(seed).permutation(len(train))
    held, kept = np.sort(order[:validation]), np.sort(order[validation:])
    parts = [train[kept], train[held], test]
    first, *others = (part[:, :_FEATURES] for part in parts)
    learn, choose, report = (
        Songs(torch.from_numpy(features), torch.from_numpy(part[:, _FEATURES:].astype(np.float32)))
        for features, part in zip(standardised(first, others), parts, strict=True)
    )
    return Emotions(learn, choose, report, names[:_FEATURES], names[_FEATURES:])
