"""Cones, the order they make, and the projections that keep multipliers in their domain."""

from __future__ import annotations

from ferero.geometry._cone import Cone
from ferero.geometry._dominance import nondominated
from ferero.geometry._projection import project_box, project_multipliers, project_simplex, project_weighted_simplex

__all__ = [
    "Cone",
    "nondominated",
    "project_box",
    "project_multipliers",
    "project_simplex",
    "project_weighted_simplex",
]
