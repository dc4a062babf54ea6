"""`ferero run images`: two labels an image, seven methods, the paper's three data sets."""

from __future__ import annotations

from ferero_lab.experiments.images.experiment import EXPERIMENT

__all__ = ["EXPERIMENT"]
