"""The command line: `solve` is the library's; `demo`, `run`, `report`, `bench` and `list` come with ferero-lab.

Exit codes: 0 done, 1 bad input (one sentence on stderr), 2 `solve` ended without meeting its conditions,
130 interrupted.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Annotated

import typer

import ferero
from ferero.cli._console import sentences
from ferero.cli._solve import solve
from ferero.errors import MissingExtraError

__all__ = ["app", "main"]

_OF_THE_LAB = ("demo", "run", "report", "bench", "list")

app = typer.Typer(
    help="Finds the trade-off you ask for.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(solve)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"ferero {ferero.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and leave."),
    ] = False,
) -> None:
    del version


def _add_missing(name: str, module: str) -> None:
    """A command that says what to install."""

    def command(arguments: Annotated[list[str] | None, typer.Argument()] = None) -> None:
        del arguments
        with sentences():
            raise MissingExtraError(
                f"{name}: this command comes with ferero-lab, and {module} is not installed; pip install ferero-lab."
            )

    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    app.command(name, help="Comes with ferero-lab, which is not installed.", context_settings=settings)(command)


try:
    from ferero_lab.cli import add_commands
except ModuleNotFoundError as error:
    for missing in _OF_THE_LAB:
        _add_missing(missing, error.name or "ferero_lab")
else:
    add_commands(app)


def main(args: list[str] | None = None) -> int:
    """Runs the command line.

    Args:
        args: those of the process if None.

    Returns:
        The exit code.
    """
    signal.signal(signal.SIGTERM, _terminate)
    try:
        return int(app(args, standalone_mode=False) or 0)
    except Exception as error:
        show = getattr(error, "show", None)  # the option parser's errors, whichever package they live in
        if show is None:
            raise
        show()
        return 1


def _terminate(signum: int, frame: FrameType | None) -> None:
    """SIGTERM unwinds like an interrupt, so that half-written folders are taken away."""
    del frame
    sys.exit(128 + signum)
