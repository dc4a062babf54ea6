"""Pictures of fronts, cones, regions and runs, in one visual language; only drawing needs matplotlib."""

from __future__ import annotations

from ferero.plot.cone import plot_cone
from ferero.plot.front import plot_front
from ferero.plot.progress import plot_history
from ferero.plot.region import plot_region
from ferero.plot.style import OKABE_ITO, theme
from ferero.plot.training import plot_training

__all__ = ["OKABE_ITO", "plot_cone", "plot_front", "plot_history", "plot_region", "plot_training", "theme"]
