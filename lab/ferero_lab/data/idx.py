"""The idx format of MNIST: a few bytes that say how many numbers of which kind follow, then the numbers."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ferero.errors import InputError
from ferero_lab.data.content import unpacked

__all__ = ["read_idx"]

_UINT8 = 0x08


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
