"""The folder of a run: complete or not there, with a configuration that holds no traces of the machine."""

from __future__ import annotations

import platform
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ferero.errors import InputError
from ferero.files import write_whole

__all__ = ["check_folder", "configuration", "write_file", "write_folder"]


def check_folder(path: Path, names: Iterable[str]) -> None:
    """Refuses a place whose contents a run would destroy.

    Args:
        path: where a report is to go; may be absent, empty, or hold an earlier report.
        names: the files of a report.

    Raises:
        InputError: for a file, for a folder with anything else in it, or for the current folder.
    """
    if path.is_file():
        raise InputError(f"--out: expected a folder, found the file {path}; choose another place.")
    if not path.exists():
        return
    if Path.cwd().is_relative_to(path.resolve()):
        raise InputError(f"--out: expected a folder of its own, found {path}, where you are; name a new one.")
    others = sorted({item.name for item in path.iterdir()} - set(names))
    if others:
        raise InputError(
            f"--out: expected a new folder or an earlier report, found {path} with {others[0]!r} in it; "
            "choose another place."
        )


def write_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Puts a folder with these files in place of what `check_folder` allows there.

    Everything is written to a hidden folder beside it first, so that an interrupted run leaves what was there
    before.

    Args:
        path: the folder.
        files: contents by file name.

    Raises:
        InputError: as `check_folder`.
    """
    check_folder(path, files)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    new, old = beside / "new", beside / "old"
    try:
        new.mkdir()
        for name, content in files.items():
            (new / name).write_bytes(content)
        if path.exists():
            path.rename(old)
        new.rename(path)
    except BaseException:
        if old.exists() and not path.exists():
            old.rename(path)
        raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def write_file(path: Path, content: bytes) -> None:
    """Puts a file in place at once, over an earlier one.

    Raises:
        OSError: where that fails, with the path in it; an earlier file is as it was.
    """
    write_whole(path, content, mode=0o644)


def configuration(command: str, **options: Any) -> dict[str, Any]:
    """The command, its options and the versions it ran with; no host names, no paths of this machine."""
    import numpy
    import scipy
    import torch

    import ferero

    versions = {
        "ferero": ferero.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
    }
    return {"command": command, "options": options, "versions": versions}
