"""Linear expressions that read like mathematics; comparing two of them makes a constraint."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, NoReturn, TypeAlias

import numpy as np
import torch

from ferero.errors import InputError
from ferero.preference.constraint import Constraint, Relation
from ferero.preference.linear import LinearForm

__all__ = ["AbsExpression", "Expression", "Operand", "compare"]


@dataclass(frozen=True, eq=False)
class Expression:
    """A linear expression in named objectives: `+ - * /` with numbers, `+ -` with expressions.

    `<=`, `>=` and `==` with a number or an expression make a `Constraint`; `abs(expression) <= c` makes one
    of two rows.

    Args:
        form: the linear form behind it.

    Example:
        >>> import ferero.preference as fp
        >>> f = fp.objectives("cpc", "zh", "en")
        >>> print(f.zh - 2 * f.en >= f.cpc + 0.5)
        zh - 2*en >= cpc + 0.5
    """

    form: LinearForm

    def __post_init__(self) -> None:
        terms, constant = self.form.terms, self.form.constant
        if math.isfinite(constant) and all(map(math.isfinite, [c for _, c in terms])):
            return
        name, found = next((name, c) for name, c in (*terms, ("1", constant)) if not math.isfinite(c))
        raise InputError(f"expression: the coefficient of '{name}' is {found}; rescale the losses")

    __array_ufunc__ = None  # numpy scalars on the left then leave the operator to us
    __hash__ = None  # type: ignore[assignment]  # `==` makes a constraint

    def __add__(self, other: Operand) -> Expression:
        return Expression(self.form.plus(_form(other, "+")))

    __radd__ = __add__

    def __sub__(self, other: Operand) -> Expression:
        return Expression(self.form.plus(_form(other, "-"), -1.0))

    def __rsub__(self, other: Operand) -> Expression:
        return Expression(_form(other, "-").plus(self.form, -1.0))

    def __neg__(self) -> Expression:
        return Expression(self.form.times(-1.0))

    def __pos__(self) -> Expression:
        return self

    def __mul__(self, other: Operand) -> Expression:
        right = _form(other, "*")
        if self.form.terms and right.terms:
            raise InputError(
                f"*: the product of '{self}' and '{right}' is not linear; expressions are linear in the "
                f"objectives: make the product a loss of its own and name it"
            )
        if right.terms:
            return Expression(right.times(self.form.constant))
        return Expression(self.form.times(right.constant))

    __rmul__ = __mul__

    def __pow__(self, other: object) -> Expression:
        raise InputError(
            f"**: '{self}' to the power {other} is not linear; expressions are linear in the objectives: make "
            f"the power a loss of its own and name it"
        )

    def __truediv__(self, other: Operand) -> Expression:
        right = _form(other, "/")
        if right.terms:
            raise InputError(
                f"/: dividing by the expression '{right}' is not linear; multiply both sides by it, or make "
                f"the quotient a loss of its own and name it"
            )
        if right.constant == 0:
            raise InputError(f"/: '{self}' is divided by zero")
        return Expression(LinearForm(*_divided(self.form, right.constant)))

    def __rtruediv__(self, other: Operand) -> Expression:
        return Expression(_form(other, "/")) / self

    def __abs__(self) -> AbsExpression:
        return AbsExpression(self.form)

    def __le__(self, other: Operand | AbsExpression) -> Constraint:
        return compare(self, "<=", other)

    def __ge__(self, other: Operand | AbsExpression) -> Constraint:
        return compare(self, ">=", other)

    def __eq__(self, other: Operand | AbsExpression) -> Constraint:  # type: ignore[override]
        return compare(self, "==", other)

    def __ne__(self, other: object) -> NoReturn:
        raise InputError(f"'{self} != ...' is no constraint; write '<=', '>=' or '=='")

    def __lt__(self, other: object) -> NoReturn:
        raise InputError(_not_strict(self, "<"))

    def __gt__(self, other: object) -> NoReturn:
        raise InputError(_not_strict(self, ">"))

    def __bool__(self) -> NoReturn:
        raise InputError(f"the expression '{self}' is neither true nor false; compare it, '{self} <= c'")

    def __str__(self) -> str:
        return str(self.form)


@dataclass(frozen=True, eq=False)
class AbsExpression:
    """`abs(expression)`, of which only `abs(expression) <= c` can be asked.

    Args:
        form: the linear form inside.
    """

    form: LinearForm

    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __le__(self, other: Operand) -> Constraint:
        return compare(self, "<=", other)

    def __ge__(self, other: Operand) -> Constraint:
        return compare(self, ">=", other)

    def __eq__(self, other: Operand) -> Constraint:  # type: ignore[override]
        return compare(self, "==", other)

    def _refuse(self, *_: object) -> NoReturn:
        raise InputError(
            f"'{self}' can only be compared, '{self} <= c'; move factors and further terms inside abs() or "
            f"to the right side"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __neg__ = __pos__ = __abs__ = __lt__ = __gt__ = __bool__ = _refuse
    __ne__ = _refuse

    def __str__(self) -> str:
        return f"abs({self.form})"


Operand: TypeAlias = "Expression | Real | float | np.generic | torch.Tensor"

_FLIPPED: dict[Relation, Relation] = {"<=": ">=", ">=": "<=", "==": "=="}


def compare(left: Any, relation: Relation, right: Any) -> Constraint:
    """The constraint `left relation right`; an `abs()` on the right side is brought to the left.

    Raises:
        InputError: when a side is no expression and no finite number, or when `abs()` is misused.
    """
    if isinstance(right, AbsExpression):
        if isinstance(left, AbsExpression):
            raise InputError(f"'{left} {relation} {right}': abs() on both sides; bound each alone")
        return compare(right, _FLIPPED[relation], left)
    absolute = isinstance(left, AbsExpression)
    return Constraint(left.form if absolute else _form(left, relation), relation, _form(right, relation), absolute)


def _form(value: Any, operator: str) -> LinearForm:
    """The linear form of an operand: an expression, or a finite number of any library."""
    if isinstance(value, Expression):
        return value.form
    if isinstance(value, AbsExpression):
        value._refuse()
    is_numeric = isinstance(value, Real | np.generic | np.ndarray | torch.Tensor)
    if not is_numeric or isinstance(value, bool | np.bool_) or getattr(value, "ndim", 0) != 0:
        raise InputError(f"{operator}: expected a number or an expression, found {_shown(value)}")
    number = float(value)
    if not math.isfinite(number):
        raise InputError(f"{operator}: expected a finite number, found {number}")
    return LinearForm(constant=number)


def _shown(value: object) -> str:
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return f"an array of shape {tuple(value.shape)}"
    return f"{value} ({type(value).__name__})"


def _divided(form: LinearForm, divisor: float) -> tuple[tuple[tuple[str, float], ...], float]:
    """Terms and constant divided, not multiplied by the rounded inverse."""
    return tuple((name, c / divisor) for name, c in form.terms), form.constant / divisor


def _not_strict(left: Expression, sign: str) -> str:
    return f"'{left} {sign} ...': no strict inequalities; write '{sign}='; for max and min, bounds on both"
