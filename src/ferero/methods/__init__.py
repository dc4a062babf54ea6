"""Methods: from what a step observes of the losses to the weights of the next gradient."""

from __future__ import annotations

from ferero.methods._baselines.epo import EPO, EPOState
from ferero.methods._baselines.mgda import MGDA
from ferero.methods._baselines.pmtl import PMTL, PMTLState
from ferero.methods._baselines.scalarization import (
    LinearScalarization,
    ScalarizationState,
    SmoothTchebycheff,
    Tchebycheff,
)
from ferero.methods._baselines.wc_mgda import WCMGDA, XWCMGDA
from ferero.methods._ferero import Ferero
from ferero.methods._ferero_pi import FereroPI, FereroPIState
from ferero.methods._ferero_qg import FereroQG, FereroQGState
from ferero.methods._ferero_sa import FereroSA, FereroSAState
from ferero.methods._method import (
    Decision,
    Diagnosing,
    Diagnosis,
    Merited,
    Method,
    Observation,
    Steps,
    check_observation,
    check_understood,
)

__all__ = [
    "EPO",
    "MGDA",
    "PMTL",
    "WCMGDA",
    "XWCMGDA",
    "Decision",
    "Diagnosing",
    "Diagnosis",
    "EPOState",
    "Ferero",
    "FereroPI",
    "FereroPIState",
    "FereroQG",
    "FereroQGState",
    "FereroSA",
    "FereroSAState",
    "LinearScalarization",
    "Merited",
    "Method",
    "Observation",
    "PMTLState",
    "ScalarizationState",
    "SmoothTchebycheff",
    "Steps",
    "Tchebycheff",
    "check_observation",
    "check_understood",
]
