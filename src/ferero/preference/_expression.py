"""Linear expressions that read like mathematics; comparing two of them makes a constraint."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np
import torch

from ferero.errors import InputError
from ferero.preference._schedule import MovingLevel

__all__ = [
    "AbsExpression",
    "Constraint",
    "Expression",
    "LinearForm",
    "Operand",
    "Relation",
    "Rewriting",
    "Rewritten",
    "compare",
    "entries",
    "form_of",
    "number_text",
    "with_margins",
]


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


Relation = Literal["<=", ">=", "=="]
_NAME = re.compile(r"[\w./-]+")
_OTHER = re.compile(r"[^\w./-]+")
_SPELLED = {" <= ": " le ", " >= ": " ge ", " == ": " eq ", " + ": " plus ", " - ": " minus ", " / ": " over "}


@dataclass(frozen=True)
class Rewriting:
    """What the row of a constraint that was not written as a linear one, a ratio or a logarithm, stands for.

    Args:
        unit: the row divided by this is in the units of what was written: for ``a / b <= c``, a row ``a - c b``, it is
            b.
        positive: what must not be negative for the row to mean what was written.
        parts: the constraints of one row each, for an `abs()`.
    """

    unit: LinearForm
    positive: tuple[LinearForm, ...]
    parts: tuple[Constraint, ...] = ()


@dataclass(frozen=True)
class Constraint:
    """`left relation right`, or `abs(left) <= right`.

    Its rows are left minus right, negated for `>=`, not rescaled: `row . F + constant <= 0` (or `== 0`).
    `abs(left) <= right` has two rows, `left - right <= 0` and `-left - right <= 0`.

    Args:
        left: the left side.
        relation: `<=`, `>=` or `==`.
        right: the right side.
        absolute: whether the left side stands inside `abs()`.
        label: a sentence to print in place of the formula, for rows that nobody wrote (those of a ray).
        margin: how many estimated standard errors of its value noisy training keeps away from the bound.
        name: what reports and metrics call it; None for the formula.
        rewriting: for a ratio or logarithms, what its linear row stands for.
        schedule: for a level that moves with the steps of training; `right` is then its end.

    Raises:
        InputError: for an `abs()` with another relation than `<=` or with a negative bound, or a name of other
            characters than letters, digits, `_`, `.`, `-` and `/`.

    Example:
        >>> import ferero.preference as fp
        >>> f = fp.objectives("zh", "en")
        >>> print((f.zh - f.en <= 0.5).with_margin(1.64))
        zh - en <= 0.5 (margin 1.64 standard errors)
    """

    left: LinearForm
    relation: Relation
    right: LinearForm
    absolute: bool = False
    label: str | None = None
    margin: float = 0.0
    name: str | None = None
    rewriting: Rewriting | None = None
    schedule: MovingLevel | None = None

    def __post_init__(self) -> None:
        if self.name is not None and not _NAME.fullmatch(str(self.name)):
            raise InputError(_no_name(self.name))
        if self.absolute and self.relation != "<=":
            raise InputError(
                f"abs(...) takes only '<=': 'abs({self.left}) {self.relation} {self.right}' is not a convex "
                f"region; write 'abs({self.left}) <= c', or '{self.left} == c' for one value"
            )
        lowest = self.right.constant if self.schedule is None else min(self.schedule.levels)
        if self.absolute and not self.right.terms and lowest < 0:
            raise InputError(
                f"abs(...) <= c needs c >= 0: 'abs({self.left}) <= {self._right_text}' can never hold; "
                f"raise the bound above zero"
            )

    @property
    def is_equality(self) -> bool:
        """Whether the constraint is an equation (a row of B_h) and not an inequality (a row of B_g)."""
        return self.relation == "=="

    @property
    def parts(self) -> tuple[Constraint, ...]:
        """The constraints of one row each: two for `abs()`, else the constraint itself."""
        if not self.absolute:
            return (self,)
        names = (None, None) if self.name is None else (f"{self.name}/upper", f"{self.name}/lower")
        if self.rewriting is not None:
            both = zip(self.rewriting.parts, names, strict=True)
            return tuple(replace(part, margin=self.margin, name=name) for part, name in both)
        moving = self.schedule
        upper = Constraint(self.left, "<=", self.right, margin=self.margin, name=names[0], schedule=moving)
        lower = Constraint(self.left, ">=", self.right.times(-1.0), margin=self.margin, name=names[1])
        return upper, lower if moving is None else replace(lower, schedule=moving.times(-1.0))

    @cached_property
    def form(self) -> LinearForm:
        """Left minus right, negated for `>=`, of a constraint of one row."""
        difference = self.left.plus(self.right, -1.0)
        return difference.times(-1.0) if self.relation == ">=" else difference

    def at(self, step: int) -> Constraint:
        """The constraint with the level that a schedule has at a step of training; itself where none moves."""
        if self.schedule is None:
            return self
        return replace(self, right=LinearForm(constant=self.schedule.at(step)), schedule=None)

    def with_margin(self, z: float) -> Constraint:
        """The inequality with a margin of `z` standard errors, in place of any it had; its sides stay as they are.

        In noisy training `G <= 0` becomes `G + z * standard error of G <= 0`, so the constraint holds with the
        confidence of z (1.64: 95%) and not only on average. Without noise a margin changes nothing.

        Args:
            z: how many standard errors; finite, not negative. Both rows of an `abs()` get it.

        Raises:
            InputError: for an equality, or a margin that is negative or not finite.
        """
        if self.is_equality:
            raise InputError(
                f"with_margin: only inequalities take a margin, '{self}' is an equality; "
                f"write 'abs({self.left.plus(self.right, -1.0)}) <= c' for a band"
            )
        return replace(self, margin=_read_margin(z))

    def named(self, name: str) -> Constraint:
        """The same constraint under a name, in place of any it had, by which reports and metrics call it.

        The two rows of an `abs()` are called `name/upper` and `name/lower`.

        Args:
            name: letters, digits, `_`, `.`, `-` and `/`, which every experiment tracker takes.

        Raises:
            InputError: for anything else.

        Example:
            >>> import ferero.preference as fp
            >>> f = fp.objectives("a", "b")
            >>> fp.Preference(f, [(f.a <= 1).named("budget")]).labels_g
            ('budget: a <= 1',)
        """
        if not isinstance(name, str):
            raise InputError(_no_name(name))
        return replace(self, name=name)

    @property
    def text(self) -> str:
        """The constraint in words, without its name and margin."""
        if self.label is not None:
            return self.label
        left = f"abs({self.left})" if self.absolute else str(self.left)
        return f"{left} {self.relation} {self._right_text}"

    @property
    def _right_text(self) -> str:
        return str(self.right if self.schedule is None else self.schedule)

    @property
    def titled(self) -> str:
        """The constraint in words behind its name, if it has one."""
        return self.text if self.name is None else f"{self.name}: {self.text}"

    @property
    def key(self) -> str:
        """The constraint in letters, digits, `_`, `.`, `-` and `/`: its name, or its formula spelled out.

        Example:
            >>> import ferero.preference as fp
            >>> f = fp.objectives("a", "b")
            >>> (f.a - 2 * f.b <= 0.5).key
            'a_minus_2_b_le_0.5'
        """
        if self.name is not None:
            return self.name
        spelled = self.text
        for sign, word in _SPELLED.items():
            spelled = spelled.replace(sign, word)
        return _OTHER.sub("_", spelled.replace("e+", "e")).strip("_")

    def __str__(self) -> str:
        if self.margin == 0:
            return self.text
        return f"{self.text} (margin {number_text(self.margin)} standard error{'' if self.margin == 1 else 's'})"

    def __bool__(self) -> NoReturn:
        raise InputError(
            f"the constraint '{self}' is neither true nor false; a chain 'a <= f.x <= b' is not supported: "
            f"write two constraints, [f.x >= a, f.x <= b], which 'and' does not join; for loss values ask "
            "Preference.is_satisfied"
        )

    def __and__(self, other: object) -> NoReturn:
        raise InputError(f"'({self}) & ...' is no constraint; write both into the list, [{self}, ...]")


def with_margins(constraints: Sequence[Constraint], margins: Sequence[float]) -> list[Constraint]:
    """The constraints with each inequality row given its own margin, equalities as they are.

    Args:
        constraints: as written; an `abs()` of two rows with different margins becomes two constraints.
        margins: one for each inequality row, in standard errors.
    """
    remaining = iter(margins)
    given: list[Constraint] = []
    for constraint in constraints:
        if constraint.is_equality:
            given.append(constraint)
            continue
        own = [next(remaining) for _ in constraint.parts]
        whole = len(set(own)) == 1
        parts = (constraint,) if whole else constraint.parts
        given += [part.with_margin(z) for part, z in zip(parts, own, strict=False)]
    return given


def _no_name(found: object) -> str:
    return (
        f"named: expected a name of letters, digits, '_', '.', '-' and '/', which every experiment tracker takes, "
        f"found {found!r}; write named('budget')"
    )


def _read_margin(z: object) -> float:
    try:
        margin = float(z)  # type: ignore[arg-type]  # whatever is no number is refused below
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"with_margin: z must be a number of standard errors, found {z!r}; write 1.64") from None
    if not (math.isfinite(margin) and margin >= 0):
        raise InputError(
            f"with_margin: z must be finite and >= 0, found {margin}; it counts standard errors: to loosen, "
            f"change the bound"
        )
    return margin


@dataclass(frozen=True, eq=False)
class Expression:
    """A linear expression in named objectives: `+ - * /` with numbers, `+ -` with expressions.

    `<=`, `>=` and `==` with a number or an expression make a `Constraint`; `abs(expression) <= c` makes one
    of two rows. A quotient of two expressions and a difference of two logarithms can be compared with a number, which
    is linear again; a level may be a schedule, such as `ferero.ramp(1.0, 0.2, steps=5000)`.

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
        if isinstance(other, Rewritten):
            return NotImplemented
        return Expression(self.form.plus(form_of(other, "+")))

    __radd__ = __add__

    def __sub__(self, other: Operand) -> Expression:
        if isinstance(other, Rewritten):
            return NotImplemented
        return Expression(self.form.plus(form_of(other, "-"), -1.0))

    def __rsub__(self, other: Operand) -> Expression:
        return Expression(form_of(other, "-").plus(self.form, -1.0))

    def __neg__(self) -> Expression:
        return Expression(self.form.times(-1.0))

    def __pos__(self) -> Expression:
        return self

    def __mul__(self, other: Operand) -> Expression:
        if isinstance(other, Rewritten):
            return NotImplemented
        right = form_of(other, "*")
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

    def __truediv__(self, other: Operand) -> Any:
        if isinstance(other, Rewritten):
            return NotImplemented
        right = form_of(other, "/")
        if right.terms:
            from ferero.preference._ratio import Ratio  # which is made of expressions

            return Ratio(self.form, right)
        if right.constant == 0:
            raise InputError(f"/: '{self}' is divided by zero")
        return Expression(LinearForm(*_divided(self.form, right.constant)))

    def __rtruediv__(self, other: Operand) -> Any:
        return Expression(form_of(other, "/")) / self

    def log(self) -> Any:
        """The natural logarithm, of which differences can be compared: `f.a.log() - f.b.log() <= 0.3`.

        Raises:
            InputError: for the logarithm of a number that is not positive.

        Example:
            >>> import ferero
            >>> f = ferero.objectives("a", "b")
            >>> print(f.a.log() - f.b.log() <= 0.3)
            log(a) - log(b) <= 0.3
        """
        from ferero.preference._logarithm import log_of  # which is made of expressions

        return log_of(self)

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


class Rewritten(ABC):
    """What is not linear, but becomes so when it is compared: a ratio, or a difference of logarithms."""

    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]  # `==` makes a constraint

    @abstractmethod
    def against(self, relation: Relation, other: Any) -> Constraint:
        """The constraint `self relation other`.

        Raises:
            InputError: where that is not linear.
        """

    @abstractmethod
    def _refuse(self, operator: str, other: object = None) -> NoReturn:
        """Say why an operation cannot be made linear, and what to write instead."""

    def __le__(self, other: Any) -> Constraint:
        return compare(self, "<=", other)

    def __ge__(self, other: Any) -> Constraint:
        return compare(self, ">=", other)

    def __eq__(self, other: Any) -> Constraint:  # type: ignore[override]
        return compare(self, "==", other)

    def __ne__(self, other: object) -> NoReturn:
        raise InputError(f"'{self} != ...' is no constraint; write '<=', '>=' or '=='")

    def __lt__(self, other: object) -> NoReturn:
        raise InputError(_not_strict(self, "<"))

    def __gt__(self, other: object) -> NoReturn:
        raise InputError(_not_strict(self, ">"))

    def __bool__(self) -> NoReturn:
        raise InputError(f"the expression '{self}' is neither true nor false; compare it, '{self} <= c'")

    def __pow__(self, other: object) -> NoReturn:
        self._refuse("**", other)

    def __rtruediv__(self, other: object) -> NoReturn:
        self._refuse("/", other)


Operand: TypeAlias = "Expression | Real | float | np.generic | torch.Tensor"
_FLIPPED: dict[Relation, Relation] = {"<=": ">=", ">=": "<=", "==": "=="}


def compare(left: Any, relation: Relation, right: Any) -> Constraint:
    """The constraint `left relation right`; an `abs()` on the right side is brought to the left.

    Raises:
        InputError: when a side is no expression and no finite number, or when `abs()` is misused.
    """
    if isinstance(right, AbsExpression | Rewritten) and not isinstance(left, Rewritten):
        if isinstance(left, AbsExpression):
            raise InputError(f"'{left} {relation} {right}': abs() on both sides; bound each alone")
        return compare(right, _FLIPPED[relation], left)
    if isinstance(left, Rewritten):
        return left.against(relation, right)
    if isinstance(left, MovingLevel):
        form_of(right, relation)  # refuses another one
        return compare(right, _FLIPPED[relation], left)
    absolute = isinstance(left, AbsExpression)
    form = left.form if absolute else form_of(left, relation)
    if isinstance(right, MovingLevel):
        return Constraint(form, relation, LinearForm(constant=right.end), absolute, schedule=right)
    return Constraint(form, relation, form_of(right, relation), absolute)


def form_of(value: Any, operator: str) -> LinearForm:
    """The linear form of an operand: an expression, or a finite number of any library."""
    if isinstance(value, Expression):
        return value.form
    if isinstance(value, AbsExpression):
        value._refuse()
    if isinstance(value, MovingLevel):
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


def _not_strict(left: Expression | Rewritten, sign: str) -> str:
    return f"'{left} {sign} ...': no strict inequalities; write '{sign}='; for max and min, bounds on both"
