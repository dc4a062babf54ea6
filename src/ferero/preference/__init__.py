"""What a person wants of the losses, written so that it reads like mathematics."""

from __future__ import annotations

from ferero.preference.constraint import Constraint
from ferero.preference.expression import AbsExpression, Expression
from ferero.preference.objectives import Objectives, objectives
from ferero.preference.preference import Preference
from ferero.preference.rays import spread

__all__ = [
    "AbsExpression",
    "Constraint",
    "Expression",
    "Objectives",
    "Preference",
    "objectives",
    "spread",
]
