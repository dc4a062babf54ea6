"""The paper's experiment with two languages: `ferero run speech`."""

from __future__ import annotations

from ferero_lab.speech.experiment.experiment import EXPERIMENT

__all__ = ["EXPERIMENT"]
