"""`RunFolder`: the folder of a run, whose files are all written atomically.

config.json        the settings, versions and device
parts/KEY.json     the result of a part, with a checksum, written when it is finished
checkpoints/KEY/   what a part saves while it runs
report.html, ...   the report
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from ferero.errors import InputError
from ferero_lab.experiments.experiment import Found, Settings
from ferero_lab.report import to_json, write_file

__all__ = ["RunFolder"]


class RunFolder:
    """A run on disk.

    Args:
        path: of the folder, which need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def check(self, config: dict[str, Any], *, resume: bool) -> None:
        """Checks that a run may begin or continue here; changes nothing.

        Args:
            config: of this run, with "options" and "versions".
            resume: whether an earlier run may be continued.

        Raises:
            InputError: a path that is taken, or a run of other settings or versions.
        """
        path = self.path
        if path.exists() and not path.is_dir():
            raise InputError(f"--out: expected a folder, found the file {path}; choose another place.")
        if path.is_dir() and any(path.iterdir()):
            if not resume:
                raise InputError(f"--out: {path} exists; continue it with --resume, or choose another --out.")
            _check_same(path, self.config(), json.loads(to_json(config)))

    def begin(self, config: dict[str, Any]) -> None:
        """Writes the configuration, unless there is one."""
        if not (self.path / "config.json").exists():
            self.write("config.json", to_json(config).encode())

    def config(self) -> dict[str, Any]:
        """The configuration that the run began with.

        Raises:
            InputError: a folder without one, or one that cannot be read.
        """
        file = self.path / "config.json"
        if not file.is_file():
            raise InputError(f"{self.path}: expected the folder of a run, found no config.json in it; choose another.")
        try:
            config = json.loads(file.read_bytes())
            known = set(config["options"])
        except (ValueError, KeyError, TypeError):
            known = set()
        if not {"experiment", "mode"} <= known:
            raise InputError(f"{file}: expected the configuration of a run, found none; choose another folder.")
        return dict(config)

    def settings(self) -> Settings:
        """The settings in `config`; the data folder, which is not saved, is None."""
        options = self.config()["options"]
        known: dict[str, Any] = {one.name: options[one.name] for one in fields(Settings) if one.name in options}
        for name in ("only", "methods"):
            known[name] = tuple(known.get(name, ()))
        return Settings(**known)

    def checkpoints(self, key: str) -> Path:
        """The checkpoint folder of a part, made if there is none."""
        place = self.path / "checkpoints" / key
        place.mkdir(parents=True, exist_ok=True)
        return place

    def keep(self, key: str, found: Found) -> Found:
        """Writes the result of a part and returns it as a later run reads it: without NaN, lists for tuples."""
        plain = json.loads(to_json(found))
        self.write(f"parts/{key}.json", to_json({"sha256": _digest(plain), "found": plain}).encode())
        for place in (self.path / "checkpoints" / key, self.path / "checkpoints"):
            with suppress(OSError):
                place.rmdir()  # only if it is empty
        return dict(plain)

    def kept(self, key: str) -> Found | None:
        """The result of a part; None if it is missing or damaged."""
        try:
            stored = json.loads((self.path / "parts" / f"{key}.json").read_bytes())
            found: Found = stored["found"]
            return found if stored["sha256"] == _digest(found) else None
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def part_keys(self) -> list[str]:
        """The keys of the parts that have a file, damaged or not, sorted."""
        return sorted(file.stem for file in (self.path / "parts").glob("*.json"))

    def has_begun(self, keys: Iterable[str]) -> bool:
        """Whether there is something to continue: a finished part, or a checkpoint of one of these."""
        places = (self.path / "checkpoints" / key for key in keys)
        return bool(self.part_keys()) or any(file.is_file() for place in places for file in place.rglob("*"))

    def write(self, name: str, content: bytes) -> None:
        """Writes a file atomically; the name may contain folders."""
        write_file(self.path / name, content)


def _digest(plain: Any) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _check_same(path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    for group in ("options", "versions"):
        for name in {**before.get(group, {}), **now[group]}:
            old, new = (config.get(group, {}).get(name) for config in (before, now))
            if old != new:
                raise InputError(
                    f"--resume: {path} was begun with {name} = {_word(old)}, this is {_word(new)}; repeat that, or "
                    "choose another --out."
                )


def _word(value: Any) -> str:
    return "none" if value in (None, []) else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
