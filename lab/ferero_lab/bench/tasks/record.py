"""The rivals of record: their scores in every cell of both halves, which took two cores some three hours.

To make them anew::

    python -m ferero_lab.bench.tasks --half tune --who rivals --out lines/tune.jsonl
    python -m ferero_lab.bench.tasks --half report --who rivals --out lines/report.jsonl
    python -m ferero_lab.bench.tasks.record lines

The file has a line of JSON for each cell (see `cell.rival_scores`), numbers to five digits, compressed.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ferero.errors import InputError
from ferero_lab.bench.tasks.figures import Line, key_of
from ferero_lab.bench.tasks.lines import of_kind, read_lines
from ferero_lab.bench.tasks.registry import Half

__all__ = ["PLACE", "read_rivals", "write_rivals"]

PLACE = Path(__file__).parents[4] / "benchmarks/results/tasks-rivals.jsonl.gz"


def read_rivals(half: Half, place: Path = PLACE) -> list[Line]:
    """The lines of a half.

    Raises:
        InputError: there is no such file, as where ferero was not installed from its repository.
    """
    if not place.exists():
        raise InputError(
            f"bench tasks: expected the rivals of record in {place}, found no such file; run it from a clone of the "
            "repository, or train the rivals as well with --rivals."
        )
    with gzip.open(place, "rt", encoding="utf-8") as file:
        return [line for line in map(json.loads, file) if line["half"] == half]


def write_rivals(lines: Iterable[Line], place: Path = PLACE) -> None:
    """Keep lines of rivals, sorted, to five digits; the same lines give the same bytes.

    Raises:
        InputError: there are none.
    """
    kept = sorted(of_kind(lines, "rivals"), key=key_of)
    if not kept:
        raise InputError("lines: expected some with the scores of rivals, found none; name the folder that has them.")
    texts = [json.dumps(dict(line) | {"rivals": _short(line["rivals"])}, separators=(",", ":")) for line in kept]
    place.write_bytes(gzip.compress("".join(f"{text}\n" for text in texts).encode(), 9, mtime=0))


def _short(scores: list[list[float | None]]) -> list[list[Any]]:
    return [[None if value is None else json.loads(f"{value:.5g}") for value in score] for score in scores]


if __name__ == "__main__":
    write_rivals(line for name in sys.argv[1:] for line in read_lines(Path(name)))
