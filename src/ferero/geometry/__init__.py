"""Cones, the order they make, and the projections that keep multipliers in their domain."""

from __future__ import annotations

from ferero.geometry.cone import Cone
from ferero.geometry.dominance import nondominated
from ferero.geometry.projection import project_box, project_multipliers, project_simplex, project_weighted_simplex

__all__ = [
    "Cone",
    "nondominated",
    "project_box",
    "project_multipliers",
    "project_simplex",
    "project_weighted_simplex",
]
