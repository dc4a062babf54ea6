"""A spinner for those who wait, and nothing for those who do not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

from rich.console import Console

__all__ = ["waiting"]


@contextmanager
def waiting(console: Console, what: str, patience: float = 2.0) -> Iterator[None]:
    """Shows what is going on once it has taken longer than ``patience`` seconds; only in a terminal."""
    if not console.is_terminal:
        yield
        return
    status = console.status(what)
    timer = Timer(patience, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()
