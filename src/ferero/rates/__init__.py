"""Rates of decisions: the exact value for the constraint, a differentiable surrogate for the gradient, and a count."""

from ferero.rates._gap import Gap, demographic_parity, equal_opportunity, equalised_odds
from ferero.rates._rate import (
    Rate,
    accuracy,
    false_positive_rate,
    positive_rate,
    precision,
    recall,
    true_positive_rate,
    true_positives,
)

__all__ = [
    "Gap",
    "Rate",
    "accuracy",
    "demographic_parity",
    "equal_opportunity",
    "equalised_odds",
    "false_positive_rate",
    "positive_rate",
    "precision",
    "recall",
    "true_positive_rate",
    "true_positives",
]
