"""A reader of ARFF tables that are dense and hold numbers and nominal values: every fault has its line number."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ferero.errors import InputError
from ferero_lab.data.files import lines

__all__ = ["ArffTable", "Attribute", "read_arff"]

_ATTRIBUTE = re.compile(r"""@attribute\s+(?:'([^']+)'|"([^"]+)"|(\S+))\s+(\{.*\}|\S+)""", re.IGNORECASE)
_NUMERIC = {"numeric", "real", "integer"}


@dataclass(frozen=True)
class Attribute:
    """A column.

    Attributes:
        name: as the file spells it.
        values: the nominal values in the file's order; empty for a column of numbers.
    """

    name: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class ArffTable:
    """What an ARFF file holds.

    Attributes:
        attributes: the d columns.
        rows: float64, (n, d); a nominal value is its place among the values of its column.
    """

    attributes: tuple[Attribute, ...]
    rows: np.ndarray


def read_arff(path: Path) -> ArffTable:
    """The table in an ARFF file, packed with gzip or not.

    Not read, and refused with the number of the line: sparse rows, missing values, strings, dates, and commas or
    braces within quotes.

    Raises:
        InputError: naming the file and the line, when something is not as it should be.
    """
    attributes: list[Attribute] = []
    rows: list[list[float]] = []
    in_data = False
    for number, line in enumerate(lines(path), start=1):
        text = line.strip()
        if not text or text.startswith("%"):
            continue
        where = f"{path}, line {number}"
        if in_data:
            rows.append(_row(text, attributes, where))
        elif text.lower() == "@data":
            in_data = True
        elif text.lower().startswith("@attribute"):
            attributes.append(_attribute(text, where))
        elif not text.lower().startswith("@relation"):
            raise InputError(f"{where}: expected @relation, @attribute or @data, found {_short(text)}.")
    if not attributes or not rows:
        raise InputError(
            f"{path}: expected attributes, a line @data and rows, found {len(attributes)} attributes and "
            f"{len(rows)} rows."
        )
    return ArffTable(tuple(attributes), np.array(rows))


def _attribute(text: str, where: str) -> Attribute:
    match = _ATTRIBUTE.fullmatch(text)
    if match is None:
        raise InputError(f"{where}: expected @attribute NAME TYPE, found {_short(text)}.")
    name = match[1] or match[2] or match[3]
    kind = match[4]
    if kind.startswith("{"):
        return Attribute(name, tuple(_unquoted(value) for value in kind[1:-1].split(",")))
    if kind.lower() not in _NUMERIC:
        raise InputError(f"{where}: expected numeric, real, integer or {{...}} as type of {name}, found {kind}.")
    return Attribute(name)


def _row(text: str, attributes: list[Attribute], where: str) -> list[float]:
    if text.startswith("{"):
        raise InputError(f"{where}: expected a dense row, found a sparse one, {_short(text)}.")
    values = text.split(",")
    if len(values) != len(attributes):
        raise InputError(f"{where}: expected {len(attributes)} values, found {len(values)}.")
    return [_value(value, attribute, where) for value, attribute in zip(values, attributes, strict=True)]


def _value(text: str, attribute: Attribute, where: str) -> float:
    value = _unquoted(text)
    if attribute.values:
        if value not in attribute.values:
            raise InputError(
                f"{where}: expected one of {', '.join(attribute.values)} for {attribute.name}, found {value!r}."
            )
        return float(attribute.values.index(value))
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{where}: expected a finite number for {attribute.name}, found {value!r}.")
    return number


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
