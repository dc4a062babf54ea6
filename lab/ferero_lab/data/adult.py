"""UCI Adult: who earned more than 50,000 dollars in 1994, by census features, with sex as the group; and a stand-in.

`adult_like` is a synthetic census for quick runs without data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ferero.errors import InputError
from ferero_lab.data.files import find_file, lines
from ferero_lab.data.splits import standardised

__all__ = ["GROUPS", "Census", "CensusPart", "adult", "adult_like"]

GROUPS = ("Female", "Male")
"""The names of groups 0 and 1."""

_COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)
_NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
_CATEGORIES = tuple(name for name in _COLUMNS[:-1] if name not in _NUMBERS)
_INCOMES = ("<=50K", ">50K")

_LIKE_NUMBERS = ("age", "education-num", "hours-per-week", "experience")
_WORK = ("office", "craft", "care", "sales", "management")
# How likely each kind of work is for the two groups, and how it pays: a way for the group to enter unseen.
_WORK_SHARES = np.array([[0.36, 0.05, 0.34, 0.15, 0.10], [0.18, 0.34, 0.12, 0.16, 0.20]])
_WORK_PAYS = np.array([0.2, -0.3, -0.9, 0.0, 1.1])


@dataclass(frozen=True)
class CensusPart:
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

    train: CensusPart
    validation: CensusPart
    test: CensusPart
    feature_names: tuple[str, ...]


@dataclass(frozen=True)
class _Records:
    """The columns of one file: numbers (n, 6), the rest as text by name, (n,) each."""

    numbers: np.ndarray
    texts: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.numbers)


def adult(folder: str | Path | None = None, *, validation: int = 6_512, seed: int = 0) -> Census:
    """UCI Adult in its authors' division: 32,561 people to learn from, some of them set aside, and 16,281 to test on.

    Six numbers (age, fnlwgt, education-num, capital-gain, capital-loss, hours-per-week) are standardised by the people
    left for training; eight categories become one column for each value that the training file has, sex among them. A
    missing value ("?") is a value of its own; a value that only the test file has leaves its columns at 0.

    Args:
        folder: where to look for the files first; see ``ferero_lab.data.find_file``.
        validation: how many people of the training file are set aside; a fifth unless told.
        seed: which ones.

    Returns:
        Features (n, 108), labels (1: more than 50K) and groups (0 female, 1 male) in three parts.

    Raises:
        InputError: when a file is damaged or has another checksum, or ``validation`` leaves nobody to a part.
        DownloadError: when a file is neither in the folder nor can be downloaded.
    """
    known = _read(find_file("adult/adult.data", folder))
    unseen = _read(find_file("adult/adult.test", folder))
    if not 0 < validation < len(known):
        raise InputError(f"validation: expected 1 to {len(known) - 1} people, found {validation}.")
    levels = {name: np.unique(known.texts[name]) for name in _CATEGORIES}
    order = np.random.default_rng(seed).permutation(len(known))
    held, kept = np.sort(order[:validation]), np.sort(order[validation:])
    parts = [
        (
            records.numbers[rows],
            np.hstack([records.texts[name][rows, None] == levels[name] for name in _CATEGORIES]),
            records.texts["income"][rows] == _INCOMES[1],
            records.texts["sex"][rows] == GROUPS[1],
        )
        for records, rows in ((known, kept), (known, held), (unseen, np.arange(len(unseen))))
    ]
    names = (*_NUMBERS, *(f"{name}={level}" for name in _CATEGORIES for level in levels[name]))
    return _census(parts, names)


def adult_like(seed: int = 0, n: int = 6_000) -> Census:
    """A synthetic stand-in for ``adult``: no person behind any row. For quick runs without data only.

    About 67 in 100 are male, and about 11 in 100 women and 31 in 100 men have the label 1, as in UCI Adult. Part of
    the gap runs through working hours and kind of work, part is there between people who are equal in all else, so
    that a classifier with or without the column sex reproduces it. Incomes are drawn from a logistic model.

    Args:
        seed: of the whole set.
        n: the number of people: three fifths for training, a fifth each for validation and test.

    Returns:
        Features (n, 11), labels and groups in three parts, as ``adult`` has them.

    Raises:
        InputError: for fewer than 50 people.

    Example:
        >>> adult_like(n=100).train.features.shape
        torch.Size([60, 11])
    """
    if n < 50:
        raise InputError(f"n: expected at least 50 people, found {n}.")
    generator = np.random.default_rng(seed)
    male = generator.random(n) < 0.67
    age, school, diligence = generator.standard_normal((3, n))
    hours = 0.8 * diligence + 0.6 * male
    experience = 0.7 * age + 0.7 * generator.standard_normal(n)
    bounds = _WORK_SHARES.cumsum(axis=1)[male.astype(int)]
    work = (generator.random((n, 1)) > bounds[:, :-1]).sum(axis=1)
    score = -2.85 + 1.3 * school + 0.9 * hours + 0.9 * experience + 1.4 * _WORK_PAYS[work] + 1.0 * male
    rich = generator.random(n) < 1 / (1 + np.exp(-score))

    numbers = np.stack([38 + 13 * age, 10 + 2.5 * school, 38 + 12 * hours, 15 + 8 * experience], axis=1)
    categories = np.hstack([work[:, None] == np.arange(len(_WORK)), male[:, None] == np.arange(len(GROUPS))])
    names = (*_LIKE_NUMBERS, *(f"occupation={kind}" for kind in _WORK), *(f"sex={group}" for group in GROUPS))
    fifth = n // 5
    rows = np.split(np.arange(n), [n - 2 * fifth, n - fifth])
    return _census([(numbers[part], categories[part], rich[part], male[part]) for part in rows], names)


def _census(
    parts: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]], feature_names: tuple[str, ...]
) -> Census:
    """A census of training, validation and test part, each as numbers, categories (0 or 1), labels and groups."""
    numbers, categories, labels, groups = zip(*parts, strict=True)
    features = [
        np.hstack([scaled, marked.astype(np.float32)])
        for scaled, marked in zip(standardised(numbers[0], numbers[1:]), categories, strict=True)
    ]
    train, validation, test = (
        CensusPart(
            torch.from_numpy(x), torch.from_numpy(y.astype(np.float32)), torch.from_numpy(group.astype(np.int64))
        )
        for x, y, group in zip(features, labels, groups, strict=True)
    )
    return Census(train, validation, test, feature_names)


def _read(path: Path) -> _Records:
    numbers: list[list[float]] = []
    texts: list[dict[str, str]] = []
    for number, line in enumerate(lines(path), start=1):
        if not line.strip() or line.startswith("|"):
            continue
        record = _record(line, f"{path}, line {number}")
        texts.append(record)
        numbers.append([float(record[name]) for name in _NUMBERS])
    if not texts:
        raise InputError(f"{path}: expected one person a line, found nobody.")
    columns = {name: np.array([record[name] for record in texts]) for name in (*_CATEGORIES, "income")}
    return _Records(np.array(numbers), columns)


def _record(line: str, where: str) -> dict[str, str]:
    values = [value.strip() for value in line.split(",")]
    if len(values) != len(_COLUMNS):
        raise InputError(f"{where}: expected {len(_COLUMNS)} values, found {len(values)}.")
    record = dict(zip(_COLUMNS, values, strict=True))
    record["income"] = record["income"].removesuffix(".")
    for name in _NUMBERS:
        if not record[name].removeprefix("-").isdecimal():
            raise InputError(f"{where}: expected an integer for {name}, found {record[name]!r}.")
    for name, allowed in (("sex", GROUPS), ("income", _INCOMES)):
        if record[name] not in allowed:
            raise InputError(f"{where}: expected {' or '.join(allowed)} for {name}, found {record[name]!r}.")
    return record
