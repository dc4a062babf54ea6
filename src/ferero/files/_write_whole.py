"""`write_whole`: writes a file atomically, to a temporary file that is then renamed."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, content: bytes | memoryview, mode: int = 0o600) -> None:
    """Writes a file, or replaces it, atomically.

    Args:
        path: of the file; its folder is made if there is none.
        content: of the file.
        mode: its permissions.

    Raises:
        OSError: if writing fails, on a full disk for instance, with the path in it; an earlier file stays as it was.
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
