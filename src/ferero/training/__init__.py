"""Training: `Steer` turns losses into the one loss whose minimisation leads where the preference wants."""

from ferero.training.evaluate import evaluate
from ferero.training.report import ConstraintReport, Report
from ferero.training.steer import Steer

__all__ = ["ConstraintReport", "Report", "Steer", "evaluate"]
