"""Statlog German credit: a thousand applicants, who repaid, with sex as the group."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from ferero.errors import InputError
from ferero_lab.data.adult import CensusPart
from ferero_lab.data.files import find_file, lines

__all__ = ["german"]

_COLUMNS = 21
_NUMBERS = (1, 4, 7, 10, 12, 15, 17)
_SEX = 8
_WOMEN = ("A92", "A95")


def german(folder: str | Path | None = None) -> CensusPart:
    """All 1,000 applicants: features (1000, 61), label 1 for a good credit, and group 0 for women, 1 for men.

    Numbers are standardised; the other columns, personal status and sex among them, are marked by 0 and 1 for each of
    their levels.

    Args:
        folder: Where to look for ``german/german.data`` first; see ``find_file``.

    Raises:
        InputError: A line with another number of columns.
        DownloadError: The file is not in the folder and cannot be downloaded.
    """
    path = find_file("german/german.data", folder)
    records = [line.split() for line in lines(path) if line.strip()]
    for number, record in enumerate(records, start=1):
        if len(record) != _COLUMNS:
            raise InputError(f"{path}, line {number}: expected {_COLUMNS} values, found {len(record)}.")
    table = np.array(records)
    numbers = table[:, _NUMBERS].astype(np.float64)
    marks = [
        table[:, [column]] == np.unique(table[:, column]) for column in range(_COLUMNS - 1) if column not in _NUMBERS
    ]
    features = np.hstack([(numbers - numbers.mean(axis=0)) / numbers.std(axis=0), *marks]).astype(np.float32)
    return CensusPart(
        torch.from_numpy(features),
        torch.from_numpy((table[:, -1] == "1").astype(np.float32)),
        torch.from_numpy((~np.isin(table[:, _SEX], _WOMEN)).astype(np.int64)),
    )
