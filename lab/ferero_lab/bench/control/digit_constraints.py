"""Three losses of the digits under one inequality and one equality."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ferero
from ferero_lab.bench.control.tasks import OptimizerName, three, train
from ferero_lab.bench.measure import Row

__all__ = ["bench_digit_constraints"]

GROUP = "three losses, parity <= 0.46, digit - magnitude == 0.15"
RATES: tuple[tuple[OptimizerName, float], ...] = (("sgd", 0.03), ("sgd", 0.1), ("adam", 1e-3), ("adam", 5e-3))


def bench_digit_constraints(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], list[dict[str, Any]]]:
    """A row for each optimizer and rate, and every run."""
    rows, runs = [], []
    for optimizer, rate in RATES[1::2] if quick else RATES:
        task = three(optimizer, rate, 2000 if quick else 6000)
        run = train(task, ferero.Steer(task.preference))
        tick()
        digit, parity, magnitude = run.losses.tolist()
        title = f"{'SGD' if optimizer == 'sgd' else 'Adam'} {rate:g}"
        note = f"of the mean {run.mean:.2g}; parity {parity:.3f}, digit - magnitude {digit - magnitude:.3f} at the end"
        rows.append(Row(GROUP, f"largest violation, {title}", run.worst, 0.01, note=note))
        runs.append(
            {
                "part": GROUP,
                "optimizer": optimizer,
                "learning_rate": rate,
                "worst": run.worst,
                "mean": run.mean,
                "losses": run.losses.tolist(),
                "seconds": run.seconds,
            }
        )
    return rows, runs
