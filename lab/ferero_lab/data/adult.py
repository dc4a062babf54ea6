"""UCI Adult: who earned more than 50,000 dollars in 1994, by census features, with sex as the group."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ferero.errors import InputError
from ferero_lab.data.census import GROUPS, Census, census
from ferero_lab.data.content import lines
from ferero_lab.data.files import find_file

__all__ = ["adult"]

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
    return census(parts, names)


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
