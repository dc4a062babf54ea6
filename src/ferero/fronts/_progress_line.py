"""`ProgressLine`: the progress of training on one line of the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO, TypeAlias

__all__ = ["ProgressLine", "Watcher", "read_watcher"]

Watcher: TypeAlias = Callable[[int, int], None]
"""``watcher(done, total)``."""

_INTERVAL = 0.2  # seconds between two updates


class ProgressLine:
    """``training 12 models: 37 %, 1:24 left``, updated in place and erased at the end.

    Args:
        title: what runs.
        stream: stderr if None.
    """

    def __init__(self, title: str, stream: TextIO | None = None) -> None:
        self._title, self._stream = title, sys.stderr if stream is None else stream
        self._begin: float | None = None
        self._first, self._drawn = 0, 0.0

    def __call__(self, done: int, total: int) -> None:
        """Updates the line, at most every 0.2 s."""
        now = time.monotonic()
        if self._begin is None:
            self._begin, self._first = now, done
        if done < total and now - self._drawn < _INTERVAL:
            return
        self._drawn = now
        text = "" if done >= total else f"{self._title}: {100 * done // max(total, 1)} %{self._left(done, total, now)}"
        self._stream.write(f"\r\x1b[K{text}")
        self._stream.flush()

    def _left(self, done: int, total: int, now: float) -> str:
        assert self._begin is not None
        gone, made = now - self._begin, done - self._first
        if made <= 0 or gone < 1:
            return ""
        seconds = round(gone / made * (total - done))
        hours, rest = divmod(seconds, 3600)
        minutes, seconds = divmod(rest, 60)
        clock = f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
        return f", {clock} left"


def read_watcher(progress: Watcher | bool | None, title: str) -> Watcher:
    """The user's function, a `ProgressLine` (True, or None on a terminal), or a function that does nothing."""
    if callable(progress):
        return progress
    if progress or (progress is None and sys.stderr.isatty()):
        return ProgressLine(title)
    return lambda done, total: None  # noqa: ARG005
