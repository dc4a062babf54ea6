"""Methods: from what a step observes of the losses to the weights of the next gradient."""

from __future__ import annotations

from ferero.methods.base import Decision, Diagnosing, Diagnosis, Merited, Method, Observation, check_observation
from ferero.methods.control import FereroPI, FereroPIState
from ferero.methods.ferero import Ferero, FereroState
from ferero.methods.single_loop import FereroSA, FereroSAState

__all__ = [
    "Decision",
    "Diagnosing",
    "Diagnosis",
    "Ferero",
    "FereroPI",
    "FereroPIState",
    "FereroSA",
    "FereroSAState",
    "FereroState",
    "Merited",
    "Method",
    "Observation",
    "check_observation",
]
