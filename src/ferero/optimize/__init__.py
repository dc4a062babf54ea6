"""Deterministic problems: the globalised search and the certificate."""

from ferero.optimize.certificate import KKT, certify
from ferero.optimize.minimize import minimize, minimize_many
from ferero.optimize.result import History, Progress, Result

__all__ = ["KKT", "History", "Progress", "Result", "certify", "minimize", "minimize_many"]
