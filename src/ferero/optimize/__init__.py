"""Deterministic problems: the globalised search and the certificate."""

from ferero.optimize._box import Bounds
from ferero.optimize._certificate import KKT, certify
from ferero.optimize._constraint_rows import Constraints
from ferero.optimize._minimize import minimize, minimize_many
from ferero.optimize._payoff import Payoff, payoff
from ferero.optimize._result import History, Progress, Result

__all__ = [
    "KKT",
    "Bounds",
    "Constraints",
    "History",
    "Payoff",
    "Progress",
    "Result",
    "certify",
    "minimize",
    "minimize_many",
    "payoff",
]
