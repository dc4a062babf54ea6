"""Data files: found in a folder the user names, else downloaded from their public homes; checked, and unpacked."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from pathlib import Path

from ferero.errors import FereroError, InputError, MissingExtraError
from ferero_lab.data.registry import FILES, DataFile

__all__ = ["DownloadError", "find_file", "lines", "unpacked"]

_GZIP = b"\x1f\x8b"
_checked: set[tuple[str, Path, int, int]] = set()


class DownloadError(FereroError, ConnectionError):
    """A data file is in no folder that was named and could not be downloaded."""


def find_file(name: str, folder: str | Path | None = None) -> Path:
    """The place of a data file whose checksum is right.

    It is looked for in the folder, under its sub-folder (``mnist``, ``fashion-mnist``, ``emotions``, ``adult``, or
    torchvision's ``MNIST/raw`` and ``FashionMNIST/raw``) and directly, packed with gzip or not. If it is not there it
    is downloaded once, into pooch's cache. A file is checked once in a process, again only if it changes on disk.

    Args:
        name: one of ``ferero_lab.data.registry.FILES``, such as "mnist/train-images-idx3-ubyte.gz".
        folder: where to look first; None for the folder in the environment variable FERERO_DATA, if that is set.

    Returns:
        The path of the file, packed or not.

    Raises:
        InputError: for an unknown name, a folder that does not exist, or a file with another checksum.
        DownloadError: when the file is not in the folder and cannot be downloaded.
        MissingExtraError: when it is to be downloaded, without pooch; it comes with ``ferero-lab``.
    """
    if name not in FILES:
        raise InputError(f"name: expected one of {', '.join(FILES)}, found {name!r}.")
    file = FILES[name]
    home = _folder(folder)
    found = _look(file, home) if home is not None else None
    return found or _download(file, home)


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


def _folder(folder: str | Path | None) -> Path | None:
    """The folder that the user named, if any."""
    named = folder if folder is not None else os.environ.get("FERERO_DATA") or None
    if named is None:
        return None
    path = Path(named).expanduser()
    if not path.is_dir():
        who = "folder" if folder is not None else "FERERO_DATA"
        raise InputError(f"{who}: expected a folder with data files, found no folder at {path}.")
    return path


def _look(file: DataFile, folder: Path) -> Path | None:
    for place in (*file.folders, "."):
        for spelling in file.spellings:
            path = folder / place / spelling
            if path.is_file() and not (place == "." and _is_of_another(file, path)):
                _check(file, path)
                return path
    return None


def _is_of_another(file: DataFile, path: Path) -> bool:
    """Whether it is the file of that name of another data set: MNIST and Fashion-MNIST use the same names."""
    others = [other for other in FILES.values() if other.base == file.base and other != file]
    if not others:
        return False
    digest = _sha256(path.read_bytes())
    return any(digest in {other.download, other.content} for other in others)


def _check(file: DataFile, path: Path) -> None:
    """Raises InputError unless the checksum is that of the file as its home gives it, or of its unpacked content."""
    state = path.stat()
    key = (file.content, path, state.st_size, state.st_mtime_ns)
    if key in _checked:
        return
    digest = _sha256(path.read_bytes())
    if digest != file.download:
        digest = _sha256(unpacked(path))
    if digest not in {file.download, file.content}:
        raise InputError(
            f"{path}: expected {file.name}, whose unpacked content has sha256 {file.content}, found {digest}. "
            "Fetch the file again, or remove it to have it downloaded."
        )
    _checked.add(key)


def _download(file: DataFile, folder: Path | None) -> Path:
    try:
        import pooch  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError(
            f"{file.name}: pooch, which would download it, is not installed; it comes with "
            "pip install ferero-lab. Or put the file into a folder and name it with --data or FERERO_DATA."
        ) from None
    cache = Path(pooch.os_cache("ferero")) / file.folders[0]
    reasons = []
    for home in file.homes:
        try:
            return Path(
                pooch.retrieve(home + file.base, known_hash=f"sha256:{file.download}", fname=file.base, path=cache)
            )
        except OSError as error:  # no network, no such page, no space
            reasons.append(f"{home + file.base} ({error.strerror or type(error).__name__})")
        except ValueError:
            reasons.append(f"{home + file.base} (another checksum)")
    missing = "" if folder is None else f" is not in {folder} and"
    raise DownloadError(
        f"{file.name}{missing} could not be downloaded from {' or '.join(reasons)}; "
        "put it into a folder and name it with --data or FERERO_DATA."
    )


def _sha256(content: bytes) -> str:
    """The sha256 of the content, 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()
