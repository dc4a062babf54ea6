"""A file that is either the old one or the new one: written beside its place, then moved into it."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, content: bytes | memoryview, mode: int = 0o600) -> None:
    """Put a file in place at once, over an earlier one.

    Args:
        path: where; its folder is made if there is none.
        content: all of it.
        mode: who may read and write it.

    Raises:
        OSError: where that fails, on a full disk for instance, with the path in it; an earlier file is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException as error:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)
        raise
