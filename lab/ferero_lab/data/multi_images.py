"""Multi-MNIST, Multi-Fashion and Multi-Fashion+MNIST: two overlapping images on one canvas, one task for each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ferero.errors import InputError
from ferero_lab.data.mnist import SIDE, Originals, fashion_mnist, mnist
from ferero_lab.data.splits import Labelled, Splits

__all__ = ["CANVAS", "KINDS", "multi_images", "unit_range"]

CANVAS = 36
"""Height and width of an image in pixels: two images of 28x28 overlap in a square of 20x20."""

KINDS = ("mnist", "fashion", "fashion-mnist")
"""Two digits; two articles of clothing; a digit at the top left and an article at the bottom right."""

_CHUNK = 4096


def multi_images(
    kind: str,
    folder: str | Path | None = None,
    train: int = 120_000,
    test: int = 20_000,
    *,
    validation: int = 0,
    seed: int = 0,
) -> Splits:
    """Two images on one canvas: task 1 reads the one at the top left, task 2 the one at the bottom right.

    Where they overlap the brighter pixel shows. Training and validation images are made of the sources' training
    images, test images of their test images. For validation the share validation / (train + validation) of the
    training sources is set aside, so that no source occurs in two parts. At each place every source is used equally
    often, up to one: 120,000 images are two passes over the 60,000 sources, in a new order each time.

    The same seed gives the same bytes whatever the versions of numpy and torch. The test images do not depend on
    ``train`` and ``validation``, and with a fixed share of validation fewer images are the first of more.

    The original files of the literature cannot be had; these are made in their manner, and losses on them need not
    agree. Which of the two kinds lies at the top left in Multi-Fashion+MNIST is our choice.

    Args:
        kind: "mnist", "fashion" or "fashion-mnist".
        folder: where to look for the source files first; see ``ferero_lab.data.find_file``.
        train: the number of training images.
        test: the number of test images.
        validation: the number of validation images.
        seed: which images are paired, an integer from 0.

    Returns:
        Images uint8, (n, 1, 36, 36); labels int64, (n, 2); sources int64, (n, 2), the places of the two images in
        their source files. Pass the images through ``unit_range`` on the device where they are used.

    Raises:
        InputError: for an unknown kind, a count that is not positive (``validation``: negative), a negative seed, or a
            damaged source file.
        DownloadError: when a source file is neither in the folder nor can be downloaded.
    """
    if kind not in KINDS:
        raise InputError(f"kind: expected one of {', '.join(KINDS)}, found {kind!r}.")
    for argument, count, least in (("train", train, 1), ("test", test, 1), ("validation", validation, 0)):
        if count < least:
            raise InputError(f"{argument}: expected at least {least} image{'s' if least != 1 else ''}, found {count}.")
    if seed < 0:
        raise InputError(f"seed: expected an integer from 0, found {seed}.")

    first, second = _sources(kind, folder)
    share = validation / (train + validation)
    kept, held = _deal((first, second), share, seed)
    return Splits(
        train=_pairs(kept, train, stream=(seed, 0)),
        validation=_pairs(held, validation, stream=(seed, 1)),
        test=_pairs([_Pool(some[1], np.arange(len(some[1]))) for some in (first, second)], test, stream=(seed, 2)),
    )


def unit_range(images: Tensor) -> Tensor:
    """Images in [0, 1], float32 on the same device: uint8 are divided by 255, floats are returned as they are.

    Example:
        >>> unit_range(torch.tensor([0, 51, 255], dtype=torch.uint8))
        tensor([0.0000, 0.2000, 1.0000])
    """
    return images if images.is_floating_point() else images.float() / 255


class _Pool(NamedTuple):
    """Source images, and which of them a part of the data may use."""

    images: Originals
    places: np.ndarray


def _sources(kind: str, folder: str | Path | None) -> list[tuple[Originals, Originals]]:
    """For the top left and the bottom right: training and test images."""
    if kind == "fashion-mnist":
        return [mnist(folder), fashion_mnist(folder)]
    both = mnist(folder) if kind == "mnist" else fashion_mnist(folder)
    return [both, both]


def _deal(sources: Sequence[tuple[Originals, Originals]], share: float, seed: int) -> tuple[list[_Pool], list[_Pool]]:
    """The training images for training and those set aside, at either place the same if the source is the same."""
    kept, held = [], []
    for train, _ in sources:
        order = _permutations(len(train), 1, (seed, 3))
        aside = round(share * len(train))
        if share and not 0 < aside < len(train):
            raise InputError(
                f"validation: expected a share of the {len(train)} source images that leaves some to either part, "
                f"found {share:.2g}. Change train or validation."
            )
        held.append(_Pool(train, np.sort(order[:aside])))
        kept.append(_Pool(train, np.sort(order[aside:])))
    return kept, held


def _pairs(pools: Sequence[_Pool], count: int, stream: tuple[int, int]) -> Labelled:
    columns = []
    for place, pool in enumerate(pools):
        passes = -(-count // len(pool.places)) if count else 0
        chosen = _permutations(len(pool.places), passes, (*stream, place))[:count]
        columns.append(torch.from_numpy(pool.places[chosen]))
    top_left, bottom_right = (pool.images for pool in pools)
    canvas = torch.zeros(count, 1, CANVAS, CANVAS, dtype=torch.uint8)
    for start in range(0, count, _CHUNK):  # so that copies stay in the cache
        some = canvas[start : start + _CHUNK, 0]
        one, two = (column[start : start + _CHUNK] for column in columns)
        some[:, :SIDE, :SIDE] = top_left.images[one]
        corner = some[:, -SIDE:, -SIDE:]
        corner.copy_(corner.maximum(bottom_right.images[two]))
    labels = torch.stack([pool.images.labels[column] for pool, column in zip(pools, columns, strict=True)], dim=1)
    return Labelled(canvas, labels, torch.stack(columns, dim=1))


def _permutations(size: int, passes: int, stream: tuple[int, ...]) -> np.ndarray:
    """Permutations of 0, ..., size - 1, one after the other.

    They are the order of raw random bits: numpy promises that stream for ever, but not that of its permutations.
    """
    bits = np.random.PCG64(stream)
    orders = [np.argsort(bits.random_raw(size), kind="stable") for _ in range(passes)]
    return np.concatenate([np.empty(0, dtype=np.int64), *orders])
