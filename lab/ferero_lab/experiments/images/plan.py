"""What is compared on the images: data sets with their networks and losses, rays, and the seven methods."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch import Tensor, nn

import ferero
from ferero.errors import InputError
from ferero.methods import Method
from ferero.preference import Preference, objectives
from ferero_lab.data import Labelled, LeNet, PairNet, Splits, cross_entropies, digit_pairs, multi_images, unit_range

__all__ = [
    "KINDS",
    "METHODS",
    "NAMES",
    "PAPER",
    "PAPER_RAYS",
    "QUICK",
    "ImageTask",
    "accuracies",
    "chosen_methods",
    "fixed_weights",
    "knows_rays",
    "load_task",
    "losses",
    "ray",
]

NAMES = ("left", "right")
QUICK = "digits"
PAPER_RAYS = (22.5, 45.0, 67.5)
"""Degrees of the three rays that the paper trains and counts."""


@dataclass(frozen=True)
class Kind:
    """One of the data sets, with what the paper's table needs.

    Attributes:
        title: as people call it.
        loss_reference: reference point of the hypervolume of losses.
        accuracy_reference: the same for accuracies.
    """

    title: str
    loss_reference: tuple[float, float]
    accuracy_reference: tuple[float, float]


KINDS = {
    "mnist": Kind("Multi-MNIST", (0.500, 0.450), (0.830, 0.848)),
    "fashion": Kind("Multi-Fashion", (0.840, 0.800), (0.840, 0.800)),
    "fashion-mnist": Kind("Multi-Fashion+MNIST", (0.625, 0.575), (0.790, 0.785)),
    QUICK: Kind("digit pairs", (1.0, 1.0), (0.5, 0.5)),
}


@dataclass(frozen=True)
class ImageTask:
    """A training that only lacks method, preferences and step.

    Attributes:
        kind: its key in ``KINDS``.
        model: ``model(seed)``.
        train: images and labels.
        validation: images made of other training images, to choose steps by.
        test: images and labels.
        batch: examples in a batch.
    """

    kind: str
    model: Callable[[int], nn.Module]
    train: tuple[Tensor, Tensor]
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    batch: int


@lru_cache(maxsize=1)
def load_task(kind: str, folder: Path | None, *, validation: int, patches: bool) -> ImageTask:
    """The data in memory and the network that goes with them.

    Args:
        kind: a key of ``KINDS``.
        folder: where the files are; not needed for the digits.
        validation: how many images to hold out of the training images' sources.
        patches: whether the network is computed for many at once on a GPU.
    """
    if kind == QUICK:
        return _made(kind, lambda seed: PairNet(seed=seed), digit_pairs(), 128)
    if kind not in KINDS:
        raise InputError(f"--only: expected {', '.join(KINDS)}, found {kind!r}.")
    data = multi_images(kind, folder, validation=validation)
    return _made(kind, lambda seed: LeNet(seed=seed, patches=patches), data, 256)


def _made(kind: str, model: Callable[[int], nn.Module], data: Splits, batch: int) -> ImageTask:
    return ImageTask(kind, model, _pair(data.train), _pair(data.validation), _pair(data.test), batch)


def _pair(part: Labelled) -> tuple[Tensor, Tensor]:
    return part.images, part.labels


def losses(model: Any, batch: tuple[Tensor, Tensor]) -> Tensor:
    """The two cross-entropies, (2,)."""
    images, labels = batch
    return cross_entropies(model(unit_range(images)), labels)


def accuracies(model: Any, batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
    """The share of right answers of both tasks."""
    images, labels = batch
    right = (model(unit_range(images)).argmax(dim=-1) == labels.T).double().mean(dim=-1)
    return {f"accuracy_{name}": value for name, value in zip(NAMES, right.unbind(), strict=True)}


def ray(degrees: float) -> Preference:
    """Losses on the ray at that angle to the first axis."""
    angle = math.radians(degrees)
    return Preference.ray([math.cos(angle), math.sin(angle)], names=NAMES)


def fixed_weights(left: float) -> Preference:
    """Nothing but the order of ``left * f_left + (1 - left) * f_right``."""
    f = objectives(*NAMES)
    return Preference(f, [], minimize=left * f.left + (1 - left) * f.right)


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
