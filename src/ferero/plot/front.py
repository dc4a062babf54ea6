"""A front as a picture: a plane for two losses, a space for three, parallel coordinates for more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ferero.errors import InputError
from ferero.fronts.front import Front
from ferero.fronts.table import preference_text
from ferero.geometry.arrays import ArrayLike, to_float64
from ferero.plot.parallel import draw_parallel
from ferero.plot.region import wanted_segment
from ferero.plot.style import BOLD, DOT, FAINT, LINE, RING, THIN, add_legend, dress, new_axes, new_figure, page_of, require_pyplot
from ferero.subprogram.program import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_front"]

_NAMED = 10  # preferences that the legend lists one by one; more would outgrow the picture
