"""One row of a benchmark: what was measured, what it should reach, and on which machine."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

__all__ = ["Row", "environment", "result_of", "rows_to_json", "seconds", "summary"]

PACKAGES = ("torch", "numpy", "scipy", "piqp", "clarabel", "moocore")


@dataclass(frozen=True)
class Row:
    """One measured figure.

    Attributes:
        group: what it belongs to.
        measure: what was measured.
        value: what came out.
        bar: what it should reach, None for information only.
        higher_is_better: the direction of the bar.
        note: how, in a few words.
    """

    group: str
    measure: str
    value: float
    bar: float | None = None
    higher_is_better: bool = False
    note: str = ""

    @property
    def passed(self) -> bool | None:
        """Whether the bar is reached; None without one."""
        if self.bar is None:
            return None
        return self.value >= self.bar if self.higher_is_better else self.value <= self.bar


def rows_to_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows as plain data, with their verdicts."""
    return [asdict(row) | {"passed": row.passed} for row in rows]


def result_of(name: str, quick: bool, rows: Sequence[Row]) -> dict[str, Any]:
    """What every benchmark keeps: its name, the date, versions and machine, and the rows."""
    return {
        "name": name,
        "quick": quick,
        "date": datetime.now(UTC).date().isoformat(),
        "environment": environment(),
        "rows": rows_to_json(rows),
    }


def environment() -> dict[str, Any]:
    """Versions and the kind of machine; no names of machines."""
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "packages": {name: _version(name) for name in PACKAGES},
        "ferero": _version("ferero"),
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def seconds(call: Callable[[], object]) -> float:
    """How long one call takes."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def summary(values: Sequence[float]) -> str:
    """Median, 90 % and largest, for a note."""
    return f"90 % within {np.percentile(values, 90):.4g}, at most {max(values):.4g}"
