"""Lines of measured cells in files: what is there is not measured again; several processes add the rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ferero_lab.bench.tasks.cell import Cell, ferero_score, rival_scores
from ferero_lab.bench.tasks.figures import Key, Line, key_of
from ferero_lab.bench.tasks.variants import variant_scores
from ferero_lab.worker_pool import Advance, WorkerPool

__all__ = ["WORK", "Who", "add_lines", "missing", "of_kind", "read_lines", "work_on"]

Who: TypeAlias = Literal["ferero", "rivals", "variants"]
WORK: dict[Who, Callable[[Cell], dict[str, Any]]] = {
    "ferero": ferero_score,
    "rivals": rival_scores,
    "variants": variant_scores,
}
"""Who trains a cell; the key under which its line has the scores is the same word."""


def read_lines(place: Path) -> list[Line]:
    """All lines of a file, or of every .jsonl file in a folder; none where there is nothing yet."""
    files = sorted(place.glob("*.jsonl")) if place.is_dir() else [place] * place.exists()
    return [json.loads(text) for file in files for text in file.read_text(encoding="utf-8").splitlines()]


def of_kind(lines: Iterable[Line], kind: str) -> list[Line]:
    """Those that have the key ``kind``."""
    return [line for line in lines if kind in line]


def missing(wanted: Mapping[Key, Cell], lines: Iterable[Line], who: Who) -> list[Callable[[], Line]]:
    """The training of the cells that no line of that kind is about."""
    known = {key_of(line) for line in of_kind(lines, who)}
    return [partial(WORK[who], cell) for key, cell in wanted.items() if key not in known]


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
