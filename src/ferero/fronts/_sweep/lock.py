"""A folder for one driver at a time, with a lock that dies with its process."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

__all__ = ["Lock"]

_TAKEN = {errno.EACCES, errno.EAGAIN}


class Lock:
    """A POSIX record lock: forked workers do not inherit it, and the system lifts it when its process is killed.

    Where there are no such locks (Windows, some network disks) it is held without any effect.

    Attributes:
        is_held: whether it could be had.
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
        """Lets go of it."""
        self._file.close()
