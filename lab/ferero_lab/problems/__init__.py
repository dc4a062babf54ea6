"""Test problems, each carrying its own truth: front, ideal point, reference point, distance."""

from __future__ import annotations

from ferero_lab.problems.dtlz2 import DTLZ2, ConvexDTLZ2
from ferero_lab.problems.exponential import Exponential
from ferero_lab.problems.exponential_three import ExponentialThree
from ferero_lab.problems.missed_ray import MissedRay
from ferero_lab.problems.problem import HullProblem, Problem
from ferero_lab.problems.quadratics import ConvexQuadratics
from ferero_lab.problems.registry import get, names
from ferero_lab.problems.zdt import ZDT1, ZDT2

__all__ = [
    "DTLZ2",
    "ZDT1",
    "ZDT2",
    "ConvexDTLZ2",
    "ConvexQuadratics",
    "Exponential",
    "ExponentialThree",
    "HullProblem",
    "MissedRay",
    "Problem",
    "get",
    "names",
]
