"""What a data file holds, packed with gzip or not, and the sentence for one that is damaged."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from pathlib import Path

from ferero.errors import InputError

__all__ = ["lines", "sha256", "unpacked"]

_GZIP = b"\x1f\x8b"


def unpacked(path: Path) -> bytes:
    """The content of a file, without the gzip around it if there is one (told by its first bytes, not by its name).

    Raises:
        InputError: when the gzip is truncated or damaged.
    """
    raw = path.read_bytes()
    if not raw.startswith(_GZIP):
        return raw
    try:
        return gzip.decompress(raw)
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(
            f"{path}: expected a whole gzip file, found a truncated or damaged one ({error}). Fetch it again."
        ) from None


def lines(path: Path) -> list[str]:
    """The lines of a text file in UTF-8, packed or not, without their ends.

    Raises:
        InputError: when the gzip is damaged, or the content is not text.
    """
    try:
        return unpacked(path).decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected text in UTF-8, found other bytes at {error.start}.") from None


def sha256(content: bytes) -> str:
    """The sha256 of the content, 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()
