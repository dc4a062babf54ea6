"""Many answers at once: one point for each preference, and the measures of how good the set is."""

from __future__ import annotations

from ferero.fronts.front import Front
from ferero.fronts.indicators import hypervolume, ray_error, relative_loss_profile
from ferero.fronts.trace import trace

__all__ = ["Front", "hypervolume", "ray_error", "relative_loss_profile", "trace"]
