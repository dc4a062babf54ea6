"""``python -m ferero_lab.bench.tasks --half report --who rivals --jobs 16 --out FILE``: the runs, cell by cell.

With ``--show`` nothing is trained: it prints what the file or folder holds beside the rivals of record.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from ferero_lab.bench.tasks.cell import cells_of
from ferero_lab.bench.tasks.lines import WORK, add_lines, missing, of_kind, read_lines, read_rivals, work_on
from ferero_lab.bench.tasks.registry import SEEDS, Half
from ferero_lab.bench.tasks.summary import summarise, summarise_variants
from ferero_lab.bench.tasks.tables import show_summary, show_variants


def main(args: Sequence[str] | None = None) -> None:
    """Run the cells of one half that the file does not hold yet, by several processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=tuple(SEEDS), default="report")
    parser.add_argument("--who", choices=tuple(WORK), default="ferero")
    parser.add_argument("--seeds", choices=("all", "first"), default="all", help="all seeds of the half, or the first")
    parser.add_argument("--only", default="", help="tasks whose name contains this")
    parser.add_argument("--form", default="", help="forms whose name contains this")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--show", action="store_true", help="train nothing; print the tables of what is there")
    given = parser.parse_args(args)
    if given.show:
        _show(given.half, given.out)
        return
    seeds = SEEDS[given.half][: 1 if given.seeds == "first" else None]
    chosen = {
        key: cell
        for key, cell in cells_of(given.half).items()
        if given.only in key[1] and given.form in key[2] and cell.seed in seeds
    }
    left = missing(chosen, read_lines(given.out), given.who)
    begin, done = time.perf_counter(), 0

    def tick() -> None:
        nonlocal done
        done += 1
        if done % 20 == 0 or done == len(left):
            print(f"{done} of {len(left)}, {time.perf_counter() - begin:.0f} s", flush=True)

    add_lines(work_on(left, given.jobs), given.out, tick)


def _show(half: Half, place: Path) -> None:
    lines = [line for line in read_lines(place) if line.get("half") == half]
    rivals, console = read_rivals(half), Console()
    show_summary(summarise(rivals, of_kind(lines, "ferero"), read_rivals("tune")), half, console)
    show_variants(summarise_variants(rivals, of_kind(lines, "variants")), console)


if __name__ == "__main__":
    main()
