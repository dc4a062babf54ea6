"""`SweepStore`: the folder of a sweep, which keeps finished points whatever happens to the process that drives it.

``sweep.json`` says for which preferences the folder is; ``point-0003-<checksum>.pt`` is a finished point, plain data
for ``torch.load(..., weights_only=True)``. Each file is written under another name first and then renamed, so a file
with its final name is complete, and the checksum in the name reveals damage on disk.

Workers send results as the same bytes: tensors in shared memory would be gone with their worker, and a file that was
found on disk must not run code. The preference is not part of the bytes; the sweep knows it.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ferero.errors import InputError
from ferero.files._write_whole import UNFINISHED, write_whole
from ferero.fronts._trained import Course, Trained
from ferero.geometry import Cone
from ferero.optimize._certificate import KKT
from ferero.optimize._result import History, Result
from ferero.preference import Preference

__all__ = ["SweepStore", "pack", "unpack"]

_ABOUT, _LOCK = "sweep.json", ".lock"
_MODE = 0o666  # the umask decides who may read a sweep
_POINT = re.compile(r"point-(\d+)-([0-9a-f]{16})\.pt")
_TAKEN = {errno.EACCES, errno.EAGAIN}
_ROUNDING = 1e-9  # between the same preferences on two machines
_PARTS = {"course": Course, "kkt": KKT, "history": History}
_ARRAY = "numpy array"  # the key of a tensor that was one


class SweepStore:
    """The folder of one sweep, made if it does not exist and locked until it is closed.

    Raises:
        InputError: for a folder of other preferences or with other files, or one that another sweep has locked.
    """

    def __init__(self, folder: str | os.PathLike[str], preferences: Sequence[Preference]) -> None:
        self._folder, self._preferences = Path(folder), preferences
        about = _describe(preferences)
        found = self._read_about()
        if found and (differing := _difference(found, about)):
            raise InputError(f"folder: {self} is of another sweep: {differing}. Name another folder.")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = _Lock(self._folder / _LOCK)
            if not found and self._lock.is_held:
                write_whole(self._folder / _ABOUT, json.dumps({"format": 1, **about}, indent=1).encode(), _MODE)
        except OSError as error:
            raise InputError(f"folder: {self} cannot be written to: {error}.") from error
        if not self._lock.is_held:
            raise InputError(f"folder: another sweep is at work in {self}; wait until it ends, or name another folder.")

    def __str__(self) -> str:
        return repr(str(self._folder))

    def load(self) -> dict[int, Trained | Result]:
        """The finished points by index; warns of damaged files and deletes them."""
        finished: dict[int, Trained | Result] = {}
        for path in sorted(self._folder.iterdir()):
            if path.name.endswith(UNFINISHED):
                path.unlink()
            elif (named := _POINT.fullmatch(path.name)) and int(named[1]) < len(self._preferences):
                point = self._read(path, int(named[1]), named[2])
                if point is not None:
                    finished[int(named[1])] = point
        return finished

    def keep(self, index: int, parcel: bytes) -> None:
        """Writes a finished point.

        Raises:
            OSError: if that fails; the partial file is deleted.
        """
        write_whole(self._folder / f"point-{index:04d}-{_checksum(parcel)}.pt", parcel, _MODE)

    def close(self) -> None:
        """Unlocks the folder."""
        self._lock.release()

    def _read_about(self) -> dict[str, Any]:
        """The content of ``sweep.json``; empty for a new folder."""
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
        others = [p.name for p in self._folder.iterdir() if p.name != _LOCK and not p.name.endswith(UNFINISHED)]
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


def _checksum(parcel: bytes) -> str:
    return hashlib.sha256(parcel).hexdigest()[:16]


class _Lock:
    """A POSIX record lock: forked workers do not inherit it, and the system releases it when its process is killed.

    Without effect where there are no such locks (Windows, some network disks).

    Attributes:
        is_held: whether it was acquired.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("w")
        self.is_held = True
        with suppress(ImportError):
            import fcntl

            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                self.is_held = error.errno not in _TAKEN
        if not self.is_held:
            self._file.close()

    def release(self) -> None:
        """Releases the lock."""
        self._file.close()


def _describe(preferences: Sequence[Preference]) -> dict[str, Any]:
    """The names, and each preference as text and numbers, for ``json.dumps``."""
    return {"names": list(preferences[0].names), "preferences": [_describe_one(p) for p in preferences]}


def _describe_one(p: Preference) -> dict[str, Any]:
    equalities = torch.cat([p.B_h, p.b_h[:, None]], dim=1)
    return {
        "text": str(p),
        "levels": [str(constraint.schedule) for constraint in p.constraints if constraint.schedule is not None],
        "order": p.A.tolist(),
        "inequalities": torch.cat([p.B_g, p.b_g[:, None], p.margins[:, None]], dim=1).tolist(),
        "equalities": (equalities.T @ equalities).tolist(),  # does not depend on the basis of a ray's complement
    }


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    """How two descriptions differ, in words; empty if they do not, up to rounding."""
    if old["names"] != new["names"]:
        return f"it is for the losses {', '.join(old['names'])}, and these are {', '.join(new['names'])}"
    if len(old["preferences"]) != len(new["preferences"]):
        return f"it is for {len(old['preferences'])} preferences, and these are {len(new['preferences'])}"
    for i, (was, now) in enumerate(zip(old["preferences"], new["preferences"], strict=True)):
        is_close = all(_is_close(was[part], now[part]) for part in ("order", "inequalities", "equalities"))
        if not is_close or was.get("levels", []) != now["levels"]:
            return f"its preferences[{i}] is {_line(was['text'])!r}, and this one is {_line(now['text'])!r}"
    return ""


def _is_close(was: Any, now: Any) -> bool:
    a, b = np.asarray(was, dtype=np.float64), np.asarray(now, dtype=np.float64)
    return a.shape == b.shape and np.allclose(a, b, rtol=_ROUNDING, atol=_ROUNDING * np.abs(b).max(initial=0.0))


def _line(text: str) -> str:
    return "; ".join(line.strip() for line in text.splitlines())


def pack(found: Trained | Result) -> bytes:
    """A result as bytes, without its preference, with its tensors copied to the CPU.

    Raises:
        InputError: for a state_dict that holds more than tensors, numbers, text and containers of these.
    """
    content = {"kind": type(found).__name__, **_field_values(found)}
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def unpack(parcel: bytes, preference: Preference) -> Trained | Result:
    """The packed result, with its preference.

    Raises:
        Exception: of many kinds, for bytes that hold no packed result.
    """
    content = torch.load(io.BytesIO(parcel), map_location="cpu", weights_only=True)
    kind = {"Trained": Trained, "Result": Result}[content.pop("kind")]
    found: Trained | Result = kind(preference=preference, **{name: _restored(content[name], name) for name in content})
    if len(found.losses) != preference.m:
        raise InputError(f"parcel: expected {preference.m} losses, found {len(found.losses)}.")
    return found


def _field_values(thing: Any) -> dict[str, Any]:
    return {
        field.name: _plain(getattr(thing, field.name), field.name)
        for field in fields(thing)
        if field.name != "preference"
    }


def _plain(value: Any, name: str) -> Any:
    """The value converted to tensors, numbers, text and containers of these."""
    if isinstance(value, (dict, list, tuple)):
        return _plain_items(value, name)
    if isinstance(value, Cone):
        return value.matrix
    if isinstance(value, tuple(_PARTS.values())):
        return _field_values(value)
    if isinstance(value, np.ndarray):
        return {_ARRAY: torch.from_numpy(value.copy())}
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()  # a view would take its whole storage along
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is not None and not isinstance(plain, (bool, int, float, str, bytes)):
        raise InputError(
            f"train_one: {name} of what it returned: expected tensors, numbers, text and containers of these, found "
            f"{type(value).__name__}."
        )
    return plain


def _plain_items(value: dict[Any, Any] | list[Any] | tuple[Any, ...], name: str) -> Any:
    if not isinstance(value, dict):
        items = [_plain(item, f"{name}[{i}]") for i, item in enumerate(value)]
        return tuple(items) if isinstance(value, tuple) else items
    copied: dict[Any, Any] = OrderedDict() if isinstance(value, OrderedDict) else {}
    copied.update((key, _plain(item, f"{name}[{key!r}]")) for key, item in value.items())
    if hasattr(value, "_metadata"):  # of a module's state_dict: the versions of its layers
        copied._metadata = value._metadata  # type: ignore[attr-defined]
    return copied


def _restored(value: Any, name: str) -> Any:
    if name == "cone":
        return Cone(value)
    if name in _PARTS and value is not None:
        return _PARTS[name](**{key: _restored(item, key) for key, item in value.items()})
    if isinstance(value, dict) and set(value) == {_ARRAY}:
        return value[_ARRAY].numpy()
    return value
