"""The paper's experiments by name; each is imported when it is first used."""

from __future__ import annotations

import difflib
import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ferero.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from ferero_lab.experiments.experiment import Experiment

__all__ = ["get", "names"]

MODULES = {name: f"ferero_lab.experiments.{name}" for name in ("synthetic", "images", "emotions", "fairness")}
MODULES["speech"] = "ferero_lab.speech.experiment"


def names() -> tuple[str, ...]:
    """The names that `get` knows."""
    return tuple(name for name, module in MODULES.items() if find_spec(module) is not None)


def get(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        InputError: for an unknown name.
        MissingExtraError: if something that it imports is not installed.
    """
    known = names()
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        guess = f"; did you mean {close[0]!r}?" if close else "."
        raise InputError(f"NAME: there is no experiment {name!r}{guess} There are {', '.join(known)}.")
    try:
        experiment: Experiment = importlib.import_module(MODULES[name]).EXPERIMENT
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in {"ferero", "ferero_lab"}:
            raise
        raise MissingExtraError(f"run: {error.name} is not installed; pip install ferero-lab.") from None
    return experiment
