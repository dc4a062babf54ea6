"""Pictures of fronts, cones, regions and runs, in one visual language; only drawing needs matplotlib."""

from __future__ import annotations

from ferero.plot._front import missed_handle, plot_front
from ferero.plot._history import plot_history
from ferero.plot._region import plot_cone, plot_region
from ferero.plot._training import plot_training
from ferero.plot.style._style import OKABE_ITO, theme

__all__ = [
    "OKABE_ITO",
    "missed_handle",
    "plot_cone",
    "plot_front",
    "plot_history",
    "plot_region",
    "plot_training",
    "theme",
]
