"""People with features, a yes-or-no label and a group: what a fairness experiment is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ferero_lab.data.standardise import standardised

__all__ = ["GROUPS", "Census", "People", "census"]

GROUPS = ("Female", "Male")
"""The names of groups 0 and 1."""


@dataclass(frozen=True)
class People:
    """One part of a census.

    Attributes:
        features: float32, (n, d): numbers standardised by the training part, then 0 or 1 for each category.
        labels: float32, (n,): 1 for a high income.
        groups: int64, (n,): the place in ``GROUPS``.
    """

    features: Tensor
    labels: Tensor
    groups: Tensor

    def __len__(self) -> int:
        return len(self.features)


@dataclass(frozen=True)
class Census:
    """People in three parts.

    Attributes:
        train: to learn from.
        validation: taken from the same source as ``train``.
        test: to report on.
        feature_names: d; "age" for a number, "sex=Male" for a category.
    """

    train: People
    validation: People
    test: People
    feature_names: tuple[str, ...]


def census(
    parts: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]], feature_names: tuple[str, ...]
) -> Census:
    """A census of training, validation and test part, each as numbers, categories (0 or 1), labels and groups."""
    numbers, categories, labels, groups = zip(*parts, strict=True)
    features = [
        np.hstack([scaled, marked.astype(np.float32)])
        for scaled, marked in zip(standardised(numbers[0], numbers[1:]), categories, strict=True)
    ]
    train, validation, test = (
        People(torch.from_numpy(x), torch.from_numpy(y.astype(np.float32)), torch.from_numpy(group.astype(np.int64)))
        for x, y, group in zip(features, labels, groups, strict=True)
    )
    return Census(train, validation, test, feature_names)
