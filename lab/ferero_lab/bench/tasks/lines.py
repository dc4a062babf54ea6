"""Lines of measured cells in files, one of JSON for each: what is there is not measured again; processes add the rest.

The rivals of record are such lines, compressed: their scores in every cell of both halves, numbers to five digits,
which took two cores some three hours. To make them anew::

    python -m ferero_lab.bench.tasks --half tune --who rivals --out lines/tune.jsonl
    python -m ferero_lab.bench.tasks --half report --who rivals --out lines/report.jsonl
    python -m ferero_lab.bench.tasks.lines lines
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ferero.errors import InputError
from ferero_lab.bench.tasks.cell import Cell, Key, Line, ferero_score, key_of, rival_scores, variant_scores
from ferero_lab.bench.tasks.registry import Half
from ferero_lab.worker_pool import Advance, WorkerPool

__all__ = [
    "PLACE",
    "WORK",
    "Who",
    "add_lines",
    "missing",
    "of_kind",
    "read_lines",
    "read_rivals",
    "work_on",
    "write_rivals",
]

Who: TypeAlias = Literal["ferero", "rivals", "variants"]
WORK: dict[Who, Callable[[Cell], dict[str, Any]]] = {
    "ferero": ferero_score,
    "rivals": rival_scores,
    "variants": variant_scores,
}
"""Who trains a cell; the key under which its line has the scores is the same word."""

PLACE = Path(__file__).parents[4] / "benchmarks/results/tasks-rivals.jsonl.gz"
"""The rivals of record."""


def read_lines(place: Path) -> list[Line]:
    """All lines of a file, or of every .jsonl file in a folder; none where there is nothing yet."""
    files = sorted(place.glob("*.jsonl")) if place.is_dir() else [place] * place.exists()
    return [json.loads(text) for file in files for text in file.read_text(encoding="utf-8").splitlines()]


def of_kind(lines: Iterable[Line], kind: str) -> list[Line]:
    """Those that have the key ``kind``."""
    return [line for line in lines if kind in line]


def missing(cells: Mapping[Key, Cell], lines: Iterable[Line], who: Who) -> list[Callable[[], Line]]:
    """The training of the cells that no line of that kind is about."""
    known = {key_of(line) for line in of_kind(lines, who)}
    return [partial(WORK[who], cell) for key, cell in cells.items() if key not in known]


def work_on(pieces: Sequence[Callable[[], Line]], jobs: int) -> Iterator[Line]:
    """The lines of all pieces of work, in the order in which they end; one job runs in this process."""
    if jobs == 1 or len(pieces) < 2:
        yield from (piece() for piece in pieces)
        return
    waiting = {f"cell {index}": partial(_line_of, piece) for index, piece in enumerate(pieces)}
    with WorkerPool(advice="where memory ran out, try fewer --jobs") as pool:
        while waiting or pool.running:
            for cell in list(waiting)[: jobs - len(pool.running)]:
                pool.start(cell, waiting.pop(cell))
            yield from (message.answer for message in pool.messages() if message.is_done)


def _line_of(piece: Callable[[], Line], advance: Advance) -> Line:
    del advance
    return piece()


def add_lines(found: Iterable[Line], out: Path | None, tick: Callable[[], None] = lambda: None) -> list[Line]:
    """Append lines to a file one by one, as they come; None keeps them in memory only."""
    done = []
    for line in found:
        done.append(line)
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            with out.open("a", encoding="utf-8") as file:
                print(json.dumps(line, allow_nan=False), file=file)
        tick()
    return done


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
