"""`Logarithm`: a difference of two logarithms, whose comparison with a number is linear.

For losses that are not negative,

    s (log n - log d) <= c    is    n <= exp(c / s) d       (s > 0)

exactly, so orders of magnitude need no rows of their own: violations are measured relative to a row's size anyway.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from ferero.errors import InputError
from ferero.preference._expression import (
    Constraint,
    Expression,
    LinearForm,
    Relation,
    Rewriting,
    Rewritten,
    form_of,
    number_text,
)
from ferero.preference._ratio import check_abs, level_of, offset_text

__all__ = ["Logarithm", "log_of"]

_ONE = LinearForm(constant=1.0)


@dataclass(frozen=True, eq=False)
class Logarithm(Rewritten):
    """`sum_i factor_i * log(form_i) + constant`, or its `abs()`; `+ -` with logarithms and numbers, `* /` with numbers.

    Args:
        terms: pairs of a form and its factor, each form once.
        constant: a number added to them.
        absolute: whether all this stands inside `abs()`.

    Example:
        >>> import ferero
        >>> f = ferero.objectives("a", "b")
        >>> p = ferero.Preference(f, [abs(f.a.log() - f.b.log()) <= 0.7])
        >>> print(p.B_g.round(decimals=2).tolist())  # e^0.7 is 2.01
        [[1.0, -2.01], [-1.0, 0.5]]
    """

    terms: tuple[tuple[LinearForm, float], ...]
    constant: float = 0.0
    absolute: bool = False

    def against(self, relation: Relation, other: Any) -> Constraint:
        """The constraint `self relation other`, a row without logarithms; two of them for `abs()`.

        Raises:
            InputError: where the logarithms are not a difference of two, or `other` is no number or logarithm.
        """
        if self.absolute:
            return self._band(relation, level_of(other, relation, self))
        if isinstance(other, Logarithm):
            if other.absolute:
                raise InputError(f"'{self} {relation} {other}': bound abs() by a number, '{other} <= c'")
            label = f"{self} {relation} {other}"
            return replace((self - other)._row(relation, 0.0), label=label)
        return self._row(relation, level_of(other, relation, self))

    def _band(self, relation: Relation, level: float) -> Constraint:
        check_abs(self, relation, level)
        inside = replace(self, absolute=False)
        upper, lower = inside._row("<=", level), inside._row(">=", -level)
        assert upper.rewriting is not None  # of every row
        whole = replace(upper.rewriting, parts=(upper, lower))
        label = f"{self} <= {number_text(level)}"
        return replace(upper, relation="<=", absolute=True, label=label, rewriting=whole)

    def _row(self, relation: Relation, level: float) -> Constraint:
        """`n relation exp(c) d` of `log(n) - log(d) relation c`."""
        label = f"{self} {relation} {number_text(level)}"
        scale = next((abs(factor) for _, factor in self.terms), 0.0)
        above = [form for form, factor in self.terms if factor == scale]
        below = [form for form, factor in self.terms if factor == -scale]
        if scale == 0 or len(above) > 1 or len(below) > 1 or len(above) + len(below) < len(self.terms):
            self._refuse(relation)
        numerator, denominator = (above or [_ONE])[0], (below or [_ONE])[0]
        right = denominator.times(_exp((level - self.constant) / scale, label))
        meant = Rewriting(right, tuple(form for form, _ in self.terms))
        return Constraint(numerator, relation, right, label=label, rewriting=meant)

    def _refuse(self, operator: str, other: object = None) -> NoReturn:
        """Say why an operation on logarithms cannot be made linear, and what to write instead."""
        beside = "" if other is None else f" and '{other}'"
        if self.absolute:
            raise InputError(f"{operator}: '{self}' can only be compared, '{self} <= c'")
        raise InputError(
            f"{operator}: '{self}'{beside} cannot be made linear in the objectives: only one logarithm, or a "
            "difference of two with the same factor, compared with a number, is; a sum of logarithms is that of a "
            "product: make it a loss of its own and name it, or bound each alone"
        )

    def __add__(self, other: Any) -> Logarithm:
        if isinstance(other, Logarithm) and not self.absolute and not other.absolute:
            return self._plus(other, 1.0)
        return replace(self, constant=self.constant + self._number(other, "+"))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Logarithm:
        if isinstance(other, Logarithm) and not self.absolute and not other.absolute:
            return self._plus(other, -1.0)
        return replace(self, constant=self.constant - self._number(other, "-"))

    def __rsub__(self, other: Any) -> Logarithm:
        return (-self).__add__(other)

    def __mul__(self, other: Any) -> Logarithm:
        factor = self._number(other, "*")
        return Logarithm(tuple((form, factor * c) for form, c in self.terms if factor), factor * self.constant)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Logarithm:
        divisor = self._number(other, "/")
        if divisor == 0:
            raise InputError(f"/: '{self}' is divided by zero")
        return self * (1 / divisor)

    def __neg__(self) -> Logarithm:
        return self * -1.0

    def __pos__(self) -> Logarithm:
        return self

    def __abs__(self) -> Logarithm:
        if self.absolute:
            self._refuse("abs")
        return replace(self, absolute=True)

    def _plus(self, other: Logarithm, factor: float) -> Logarithm:
        total = dict(self.terms)
        for form, c in other.terms:
            total[form] = total.get(form, 0.0) + factor * c
        terms = tuple((form, c) for form, c in total.items() if c != 0)
        return Logarithm(terms, self.constant + factor * other.constant)

    def _number(self, other: Any, operator: str) -> float:
        """A number of any library, or an expression without objectives."""
        if self.absolute or isinstance(other, Rewritten):
            self._refuse(operator, other)
        form = form_of(other, operator)
        if form.terms:
            self._refuse(operator, form)
        return form.constant

    def __str__(self) -> str:
        parts = [_term_text(form, factor) for form, factor in self.terms]
        plain = " + ".join(parts).replace("+ -", "- ") + offset_text(self.constant)
        return f"abs({plain})" if self.absolute else plain


def log_of(expression: Expression) -> Any:
    """The natural logarithm of an expression; a number's is a number.

    Raises:
        InputError: for a number that is not positive.
    """
    form = expression.form
    if form.terms:
        return Logarithm(((form, 1.0),))
    if form.constant <= 0:
        raise InputError(f"log: expected a positive number, found {number_text(form.constant)}")
    return Expression(LinearForm(constant=math.log(form.constant)))


def _exp(exponent: float, label: str) -> float:
    try:
        found = math.exp(exponent)
    except OverflowError:
        found = math.inf
    if not 0 < found < math.inf:
        raise InputError(
            f"'{label}': exp({number_text(exponent)}) is beyond floating-point numbers; logarithms are natural ones: "
            "choose a level nearer to 0"
        )
    return found


def _term_text(form: LinearForm, factor: float) -> str:
    if abs(factor) == 1:
        return f"log({form})" if factor > 0 else f"-log({form})"
    return f"{number_text(factor)}*log({form})"
