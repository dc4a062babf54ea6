"""MNIST and Fashion-MNIST as they come, 28x28 grey images of ten kinds, and a reader of their idx format."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ferero.errors import InputError
from ferero_lab.data.files import find_file, unpacked

__all__ = ["SIDE", "Originals", "fashion_mnist", "mnist", "read_idx"]

SIDE = 28
"""Height and width of an image in pixels."""

_UINT8 = 0x08


@dataclass(frozen=True)
class Originals:
    """Images as their authors published them, in their order.

    Attributes:
        images: uint8, (n, 28, 28).
        labels: int64 in 0, ..., 9, (n,).
    """

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.images)


def mnist(folder: str | Path | None = None) -> tuple[Originals, Originals]:
    """Handwritten digits: 60,000 for training and 10,000 for testing.

    Args:
        folder: where to look for the files first; see ``find_file``.

    Returns:
        The training and the test images.

    Raises:
        InputError: when a file is damaged or has another checksum.
        DownloadError: when a file is neither in the folder nor can be downloaded.
    """
    return _both("mnist", folder)


def fashion_mnist(folder: str | Path | None = None) -> tuple[Originals, Originals]:
    """Articles of clothing, from 0 T-shirt to 9 ankle boot: 60,000 for training and 10,000 for testing.

    Args:
        folder: where to look for the files first; see ``find_file``.

    Returns:
        The training and the test images.

    Raises:
        InputError: when a file is damaged or has another checksum.
        DownloadError: when a file is neither in the folder nor can be downloaded.
    """
    return _both("fashion-mnist", folder)


def read_idx(path: Path, dimensions: int) -> Tensor:
    """The array in an idx file of bytes, packed with gzip or not.

    The format: two zero bytes, one for the kind of number (8: unsigned byte), one for the number of dimensions, the
    sizes as big-endian uint32, then the entries, last dimension fastest.

    Args:
        path: of the file.
        dimensions: how many it must have: 3 for images, 1 for labels.

    Returns:
        uint8, with the shape that the file gives.

    Raises:
        InputError: when the file does not begin as it must, is truncated, or goes on after its last entry.
    """
    content = unpacked(path)
    magic = bytes((0, 0, _UINT8, dimensions))
    start = 4 + 4 * dimensions
    if content[:4] != magic:
        raise InputError(
            f"{path}: expected an idx file of bytes with {dimensions} dimension{'s' if dimensions > 1 else ''}, which "
            f"begins with {magic.hex(' ')}, found {content[:4].hex(' ') or 'nothing'}."
        )
    if len(content) < start:
        raise InputError(f"{path}: expected a header of {start} bytes, found {len(content)}. The file is truncated.")
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    expected, found = math.prod(shape), len(content) - start
    if found != expected:
        what = "The file is truncated." if found < expected else "There is something after its end."
        raise InputError(f"{path}: expected {expected} entries of shape {shape}, found {found}. {what}")
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy())


def _both(name: str, folder: str | Path | None) -> tuple[Originals, Originals]:
    return _originals(f"{name}/train", folder), _originals(f"{name}/t10k", folder)


def _originals(stem: str, folder: str | Path | None) -> Originals:
    images_at = find_file(f"{stem}-images-idx3-ubyte.gz", folder)
    labels_at = find_file(f"{stem}-labels-idx1-ubyte.gz", folder)
    images, labels = read_idx(images_at, 3), read_idx(labels_at, 1)
    if images.shape[1:] != (SIDE, SIDE):
        raise InputError(f"{images_at}: expected images of {SIDE}x{SIDE} pixels, found {tuple(images.shape[1:])}.")
    if len(images) != len(labels) or not len(images):
        raise InputError(
            f"{labels_at}: expected as many labels as {images_at.name} has images, and at least one, "
            f"found {len(labels)} labels and {len(images)} images."
        )
    if labels.max() > 9:
        raise InputError(f"{labels_at}: expected labels from 0 to 9, found {int(labels.max())}.")
    return Originals(images, labels.long())
