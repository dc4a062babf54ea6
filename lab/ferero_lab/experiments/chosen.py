"""What a user chose from a list of names."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from ferero.errors import InputError

__all__ = ["chosen"]


def chosen(option: str, given: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """The names that were given, in the order of those that are known; all of them where none was given.

    Raises:
        InputError: a name that there is not, with the one that may have been meant.
    """
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            guess = f"; did you mean {close[0]!r}?" if close else "."
            raise InputError(f"{option}: expected some of {', '.join(known)}, found {name!r}{guess}")
    return tuple(name for name in known if name in given) if given else tuple(known)
