"""The seven methods that are compared, by the names that people know them under."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ferero
from ferero.errors import InputError
from ferero.methods import Method

__all__ = ["METHODS", "PAPER", "chosen_methods", "knows_rays"]

METHODS: dict[str, Method[Any]] = {
    "LS": ferero.LinearScalarization(),
    "MGDA": ferero.MGDA(solver="batched"),
    "PMTL": ferero.PMTL(solver="batched"),
    "EPO": ferero.EPO(solver="batched"),
    "XWC-MGDA": ferero.XWCMGDA(solver="batched"),
    "STch": ferero.SmoothTchebycheff(),
    "FERERO": ferero.FereroPI(),
}
"""FERERO is its single loop in the tracked form; XWC-MGDA is our reading of that method."""

PAPER: dict[str, Method[Any]] = {
    "LS": ferero.LinearScalarization(),
    "FERERO": ferero.FereroSA(gamma=1e-4, c_h=0.5, domain="simplex"),
}
"""As the paper runs them; FERERO is Algorithm 3 with its sign mended."""


def chosen_methods(known: dict[str, Method[Any]], names: Sequence[str]) -> dict[str, Method[Any]]:
    """Those of a selection; all for an empty one.

    Raises:
        InputError: a name that there is not.
    """
    by_name = {name.lower(): name for name in known}
    for name in names:
        if name.lower() not in by_name:
            raise InputError(f"--methods: expected {', '.join(known)}, found {name!r}.")
    wanted = [by_name[name.lower()] for name in names] or list(known)
    return {name: known[name] for name in known if name in wanted}


def knows_rays(method: Method[Any]) -> bool:
    """Whether the method can be asked for a ray; MGDA goes to some point of the front."""
    return method.understands(ferero.Preference.ray([1.0, 1.0])) is None
