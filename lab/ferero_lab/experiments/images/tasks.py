"""What is trained on the images: data on the device, the network, the losses, and the rays."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ferero.errors import InputError
from ferero.preference import Preference, objectives
from ferero_lab.data import Labelled, LeNet, PairNet, Splits, cross_entropies, digit_pairs, multi_images, unit_range

__all__ = ["KINDS", "NAMES", "PAPER_RAYS", "QUICK", "Task", "accuracies", "fixed_weights", "load_task", "losses", "ray"]

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
class Task:
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
def load_task(kind: str, folder: Path | None, *, validation: int, patches: bool) -> Task:
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


def _made(kind: str, model: Callable[[int], nn.Module], data: Splits, batch: int) -> Task:
    return Task(kind, model, _pair(data.train), _pair(data.validation), _pair(data.test), batch)


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
