"""The paper's experiment with two languages: `ferero run speech`."""

from __future__ import annotations

from ferero_lab.experiments.speech.speech import EXPERIMENT

__all__ = ["EXPERIMENT"]
