"""The value under every expression and constraint: a linear form in named objectives, without operators.

It is kept apart from `Expression` because an expression's `==` makes a constraint, while constraints need to
hold and compare plain values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["LinearForm", "entries", "number_text"]


def number_text(value: float) -> str:
    """The shortest text that reads back as exactly `value`, without a trailing `.0`."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


@dataclass(frozen=True)
class LinearForm:
    """`sum_i coefficient_i * name_i + constant`, terms in the order they were written.

    Args:
        terms: pairs of name and coefficient; each name once, no coefficient zero.
        constant: the constant.

    Example:
        >>> str(LinearForm((("zh", 1.0), ("en", -2.0)), 0.5))
        'zh - 2*en + 0.5'
    """

    terms: tuple[tuple[str, float], ...] = ()
    constant: float = 0.0

    @classmethod
    def from_row(cls, names: Sequence[str], row: Sequence[float], constant: float = 0.0) -> LinearForm:
        """The form whose coefficients are `row` (m,) over `names`."""
        return cls(tuple((name, float(c)) for name, c in zip(names, row, strict=True) if c != 0), constant)

    def plus(self, other: LinearForm, factor: float = 1.0) -> LinearForm:
        """`self + factor * other`."""
        total = dict(self.terms)
        for name, coefficient in other.terms:
            total[name] = total.get(name, 0.0) + factor * coefficient
        if 0 in total.values():
            total = {name: c for name, c in total.items() if c != 0}
        return LinearForm(tuple(total.items()), self.constant + factor * other.constant)

    def times(self, factor: float) -> LinearForm:
        """`factor * self`."""
        return LinearForm().plus(self, factor)

    def row(self, names: Sequence[str]) -> list[float]:
        """The coefficients (m,) over `names`."""
        coefficients = dict(self.terms)
        return [coefficients.get(name, 0.0) for name in names]

    def __str__(self) -> str:
        parts = [_term_text(name, coefficient) for name, coefficient in self.terms]
        if self.constant != 0 or not parts:
            parts.append(number_text(self.constant + 0.0))
        return " + ".join(parts).replace("+ -", "- ")


def entries(names: Sequence[str], forms: Iterable[LinearForm]) -> tuple[tuple[list[int], list[int]], list[float]]:
    """Where the matrix (k, m) of k forms over `names` is not zero, rows and columns, and what it is there."""
    place = {name: j for j, name in enumerate(names)}
    found = [(i, place[name], c) for i, form in enumerate(forms) for name, c in form.terms]
    return ([i for i, _, _ in found], [j for _, j, _ in found]), [c for _, _, c in found]


def _term_text(name: str, coefficient: float) -> str:
    if abs(coefficient) == 1:
        return name if coefficient > 0 else f"-{name}"
    return f"{number_text(coefficient)}*{name}"
