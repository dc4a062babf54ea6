"""Many answers at once: one point for each preference, and the measures of how good the set is."""

from __future__ import annotations

from ferero.fronts.front import Front
from ferero.fronts.indicators import hypervolume, ray_error, relative_loss_profile
from ferero.fronts.sweep import sweep
from ferero.fronts.sweeping.failure import SweepError
from ferero.fronts.trace import trace
from ferero.fronts.train_front import train_front
from ferero.fronts.trained import Course, Trained

__all__ = [
    "Course",
    "Front",
    "SweepError",
    "Trained",
    "hypervolume",
    "ray_error",
    "relative_loss_profile",
    "sweep",
    "trace",
    "train_front",
]
