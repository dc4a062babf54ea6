"""Times the small forms: ``.venv/bin/python benchmarks/quick_times.py DATA``, on a machine that does nothing else.

DATA is the folder with the recordings, for speech; the others need none.

benchmarks/results/quick-times.json then has the seconds of ``ferero run NAME --quick`` on the clock, imports and report
included, and docs/experiments.md is filled from it (benchmarks/experiments_table.py).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ferero_lab import experiments
from ferero_lab.bench.measure import environment
from ferero_lab.report import to_json, write_file

RESULT = Path(__file__).parent / "results/quick-times.json"


def timed(name: str, folder: Path, data: Path) -> float:
    """Seconds of one small form."""
    command = [sys.executable, "-m", "ferero", "run", name, "--quick", "--json", "--out", str(folder / name)]
    if name == "speech":
        command += ["--data", str(data)]
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main() -> None:
    """All of them, one after the other."""
    data = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        seconds = {name: timed(name, Path(folder), data) for name in experiments.names()}
    write_file(RESULT, to_json({"name": "quick-times", "environment": environment(), "seconds": seconds}).encode())


if __name__ == "__main__":
    main()
