"""What a run of the emotions experiment trains: methods, rays, steps and how long, by mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

import ferero
from ferero.errors import InputError
from ferero_lab.experiments.chosen import chosen
from ferero_lab.experiments.experiment import Settings

__all__ = [
    "METHODS",
    "PANELS",
    "PAPER",
    "REFERENCE",
    "TITLES",
    "EmotionsPlan",
    "make_method",
    "mild_rays",
    "read_plan",
    "uniform_rays",
]

TITLES = {
    "ls": "LS",
    "pmtl": "PMTL",
    "epo": "EPO",
    "xwc-mgda": "XWC-MGDA",
    "stch": "smooth Tchebycheff",
    "ferero": "FERERO",
}
METHODS = tuple(TITLES)
PANELS = ("rays", "constant", "held-out")
RAYS = 10
REFERENCE = (0.551, 0.636, 0.690, 0.539, 0.603, 0.570)
"""The point below which hypervolumes are measured, the paper's."""
PAPER = {"ls": "0.0258", "pmtl": "0.0230", "epo": "0.0366", "xwc-mgda": "0.0348", "ferero": "0.0357 ± 0.0006"}
"""The paper's hypervolumes, times 1e-2."""
_SMALLEST = 0.09  # entry of a ray
_MILD = 0.25  # the share of the ray itself in a mild one


@dataclass(frozen=True)
class EmotionsPlan:
    """How the models of a mode are trained.

    Attributes:
        mode: "quick", "ours" or "paper".
        epochs: passes over the songs.
        seeds: how many.
        optimizer: the same for every method.
        steps: learning rates; where there are several, a method's is chosen on a seed of its own.
        is_cosine: whether the step falls to 0 along a cosine.
        methods: which.
        panels: which.
        batch: songs in a batch.
        width: of the three hidden layers.
        gentle_step: the learning rate of short trainings, which end before the songs are learned by heart.
    """

    mode: str
    epochs: int
    seeds: int
    optimizer: Literal["Adam", "SGD"]
    steps: tuple[float, ...]
    is_cosine: bool
    methods: tuple[str, ...] = METHODS
    panels: tuple[str, ...] = PANELS
    batch: int = 50
    width: int = 64
    gentle_step: float = 3e-4


_PLANS = {
    "quick": EmotionsPlan(
        "quick", 80, 2, "Adam", (3e-3,), is_cosine=True, panels=("rays", "held-out"), gentle_step=1e-3
    ),
    "ours": EmotionsPlan("ours", 200, 3, "Adam", (3e-4, 1e-3, 3e-3), is_cosine=True),
    "paper": EmotionsPlan("paper", 200, 5, "SGD", (1e-3,), is_cosine=False, methods=tuple(PAPER), panels=("rays",)),
}


def read_plan(settings: Settings) -> EmotionsPlan:
    """The mode's plan with what the user changed.

    Raises:
        InputError: a name in ``only`` or ``methods`` that there is not in this mode, or a mode that there is not.
    """
    if settings.mode not in _PLANS:
        raise InputError(f"mode: expected one of {', '.join(_PLANS)}, found {settings.mode!r}.")
    plan = _PLANS[settings.mode]
    return replace(
        plan,
        epochs=settings.epochs or plan.epochs,
        seeds=settings.seeds or plan.seeds,
        methods=chosen("--methods", settings.methods, plan.methods),
        panels=chosen("--only", settings.only, plan.panels),
    )


def make_method(name: str, mode: str) -> Any:
    """The method of that name; with the paper's settings FERERO is its Algorithm 3."""
    if name == "ferero" and mode == "paper":
        return ferero.FereroSA(gamma=1e-4, c_h=0.5, domain="simplex")
    made: dict[str, Callable[[], Any]] = {
        "ls": ferero.LinearScalarization,
        "pmtl": lambda: ferero.PMTL(vectors=uniform_rays().tolist(), solver="batched"),
        "epo": lambda: ferero.EPO(solver="batched"),
        "xwc-mgda": lambda: ferero.XWCMGDA(solver="batched"),
        "stch": lambda: ferero.SmoothTchebycheff(mu=0.003),
        "ferero": ferero.FereroPI,
    }
    return made[name]()


@cache
def uniform_rays() -> Tensor:
    """Ten rays drawn uniformly from all positive directions, (10, 6), unit length, always the same.

    One with an entry below 0.09 is drawn again: `ferero.spread` keeps the same distance from the faces.
    """
    generator = np.random.default_rng(0)
    rays: list[np.ndarray] = []
    while len(rays) < RAYS:
        ray = np.abs(generator.standard_normal(6))
        ray /= np.linalg.norm(ray)
        if ray.min() >= _SMALLEST:
            rays.append(ray)
    return torch.from_numpy(np.stack(rays))


def mild_rays() -> Tensor:
    """The same drawn towards equal losses, (10, 6): the largest entry is at most 1.51 times the smallest."""
    mixed = _MILD * uniform_rays() + (1 - _MILD) * 6**-0.5
    return torch.nn.functional.normalize(mixed, dim=1)
