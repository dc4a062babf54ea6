"""The text files that come with recordings."""

from __future__ import annotations

from pathlib import Path

from ferero.errors import InputError

__all__ = ["read_lines"]


def read_lines(path: Path) -> list[str]:
    r"""The lines of a UTF-8 file. They end with \n or \r\n only: a text may hold Unicode's other ends of lines.

    Raises:
        InputError: when there is no such file, or it is in another encoding.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: expected a text file, found none to read ({error.strerror}).") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: expected text in UTF-8, found something else at byte {error.start}. Save it as UTF-8."
        ) from None
    return [line.rstrip("\r") for line in text.split("\n")]
