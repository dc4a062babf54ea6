"""ferero finds the trade-off you ask for.

import ferero

f = ferero.objectives("zh", "en")
p = ferero.Preference(f, [f.zh - f.en == 0.5])
r = ferero.minimize(fun, x0, p)           # a few smooth objectives
loss = ferero.Steer(p)(losses)            # or a line in a training loop
"""

from ferero import rates
from ferero.errors import FereroError
from ferero.fronts import (
    Course,
    Front,
    SweepError,
    Trained,
    hypervolume,
    ray_error,
    relative_loss_profile,
    sweep,
    trace,
    train_front,
)
from ferero.geometry import Cone, nondominated
from ferero.methods import (
    EPO,
    MGDA,
    PMTL,
    WCMGDA,
    XWCMGDA,
    Ferero,
    FereroPI,
    FereroQG,
    FereroSA,
    LinearScalarization,
    Observation,
    SmoothTchebycheff,
    Tchebycheff,
)
from ferero.optimize import KKT, Payoff, Progress, Result, certify, minimize, payoff
from ferero.preference import Preference, cosine, objectives, piecewise, ramp, spread
from ferero.subprogram import Solution, solve_subprogram
from ferero.training import Controller, Report, Steer, Stepped, Stepper, evaluate

__version__ = "0.1.0.dev0"

__all__ = [
    "EPO",
    "KKT",
    "MGDA",
    "PMTL",
    "WCMGDA",
    "XWCMGDA",
    "Cone",
    "Controller",
    "Course",
    "Ferero",
    "FereroError",
    "FereroPI",
    "FereroQG",
    "FereroSA",
    "Front",
    "LinearScalarization",
    "Observation",
    "Payoff",
    "Preference",
    "Progress",
    "Report",
    "Result",
    "SmoothTchebycheff",
    "Solution",
    "Steer",
    "Stepped",
    "Stepper",
    "SweepError",
    "Tchebycheff",
    "Trained",
    "certify",
    "cosine",
    "evaluate",
    "hypervolume",
    "minimize",
    "nondominated",
    "objectives",
    "payoff",
    "piecewise",
    "ramp",
    "rates",
    "ray_error",
    "relative_loss_profile",
    "solve_subprogram",
    "spread",
    "sweep",
    "trace",
    "train_front",
]
