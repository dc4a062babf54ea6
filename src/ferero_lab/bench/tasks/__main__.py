"""``python -m ferero_lab.bench.tasks --half report --who rivals --jobs 16 --out FILE``: the runs, cell by cell."""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from ferero_lab.bench.tasks.cell import cells_of, ferero_score, rival_scores
from ferero_lab.bench.tasks.registry import cells


def main() -> None:
    """Run the cells of one half that the file does not hold yet, by several processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=("tune", "report"), default="report")
    parser.add_argument("--who", choices=("ferero", "rivals"), default="ferero")
    parser.add_argument("--only", default="", help="tasks whose name contains this")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    work = ferero_score if given.who == "ferero" else rival_scores
    begin = time.perf_counter()
    lines = given.out.read_text(encoding="utf-8").splitlines() if given.out.exists() else []
    known = {(one["task"], one["form"], one["seed"]) for one in map(json.loads, lines)}
    tasks = cells(given.half)
    everything = [
        cell
        for cell in cells_of(given.half)
        if given.only in tasks[cell.place].name
        and (tasks[cell.place].name, tasks[cell.place].form, cell.seed) not in known
    ]
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool, given.out.open("a") as out:
        waiting = [pool.submit(work, cell) for cell in everything]
        for done, one in enumerate(as_completed(waiting), 1):
            print(json.dumps(one.result()), file=out, flush=True)
            if done % 20 == 0:
                print(f"{done} of {len(everything)}, {time.perf_counter() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
