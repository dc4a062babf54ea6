"""How a command speaks: tables for a person, JSON for a program, one sentence when something goes wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from ferero.errors import FereroError

__all__ = ["JsonOption", "new_console", "print_json", "sentences"]

JsonOption = Annotated[bool, typer.Option("--json", help="Only JSON on stdout, for programs.")]


@contextmanager
def sentences(before: str = "interrupted") -> Iterator[None]:
    """What goes wrong on purpose ends with one sentence on stderr and an exit code.

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
    """Where a person reads; with --json nobody does."""
    return Console(quiet=json, highlight=False)


def print_json(value: Any) -> None:
    """For a program."""
    from ferero_lab.report import to_json

    sys.stdout.write(to_json(value))
