"""Methods: from what a step observes of the losses to the weights of the next gradient."""

from __future__ import annotations

from ferero.methods.base import Decision, Diagnosing, Diagnosis, Merited, Method, Observation, Steps, check_observation
from ferero.methods.epo import EPO, EPOState
from ferero.methods.ferero import Ferero
from ferero.methods.ferero_pi import FereroPI, FereroPIState
from ferero.methods.learned_gramian import FereroQG, FereroQGState
from ferero.methods.mgda import MGDA
from ferero.methods.pmtl import PMTL, PMTLState
from ferero.methods.ray import check_understood
from ferero.methods.scalarization import LinearScalarization, ScalarizationState, SmoothTchebycheff, Tchebycheff
from ferero.methods.single_loop import FereroSA, FereroSAState
from ferero.methods.wc_mgda import WCMGDA, XWCMGDA

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
