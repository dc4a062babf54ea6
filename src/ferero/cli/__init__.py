"""The command line (extra `cli`), and what ferero-lab builds its commands with."""

from __future__ import annotations

from ferero.cli._console import (
    JsonOption,
    new_console,
    new_table,
    print_json,
    sentences,
    status_text,
    to_json,
    waiting,
)
from ferero.cli._timed_result import TimedResult, result_rows, result_table

__all__ = [
    "JsonOption",
    "TimedResult",
    "new_console",
    "new_table",
    "print_json",
    "result_rows",
    "result_table",
    "sentences",
    "status_text",
    "to_json",
    "waiting",
]
