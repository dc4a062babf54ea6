"""Fronts: one point for each of many preferences, three ways to compute them, and indicators of their quality."""

from __future__ import annotations

from ferero.fronts._front import Front
from ferero.fronts._indicators import hypervolume, ray_error, relative_loss_profile
from ferero.fronts._sweep import sweep
from ferero.fronts._sweep_driver import SweepError
from ferero.fronts._trace import trace
from ferero.fronts._train_front import train_front
from ferero.fronts._trained import Course, Trained

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
