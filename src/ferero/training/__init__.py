"""Training: `Steer` turns losses into the one to minimise; `Stepper` takes the steps of methods that need more."""

from ferero.training._batches import read_batches
from ferero.training._controller import Controller
from ferero.training._cuda import Captured
from ferero.training._ensemble import Ensemble
from ferero.training._evaluate import evaluate
from ferero.training._members import Members
from ferero.training._report import ConstraintReport, FamilyReport, Report
from ferero.training._slopes import SlopeKind, forward_slopes, jacobian_slopes
from ferero.training._steer import Steer
from ferero.training._stepper import Stepped, Stepper

__all__ = [
    "Captured",
    "ConstraintReport",
    "Controller",
    "Ensemble",
    "FamilyReport",
    "Members",
    "Report",
    "SlopeKind",
    "Steer",
    "Stepped",
    "Stepper",
    "evaluate",
    "forward_slopes",
    "jacobian_slopes",
    "read_batches",
]
