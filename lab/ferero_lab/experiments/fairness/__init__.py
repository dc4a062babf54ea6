"""Income predicted under a bound on the gap between two groups: `ferero run fairness`."""

from __future__ import annotations

from ferero_lab.experiments.fairness.experiment import EXPERIMENT

__all__ = ["EXPERIMENT"]
