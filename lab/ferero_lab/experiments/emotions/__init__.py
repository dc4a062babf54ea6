"""The paper's experiment with six losses: `ferero run emotions`."""

from __future__ import annotations

from ferero_lab.experiments.emotions.experiment import EXPERIMENT

__all__ = ["EXPERIMENT"]
