"""A preference's text cut into tokens, and the error that points at one of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from ferero.errors import FereroError, InputError

__all__ = ["Token", "fail_at", "tokenize"]

_TOKEN = re.compile(
    r"(?P<space>[^\S\n]+)"
    r"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[^\W\d]\w*)"
    r"|(?P<relation><=|>=|==|=|<|>)"
    r"|(?P<symbol>[-+*/()])"
    r"|(?P<separator>[;,\n])"
)


@dataclass(frozen=True)
class Token:
    """A piece of the text.

    Args:
        kind: number, name, relation, symbol, separator or end.
        text: the characters.
        start: where they begin.
    """

    kind: str
    text: str
    start: int


def tokenize(text: str) -> list[Token]:
    """The tokens of `text` and an end token; spaces, and new lines inside parentheses, are left out.

    Raises:
        InputError: at a character that begins no token.
    """
    tokens, start, depth = [], 0, 0
    while start < len(text):
        match = _TOKEN.match(text, start)
        if match is None or match.lastgroup is None:
            fail_at(text, start, f"unexpected '{text[start]}'")
        token = Token(match.lastgroup, match.group(), start)
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if token.kind != "space" and not (token.text == "\n" and depth > 0):
            tokens.append(token)
        start = match.end()
    return [*tokens, Token("end", "", len(text))]


def fail_at(text: str, start: int, message: str, family: type[FereroError] = InputError) -> NoReturn:
    """Raise `family` with the message, the line of `text` and a caret under `start`."""
    line_start = text.rfind("\n", 0, start) + 1
    line = text[line_start:].split("\n", 1)[0]
    raise family(f"text: {message}\n  {line}\n  {' ' * (start - line_start)}^")
