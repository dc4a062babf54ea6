"""A census that nobody was asked for: a stand-in for UCI Adult, for quick runs without data."""

from __future__ import annotations

import numpy as np

from ferero.errors import InputError
from ferero_lab.data.census import GROUPS, Census, census

__all__ = ["adult_like"]

_NUMBERS = ("age", "education-num", "hours-per-week", "experience")
_WORK = ("office", "craft", "care", "sales", "management")
# How likely each kind of work is for the two groups, and how it pays: a way for the group to enter unseen.
_WORK_SHARES = np.array([[0.36, 0.05, 0.34, 0.15, 0.10], [0.18, 0.34, 0.12, 0.16, 0.20]])
_WORK_PAYS = np.array([0.2, -0.3, -0.9, 0.0, 1.1])


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
    names = (*_NUMBERS, *(f"occupation={kind}" for kind in _WORK), *(f"sex={group}" for group in GROUPS))
    fifth = n // 5
    rows = np.split(np.arange(n), [n - 2 * fifth, n - fifth])
    return census([(numbers[part], categories[part], rich[part], male[part]) for part in rows], names)
