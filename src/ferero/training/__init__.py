"""Training: `Steer` turns losses into the one to minimise; `Stepper` takes the steps of methods that need more."""

from ferero.training.evaluate import evaluate
from ferero.training.report import ConstraintReport, Report
from ferero.training.steer import Steer
from ferero.training.stepper import Stepped, Stepper

__all__ = ["ConstraintReport", "Report", "Steer", "Stepped", "Stepper", "evaluate"]
