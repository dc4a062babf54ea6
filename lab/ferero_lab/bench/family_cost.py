"""What families of losses cost (a step, building, memory): ``python -m ferero_lab.bench.family_cost``.

All on one core and in processor time. What a family adds to a step is the difference of neighbouring blocks of steered
steps and of plain ones on the same losses with fixed weights, of the fastest block: others on the machine share caches.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import torch

import ferero
from ferero_lab.bench.measure import Row, result_of

__all__ = ["family_rows", "main"]

MANY, EXAMPLES, SAMPLE = 1000, 100_000, 64
STEP_BAR, BUILD_BAR, SPREAD_BAR, MEMORY_BAR = 2.5, 3.0, 1.0, 100.0


def family_rows(quick: bool, tell: Callable[[Row], None]) -> list[Row]:
    """All rows: a step, building, memory, and as many rays."""
    rows = []
    blocks = 5 if quick else 25
    cases = (
        (f"{MANY} bounds", MANY, MANY, "bounds", STEP_BAR),
        (f"{MANY} differences from a loss", MANY, MANY, "loss", None),
        (f"{MANY} differences from the mean", MANY, MANY, "mean", None),
        (f"{SAMPLE} bounds", SAMPLE, SAMPLE, "bounds", None),
        (f"{10 * MANY} bounds, a sample of {SAMPLE}", 10 * MANY, SAMPLE, "bounds", None),
        (f"{EXAMPLES} bounds, a sample of {SAMPLE}", EXAMPLES, SAMPLE, "bounds", None),
    )
    for measure, size, sample, kind, bar in cases:
        values = _added(_preference(size, kind), size, sample, blocks)
        note = f"the fastest of {len(values)} blocks, median {median(values):.3g}"
        rows.append(Row("added to a step, ms", measure, min(values), bar, note=note))
        tell(rows[-1])
    for size, bar in ((MANY, BUILD_BAR), (EXAMPLES, None)):
        taken = min(_seconds(partial(_preference, size)) for _ in range(3))
        rows.append(Row("building, s", f"{size} bounds", taken, bar))
        tell(rows[-1])
    note = "preference, controller and 20 steps, in a process of their own"
    rows.append(Row("memory, MB", f"{EXAMPLES} bounds", _held_alone() / 1e6, MEMORY_BAR, note=note))
    tell(rows[-1])
    rays = min(_seconds(lambda: ferero.spread(3, MANY)) for _ in range(3))
    rows.append(Row("spread, s", f"{MANY} rays of 3 losses", rays, SPREAD_BAR))
    tell(rows[-1])
    return rows


def _preference(size: int, kind: str = "bounds") -> ferero.Preference:
    f = ferero.objectives("ce", group=size)
    kinds = {"bounds": f.group, "loss": f.group - f.ce, "mean": f.group - f.group.mean()}
    return ferero.Preference(f, [kinds[kind] <= 0.1], minimize=f.ce)


def _added(preference: ferero.Preference, size: int, sample: int, blocks: int, length: int = 20) -> list[float]:
    """Milliseconds that steering adds to a step, of so many blocks."""
    steer = ferero.Steer(preference)
    theta = torch.rand(sample + 1, requires_grad=True)
    generator = torch.Generator().manual_seed(0)

    def plain() -> None:
        (theta * 1.0).sum().backward()  # type: ignore[no-untyped-call]

    def steered() -> None:
        values = theta * 1.0
        losses = {"ce": values[0], "group": values[1:]}
        if sample == size:
            steer(losses).backward()
            return
        ids = torch.randint(size // sample, (sample,), generator=generator) + torch.arange(sample) * (size // sample)
        steer(losses, index={"group": ids}).backward()

    for _ in range(length):
        plain()
        steered()
    found = []
    for _ in range(blocks):
        before, after = (_seconds(partial(_repeat, take, length)) for take in (plain, steered))
        found.append(1e3 * (after - before) / length)
    return found


def _repeat(take: Callable[[], None], times: int) -> None:
    for _ in range(times):
        take()


def _seconds(action: Callable[[], object]) -> float:
    """Of processor time."""
    start = time.process_time()
    action()
    return time.process_time() - start


def _held_alone() -> float:
    """`_held` in a process of its own, in bytes."""
    code = "from ferero_lab.bench.family_cost import _held; print(_held())"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return float(out.split()[-1])


def _held() -> int:
    """Bytes by which this process has grown when it holds a large family that has trained."""
    torch.set_num_threads(1)

    def train(size: int) -> ferero.Steer:
        steer = ferero.Steer(_preference(size))
        for step in range(20):
            theta = torch.rand(SAMPLE + 1, requires_grad=True)
            ids = torch.arange(SAMPLE) * (size // SAMPLE) + step
            steer({"ce": theta[0] * 1.0, "group": theta[1:] * 1.0}, index={"group": ids}).backward()
        return steer

    few = train(5000)
    gc.collect()
    before = _resident()
    many = train(EXAMPLES)
    gc.collect()
    held = _resident() - before
    return held if few.weights.isfinite().all() and many.weights.isfinite().all() else -1


def _resident() -> int:
    """Bytes of memory that this process has."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * 4096


def _show(row: Row) -> None:
    print(f"{row.group:20} {row.measure:42} {row.value:.4g}  (bar {row.bar}; {row.note})", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m ferero_lab.bench.family_cost", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    result = result_of("families", given.quick, family_rows(given.quick, _show))
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
