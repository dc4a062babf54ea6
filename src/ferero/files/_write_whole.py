"""`write_whole`: writes a file atomically, to a temporary file that is then renamed."""

from __future__ import annotations

import os
import secrets
from functools import partial
from pathlib import Path

__all__ = ["UNFINISHED", "write_whole"]

UNFINISHED = ".unfinished"
"""How the name of a temporary file ends: a killed process may leave one behind."""


def write_whole(path: Path, content: bytes | memoryview, mode: int = 0o600) -> None:
    """Writes a file, or replaces it, atomically; the content is on the disk before the file has its name.

    Args:
        path: of the file; its folder is made if there is none.
        content: of the file.
        mode: its permissions, less what the umask takes away.

    Raises:
        OSError: if writing fails, on a full disk for instance, with the path in it; an earlier file stays as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}-{secrets.token_hex(4)}{UNFINISHED}")
    try:
        with open(beside, "xb", opener=partial(os.open, mode=mode)) as file:  # Path.open has no opener
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException as error:
        beside.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)
        raise
