"""Console output of the commands: tables for people, JSON for programs, and errors as one sentence."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ferero.errors import FereroError

__all__ = ["JsonOption", "new_console", "new_table", "print_json", "sentences", "status_text", "to_json", "waiting"]

JsonOption = Annotated[bool, typer.Option("--json", help="Only JSON on stdout, for programs.")]
_STYLES = {"converged": "green", "unattainable": "yellow"}


@contextmanager
def sentences(before: str = "interrupted") -> Iterator[None]:
    """Turns expected errors into one sentence on stderr and an exit code.

    Args:
        before: what is said after an interrupt, without its full stop.
    """
    try:
        yield
    except FereroError as error:
        _say_error(str(error))
        raise typer.Exit(1) from None
    except OSError as error:
        _say_error(f"{error.filename or 'file'}: {error.strerror or error}")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        _say_error(f"{before}.")
        raise typer.Exit(130) from None


def _say_error(text: str) -> None:
    line = Text.assemble(("ferero: ", "bold red"), text)
    Console(stderr=True).print(line, soft_wrap=True, highlight=False)


def new_console(json: bool) -> Console:
    """A console for people; silent with --json."""
    return Console(quiet=json, highlight=False)


def print_json(value: Any) -> None:
    """Writes a value to stdout as JSON."""
    sys.stdout.write(to_json(value))


def to_json(value: Any) -> str:
    """Indented JSON with a last newline; numbers that are not finite become null, for JSON has none."""
    return json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def new_table(title: str | None = None) -> Table:
    """An empty table in the style of the command line."""
    look = {"title_justify": "left", "title_style": "bold", "box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0)}
    return Table(title=title, pad_edge=False, **look)  # type: ignore[arg-type]


def status_text(status: str) -> Text:
    """A run's status in its colour."""
    return Text(status, style=_STYLES.get(status, "red"))


@contextmanager
def waiting(console: Console, what: str, patience: float = 2.0) -> Iterator[None]:
    """Shows a status line once the block has taken longer than ``patience`` seconds; only in a terminal."""
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
