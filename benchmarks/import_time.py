"""Times `import ferero` against `import torch`: ``.venv/bin/python benchmarks/import_time.py``.

Each import has a process of its own, the two take turns, and both are read from compiled bytecode, as pip installs it.
``--profile`` shows instead which modules ferero brings that torch does not, by the time of their own lines.
benchmarks/results/import-time.json keeps the ratio of the medians.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import median

from ferero_lab.bench.measure import Row, result_of
from ferero_lab.report import to_json, write_file

RESULT = Path(__file__).parent / "results/import-time.json"
BAR = 1.3
TIMED = (
    "import time; clock, own = time.perf_counter(), time.process_time(); import {name}; "
    "print(time.perf_counter() - clock, time.process_time() - own)"
)
LINE = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)")


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A fresh process, on one thread, that may keep bytecode."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    clean["OMP_NUM_THREADS"] = "1"
    return subprocess.run([sys.executable, *arguments], env=clean, check=True, capture_output=True, text=True)


def timed(name: str) -> tuple[float, float]:
    """Seconds of one import: on the clock, and of the processor."""
    clock, own = _python("-c", TIMED.format(name=name)).stdout.split()
    return float(clock), float(own)


def measure(repeats: int) -> list[Row]:
    """The ratio and what it is made of; the first import of each is not counted."""
    timed("torch"), timed("ferero")
    pairs = [(timed("torch"), timed("ferero")) for _ in range(repeats)]
    torch, torch_own = zip(*(pair[0] for pair in pairs), strict=True)
    ferero, ferero_own = zip(*(pair[1] for pair in pairs), strict=True)
    ratio, note = "import ferero over import torch", f"medians of {repeats} processes each, taking turns"
    return [
        Row("import", f"{ratio}, on the clock", median(ferero) / median(torch), BAR, note=note),
        Row("import", f"{ratio}, fastest of each", min(ferero) / min(torch), note="a busy machine only adds"),
        Row("import", f"{ratio}, processor time", median(ferero_own) / median(torch_own), note=note),
        Row("import", "import torch, seconds", median(torch), note=f"{min(torch):.3g} to {max(torch):.3g}"),
        Row("import", "import ferero, seconds", median(ferero), note=f"{min(ferero):.3g} to {max(ferero):.3g}"),
    ]


def brought() -> dict[str, float]:
    """Milliseconds of the modules that ferero imports and torch does not, largest first."""
    known = dict.fromkeys(name for _, name in LINE.findall(_python("-X", "importtime", "-c", "import torch").stderr))
    seen = LINE.findall(_python("-X", "importtime", "-c", "import ferero").stderr)
    own = {name: int(micro) / 1000 for micro, name in seen if name not in known}
    return dict(sorted(own.items(), key=lambda item: -item[1]))


def main() -> int:
    """Measures and keeps the result; 1 where the bar is missed."""
    parser = argparse.ArgumentParser(description="Times `import ferero` against `import torch`.")
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--profile", action="store_true", help="show the modules that ferero brings")
    parser.add_argument("--out", type=Path, default=RESULT, help="where the result is kept")
    options = parser.parse_args()
    if options.profile:
        for name, milliseconds in list(brought().items())[:30]:
            print(f"{milliseconds:8.1f} ms  {name}")
        return 0
    rows = measure(options.repeats)
    write_file(options.out, to_json(result_of("import-time", False, rows)).encode())
    for row in rows:
        print(f"{row.value:8.3f}  {row.measure}")
    return 0 if rows[0].passed else 1


if __name__ == "__main__":
    sys.exit(main())
