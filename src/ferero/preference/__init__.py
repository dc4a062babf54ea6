"""Preferences over losses, written as constraints that read like mathematics."""

from __future__ import annotations

from ferero.preference._expression import AbsExpression, Constraint, Expression, Rewriting
from ferero.preference._family import Family, FamilyAbs, FamilyConstraint, FamilyExpression
from ferero.preference._logarithm import Logarithm
from ferero.preference._objectives import Objectives, objectives
from ferero.preference._preference import Preference
from ferero.preference._ratio import Ratio
from ferero.preference._schedule import MovingLevel, cosine, piecewise, ramp
from ferero.preference._spread import spread

__all__ = [
    "AbsExpression",
    "Constraint",
    "Expression",
    "Family",
    "FamilyAbs",
    "FamilyConstraint",
    "FamilyExpression",
    "Logarithm",
    "MovingLevel",
    "Objectives",
    "Preference",
    "Ratio",
    "Rewriting",
    "cosine",
    "objectives",
    "piecewise",
    "ramp",
    "spread",
]
