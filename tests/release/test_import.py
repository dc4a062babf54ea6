"""`import ferero` costs little more than `import torch`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

RESULT = Path(__file__).parents[2] / "benchmarks/results/import-time.json"
HEAVY = "torch._dynamo torch._inductor sympy scipy.optimize scipy.linalg scipy.sparse scipy.special piqp clarabel"
EXTRAS = "typer rich plotly matplotlib pooch sklearn moocore transformers lightning accelerate torchjd dask ferero_lab"


def test_it_brings_neither_the_compiler_nor_solvers_nor_extras() -> None:
    wanted = [*HEAVY.split(), *EXTRAS.split()]
    script = "import sys, torch; early = set(sys.modules); import ferero; print(*(set(sys.modules) - early))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(wanted) & set(found.stdout.split()) == set()


def test_the_measured_ratio_is_within_the_bar() -> None:
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    ratio = result["rows"][0]
    assert ratio["measure"] == "import ferero over import torch, on the clock"
    assert ratio["bar"] == 1.3
    assert ratio["value"] <= ratio["bar"]
