"""ferero finds the trade-off you ask for.

import ferero

f = ferero.objectives("zh", "en")
p = ferero.Preference(f, [f.zh - f.en == 0.5])
r = ferero.minimize(fun, x0, p)
"""

from ferero.errors import FereroError
from ferero.fronts import Front, hypervolume, ray_error, relative_loss_profile, trace
from ferero.geometry import Cone, nondominated
from ferero.methods import Ferero, FereroSA, Observation
from ferero.optimize import KKT, Progress, Result, certify, minimize
from ferero.preference import Preference, objectives, spread
from ferero.subprogram import Solution, solve_subprogram

__version__ = "0.1.0.dev0"

__all__ = [
    "KKT",
    "Cone",
    "Ferero",
    "FereroError",
    "FereroSA",
    "Front",
    "Observation",
    "Preference",
    "Progress",
    "Result",
    "Solution",
    "certify",
    "hypervolume",
    "minimize",
    "nondominated",
    "objectives",
    "ray_error",
    "relative_loss_profile",
    "solve_subprogram",
    "spread",
    "trace",
]
