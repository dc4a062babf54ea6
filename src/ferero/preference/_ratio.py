"""`Ratio`: a quotient of two expressions, whose comparison with a number is linear.

Where the denominator is not negative,

    n / d + o <= c    is    n + o d - c d <= 0

and likewise for >= and ==. Batch noise does not bias the linear row, as it does the ratio of two noisy numbers.
"""

from __future__ import annotations

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
from ferero.preference._schedule import MovingLevel

__all__ = ["Ratio", "check_abs", "level_of", "offset_text"]


@dataclass(frozen=True, eq=False)
class Ratio(Rewritten):
    """`numerator / denominator + offset`, or its `abs()`; `+ - * /` with numbers, compared with numbers.

    Args:
        numerator: the linear form above.
        denominator: the linear form below, with an objective in it; it is taken not to be negative.
        offset: a number added to the quotient.
        absolute: whether all this stands inside `abs()`.

    Raises:
        InputError: for numbers that are not finite.

    Example:
        >>> import ferero
        >>> f = ferero.objectives("a", "b")
        >>> p = ferero.Preference(f, [f.a / f.b <= 2])
        >>> print(p.B_g.tolist(), p.labels_g)
        [[1.0, -2.0]] ('a / b <= 2',)
    """

    numerator: LinearForm
    denominator: LinearForm
    offset: float = 0.0
    absolute: bool = False

    def __post_init__(self) -> None:
        for form in (self.numerator, self.denominator, LinearForm(constant=self.offset)):
            Expression(form)  # refuses what is not finite

    def against(self, relation: Relation, other: Any) -> Constraint:
        """The constraint `self relation other`, a row without a quotient; two of them for `abs()`.

        Raises:
            InputError: where `other` is no number, or `abs()` is misused.
        """
        level = level_of(other, relation, self)
        if not self.absolute:
            return self._row(relation, level)
        check_abs(self, relation, level)
        inside = replace(self, absolute=False)
        upper, lower = inside._row("<=", level), inside._row(">=", -level)
        whole = Rewriting(self.denominator, (self.denominator,), (upper, lower))
        return replace(upper, absolute=True, label=f"{self} <= {number_text(level)}", rewriting=whole)

    def _row(self, relation: Relation, level: float) -> Constraint:
        left = self.numerator.plus(self.denominator, self.offset)
        label = f"{self} {relation} {number_text(level)}"
        meant = Rewriting(self.denominator, (self.denominator,))
        return Constraint(left, relation, self.denominator.times(level), label=label, rewriting=meant)

    def _refuse(self, operator: str, other: object = None) -> NoReturn:
        """Say why an operation on a ratio cannot be made linear, and what to write instead."""
        beside = "" if other is None else f" and '{other}'"
        if self.absolute:
            raise InputError(
                f"{operator}: '{self}' can only be compared, '{self} <= c'; move factors and further terms inside "
                "abs() or to the right side"
            )
        raise InputError(
            f"{operator}: '{self}'{beside} cannot be made linear in the objectives: a ratio stands alone and is "
            f"compared with a number, '{replace(self, offset=0.0)} <= c'; write sums over one denominator, "
            "'(f.a + f.b) / f.c', or make the quotient a loss of its own and name it"
        )

    def __add__(self, other: Any) -> Ratio:
        return replace(self, offset=self.offset + self._number(other, "+"))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Ratio:
        return replace(self, offset=self.offset - self._number(other, "-"))

    def __rsub__(self, other: Any) -> Ratio:
        return (-self).__add__(other)

    def __mul__(self, other: Any) -> Ratio:
        factor = self._number(other, "*")
        return replace(self, numerator=self.numerator.times(factor), offset=factor * self.offset)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Ratio:
        divisor = self._number(other, "/")
        if divisor == 0:
            raise InputError(f"/: '{self}' is divided by zero")
        return self * (1 / divisor)

    def __neg__(self) -> Ratio:
        return self * -1.0

    def __pos__(self) -> Ratio:
        return self

    def __abs__(self) -> Ratio:
        if self.absolute:
            self._refuse("abs")
        return replace(self, absolute=True)

    def log(self) -> NoReturn:
        """Refused: the logarithm of a ratio is a difference of logarithms."""
        raise InputError(f"log: write the logarithm of '{self}' as a difference, 'f.a.log() - f.b.log()'")

    def _number(self, other: Any, operator: str) -> float:
        """A number of any library, or an expression without objectives."""
        if self.absolute or isinstance(other, Rewritten):
            self._refuse(operator, other)
        form = form_of(other, operator)
        if form.terms:
            self._refuse(operator, form)
        return form.constant

    def __str__(self) -> str:
        plain = f"{_grouped(self.numerator, '-')} / {_grouped(self.denominator, '')}{offset_text(self.offset)}"
        return f"abs({plain})" if self.absolute else plain


def level_of(other: Any, relation: Relation, left: Rewritten) -> float:
    """The number that a ratio or a logarithm is compared with.

    Raises:
        InputError: for anything else, saying why that is not linear.
    """
    if isinstance(other, MovingLevel):
        raise InputError(
            f"'{left} {relation} {other}': a level that moves bounds a linear expression, since it would change the "
            "coefficients of this one; write the number, and change it by steer.ask(...) during training"
        )
    if isinstance(other, Rewritten):
        left._refuse(relation, other)
    form = form_of(other, relation)
    if form.terms:
        left._refuse(relation, form)
    return form.constant


def check_abs(inside: Rewritten, relation: Relation, level: float) -> None:
    """Refuse an `abs()` that is compared with another relation than `<=`, or with a negative number."""
    if relation != "<=":
        raise InputError(
            f"abs(...) takes only '<=': '{inside} {relation} {number_text(level)}' is not a convex region; write "
            f"'{inside} <= c'"
        )
    if level < 0:
        raise InputError(
            f"abs(...) <= c needs c >= 0: '{inside} <= {number_text(level)}' can never hold; raise the bound above zero"
        )


def offset_text(offset: float) -> str:
    """A number behind a sum, with its sign; nothing for 0."""
    if offset == 0:
        return ""
    return f" {'-' if offset < 0 else '+'} {number_text(abs(offset))}"


def _grouped(form: LinearForm, bare: str) -> str:
    """The form as one operand of a quotient: in parentheses unless it is a number or name, or starts with `bare`."""
    text = str(form)
    is_single = len(form.terms) + (form.constant != 0) <= 1
    is_plain = "*" not in text and not text.startswith("-")
    return text if is_single and (is_plain or bare) else f"({text})"
