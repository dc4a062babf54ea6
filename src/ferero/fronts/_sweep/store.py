"""A sweep's folder: what is finished, safe from whatever happens to the driver.

``sweep.json`` says for which preferences the folder is; ``point-0003-<checksum>.pt`` is a finished point, plain data
for ``torch.load(..., weights_only=True)``. Files are written under another name first, so that one with its own name is
whole, and the checksum in the name tells where a disk has spoilt it later.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ferero.errors import InputError
from ferero.fronts._sweep.identity import describe, difference
from ferero.fronts._sweep.lock import Lock
from ferero.fronts._sweep.pack import unpack
from ferero.fronts._trained import Trained
from ferero.optimize._result import Result
from ferero.preference import Preference

__all__ = ["Store"]

_ABOUT, _LOCK, _UNFINISHED = "sweep.json", ".lock", ".unfinished"
_POINT = re.compile(r"point-(\d+)-([0-9a-f]{16})\.pt")


class Store:
    """The folder of one sweep, made if it is not there; this driver's alone until it is closed.

    Raises:
        InputError: for a folder of other preferences or of other files, or one where another sweep is at work.
    """

    def __init__(self, folder: str | os.PathLike[str], preferences: Sequence[Preference]) -> None:
        self._folder, self._preferences = Path(folder), preferences
        about = describe(preferences)
        found = self._look()
        if found and (unlike := difference(found, about)):
            raise InputError(f"folder: {self} is of another sweep: {unlike}. Name another folder.")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = Lock(self._folder / _LOCK)
            if not found and self._lock.is_held:
                self._write(_ABOUT, json.dumps({"format": 1, **about}, indent=1).encode())
        except OSError as error:
            raise InputError(f"folder: {self} cannot be written to: {error}.") from error
        if not self._lock.is_held:
            raise InputError(f"folder: another sweep is at work in {self}; wait until it ends, or name another folder.")

    def __str__(self) -> str:
        return repr(str(self._folder))

    def load(self) -> dict[int, Trained | Result]:
        """The finished points by index; one whose file is damaged is not among them, and a warning says so."""
        finished: dict[int, Trained | Result] = {}
        for path in sorted(self._folder.iterdir()):
            if path.name.endswith(_UNFINISHED):
                path.unlink()
            elif (named := _POINT.fullmatch(path.name)) and int(named[1]) < len(self._preferences):
                point = self._read(path, int(named[1]), named[2])
                if point is not None:
                    finished[int(named[1])] = point
        return finished

    def keep(self, index: int, parcel: bytes) -> None:
        """Writes a finished point.

        Raises:
            OSError: where that fails; nothing is left of it then.
        """
        self._write(f"point-{index:04d}-{_checksum(parcel)}.pt", parcel)

    def close(self) -> None:
        """Lets others have the folder."""
        self._lock.release()

    def _look(self) -> dict[str, Any]:
        """What the folder says it is for; empty for a new one."""
        if self._folder.exists() and not self._folder.is_dir():
            raise InputError(f"folder: expected a folder, found the file {self}.")
        try:
            found: dict[str, Any] = json.loads((self._folder / _ABOUT).read_text(encoding="utf-8"))
            is_ours = found["format"] == 1 and bool(found["names"]) and bool(found["preferences"])
        except (FileNotFoundError, NotADirectoryError):
            self._check_new()
            return {}
        except OSError as error:
            raise InputError(f"folder: {self} cannot be read: {error}.") from error
        except (ValueError, KeyError, TypeError):
            is_ours = False
        if not is_ours:
            raise InputError(f"folder: {self} has a {_ABOUT} that cannot be read; name another folder.")
        return found

    def _check_new(self) -> None:
        if not self._folder.exists():
            return
        others = [p.name for p in self._folder.iterdir() if p.name != _LOCK and not p.name.endswith(_UNFINISHED)]
        if others:
            raise InputError(
                f"folder: expected a new one or one of a sweep, found {self} with {min(others)!r} in it; name another."
            )

    def _read(self, path: Path, index: int, checksum: str) -> Trained | Result | None:
        try:
            parcel = path.read_bytes()
            if _checksum(parcel) == checksum:
                return unpack(parcel, self._preferences[index])
            what = "its checksum differs"
        except Exception as error:  # unpickling what is damaged, or of another version, fails in many ways
            what = f"{type(error).__name__}: {error}"
        warnings.warn(f"folder: {path.name} is damaged ({what}); its point is run again.", stacklevel=5)
        path.unlink(missing_ok=True)
        return None

    def _write(self, name: str, content: bytes) -> None:
        path = self._folder / (name + _UNFINISHED)
        try:
            with path.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            path.replace(self._folder / name)
        except OSError:
            path.unlink(missing_ok=True)
            raise


def _checksum(parcel: bytes) -> str:
    return hashlib.sha256(parcel).hexdigest()[:16]
