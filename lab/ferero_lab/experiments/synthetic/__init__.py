"""The paper's synthetic experiments: `ferero run synthetic`."""

from __future__ import annotations

from ferero_lab.experiments.synthetic.experiment import EXPERIMENT

__all__ = ["EXPERIMENT"]
