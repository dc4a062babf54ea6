"""The entry point of `ferero` and `python -m ferero`; the packages that the command line needs are optional."""

from __future__ import annotations

import sys

import ferero

__all__ = ["main"]


def main() -> None:
    """Runs the command line, or names the extra that brings it; the version is known without."""
    if sys.argv[1:] == ["--version"]:
        print(f"ferero {ferero.__version__}")
        return
    try:
        from ferero.cli._app import main as run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"typer", "click", "rich"}:
            raise
        print(
            f'ferero: the command line needs {error.name}, which is missing; run pip install "ferero[cli]".',
            file=sys.stderr,
        )
        raise SystemExit(1) from None
    raise SystemExit(run())


if __name__ == "__main__":
    main()
