"""Families of losses: `f.group` stands for a hundred losses, and `f.group <= 0.1` for a hundred constraints.

A family is written once and read member by member. All members have the same coefficients, so an expression is kept as
one line whatever the family's size: what each member adds of its own, and what all of them share.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, NoReturn

from ferero.errors import InputError, UnknownNameError
from ferero.preference._expression import (
    AbsExpression,
    Constraint,
    Expression,
    LinearForm,
    Relation,
    Rewritten,
    form_of,
    with_margins,
)
from ferero.preference._schedule import MovingLevel

__all__ = [
    "Family",
    "FamilyAbs",
    "FamilyConstraint",
    "FamilyExpression",
    "FamilyForm",
    "shown_names",
    "split_member",
    "with_row_margins",
]

_NOTHING = LinearForm()
_MEMBER = re.compile(r"(\w+)\[(\d+)\]")


class Family(NamedTuple):
    """A family among the losses: `size` losses in a row, called `name[0]`, `name[1]`, ...

    Attributes:
        name: What it is called.
        size: How many members it has.
        start: The position of the first among all losses.
    """

    name: str
    size: int
    start: int

    @property
    def mean(self) -> str:
        """What a linear form calls the mean of the members."""
        return f"mean({self.name})"

    @property
    def stop(self) -> int:
        """The position behind its last member."""
        return self.start + self.size

    @property
    def members(self) -> tuple[str, ...]:
        """The members' names, (size,)."""
        return tuple(f"{self.name}[{i}]" for i in range(self.size))


def split_member(name: str) -> tuple[str, int] | None:
    """The family and the number in it of a member's name, `group[3]`; None for any other name."""
    found = _MEMBER.fullmatch(name)
    return None if found is None else (found[1], int(found[2]))


def shown_names(names: Sequence[str], families: Sequence[Family]) -> str:
    """The losses in one line, a family as one: `ce, group[0] to group[99]`."""
    plain = names[: families[0].start] if families else names
    return ", ".join([*plain, *(f"{family.name}[0] to {family.name}[{family.size - 1}]" for family in families)])


@dataclass(frozen=True)
class FamilyForm:
    """`sum_t coefficient_t * family_t[i] + shared`, one linear form for each member i.

    Args:
        size: How many members, n.
        own: Pairs of a family's name and its coefficient; each family once, no coefficient zero.
        shared: What does not depend on i: other losses, means of families, and the constant.

    Example:
        >>> str(FamilyForm(100, (("group", 1.0),), LinearForm((("mean(group)", -1.0),), 0.5)))
        'group - mean(group) + 0.5'
    """

    size: int
    own: tuple[tuple[str, float], ...]
    shared: LinearForm = _NOTHING

    @property
    def terms(self) -> tuple[tuple[str, float], ...]:
        """All pairs of name and coefficient."""
        return self.own + self.shared.terms

    @property
    def constant(self) -> float:
        """The constant."""
        return self.shared.constant

    def plus(self, other: FamilyForm, factor: float = 1.0) -> FamilyForm:
        """`self + factor * other`, member by member."""
        own = LinearForm(self.own).plus(LinearForm(other.own), factor).terms
        return FamilyForm(self.size, own, self.shared.plus(other.shared, factor))

    def times(self, factor: float) -> FamilyForm:
        """`factor * self`."""
        return FamilyForm(self.size, LinearForm(self.own).times(factor).terms, self.shared.times(factor))

    def member(self, i: int) -> LinearForm:
        """The form of member i."""
        return LinearForm(tuple((f"{name}[{i}]", c) for name, c in self.own)).plus(self.shared)

    def mean(self) -> LinearForm:
        """The mean of all members' forms."""
        return LinearForm(tuple((f"mean({name})", c) for name, c in self.own)).plus(self.shared)

    def __str__(self) -> str:
        return str(LinearForm(self.terms, self.constant))


@dataclass(frozen=True)
class FamilyConstraint(Constraint):
    """`left relation right` for every member of a family: as many rows as members, twice as many for an `abs()`.

    Its sides are `FamilyForm`s; everything else is as for a `Constraint`. Its name is that of all its rows.

    Raises:
        InputError: as for a `Constraint`, and for a level that moves or a rewriting, which single constraints have.

    Example:
        >>> import ferero.preference as fp
        >>> f = fp.objectives("ce", group=100)
        >>> cap = (f.group <= 0.1).named("cap")
        >>> print(cap, cap.size, cap.member(3).titled)
        group <= 0.1 100 cap[3]: group[3] <= 0.1
    """

    left: FamilyForm  # type: ignore[assignment]
    right: FamilyForm  # type: ignore[assignment]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.schedule is not None or self.rewriting is not None:
            raise InputError(
                "constraints: expected a level that stays, and no ratio, for a family; compare the members by "
                "themselves, f.group[0] <= ramp(...)"
            )

    @property
    def size(self) -> int:
        """The number of members."""
        return self.left.size

    @property
    def parts(self) -> tuple[FamilyConstraint, ...]:
        """The constraints of one row for each member: two for `abs()`, else the constraint itself."""
        if not self.absolute:
            return (self,)
        names = (None, None) if self.name is None else (f"{self.name}/upper", f"{self.name}/lower")
        upper = replace(self, absolute=False, name=names[0])
        return upper, replace(upper, relation=">=", right=self.right.times(-1.0), name=names[1])

    @property
    def difference(self) -> FamilyForm:
        """Left minus right, negated for `>=`, of a constraint of one row for each member."""
        difference = self.left.plus(self.right, -1.0)
        return difference.times(-1.0) if self.relation == ">=" else difference

    def member(self, i: int) -> Constraint:
        """The constraint on member i alone; a name becomes `name[i]` in its title."""
        label = None if self.name is None else f"{self.name}[{i}]"
        made = Constraint(self.left.member(i), self.relation, self.right.member(i), self.absolute, margin=self.margin)
        return made if label is None else _Titled(**vars(made) | {"title": label})


@dataclass(frozen=True)
class _Titled(Constraint):
    """A member of a named family of constraints, whose name has the brackets that no tracker takes."""

    title: str = ""

    @property
    def titled(self) -> str:
        return f"{self.title}: {self.text}"


class FamilyExpression(Expression):
    """An expression for each member of a family: `f.group`, and what `+ - * /` make of it.

    Numbers and ordinary expressions count for every member alike; two families must be of one size, and are taken
    member by member. `f.group[3]` is one member, an ordinary expression, and so are `f.group.mean()` and
    `f.group.sum()`. `<=`, `>=` and `==` make a `FamilyConstraint`.

    Example:
        >>> import ferero.preference as fp
        >>> f = fp.objectives("ce", group=100)
        >>> print(f.group - f.group.mean() <= 0.02)
        group - mean(group) <= 0.02
        >>> print(f.group[3] <= f.ce)
        group[3] <= ce
    """

    family: FamilyForm

    def __init__(self, family: FamilyForm) -> None:
        object.__setattr__(self, "family", family)
        Expression(LinearForm(family.terms, family.constant))  # refuses what is not finite

    @property
    def form(self) -> LinearForm:
        """Refused: a family has no single form."""
        raise InputError(
            f"'{self}' is a family of {self.family.size}, expected a single expression; write .mean() or .sum(), or "
            "take one member, [0]"
        )

    def __len__(self) -> int:
        return self.family.size

    def __iter__(self) -> Iterator[Expression]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: int) -> Expression:
        try:
            i = operator.index(index)
        except TypeError:
            raise InputError(
                f"[...]: expected the number of a member of '{self}', found {index!r}; for several of them write a list"
            ) from None
        if not -len(self) <= i < len(self):
            raise UnknownNameError(
                f"[{i}]: expected a member of '{self}', from 0 to {len(self) - 1}, found none of that number; the "
                f"family has {len(self)} members"
            )
        return Expression(self.family.member(i % len(self)))

    def mean(self) -> Expression:
        """The mean over all members, an ordinary expression."""
        return Expression(self.family.mean())

    def sum(self) -> Expression:
        """The sum over all members, an ordinary expression."""
        return Expression(self.family.mean().times(float(len(self))))

    def __add__(self, other: Any) -> FamilyExpression:
        return FamilyExpression(self.family.plus(self._broadcast(other, "+")))

    __radd__ = __add__

    def __sub__(self, other: Any) -> FamilyExpression:
        return FamilyExpression(self.family.plus(self._broadcast(other, "-"), -1.0))

    def __rsub__(self, other: Any) -> FamilyExpression:
        return FamilyExpression(self._broadcast(other, "-").plus(self.family, -1.0))

    def __neg__(self) -> FamilyExpression:
        return FamilyExpression(self.family.times(-1.0))

    def __mul__(self, other: Any) -> FamilyExpression:
        right = self._broadcast(other, "*")
        if right.terms and self.family.terms:
            raise InputError(
                f"*: the product of '{self}' and '{right}' is not linear; expressions are linear in the objectives: "
                "make the product a family of its own and name it"
            )
        one, number = (right, self.family.constant) if right.terms else (self.family, right.constant)
        return FamilyExpression(one.times(number))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> FamilyExpression:
        right = self._broadcast(other, "/")
        if right.terms:
            raise InputError(
                f"/: dividing by the expression '{right}' is not linear; multiply both sides by it, or make the "
                "quotient a family of its own and name it"
            )
        if right.constant == 0:
            raise InputError(f"/: '{self}' is divided by zero")
        own, shared = Expression(LinearForm(self.family.own)), Expression(self.family.shared)
        parts = [(part / right.constant).form for part in (own, shared)]
        return FamilyExpression(FamilyForm(len(self), parts[0].terms, parts[1]))

    def __rtruediv__(self, other: Any) -> FamilyExpression:
        return FamilyExpression(self._broadcast(other, "/")) / self

    def __abs__(self) -> FamilyAbs:
        return FamilyAbs(self)

    def __le__(self, other: Any) -> FamilyConstraint:
        return self._compare("<=", other)

    def __ge__(self, other: Any) -> FamilyConstraint:
        return self._compare(">=", other)

    def __eq__(self, other: Any) -> FamilyConstraint:  # type: ignore[override]
        return self._compare("==", other)

    def _compare(self, relation: Relation, other: Any) -> FamilyConstraint:
        if isinstance(other, FamilyAbs | AbsExpression):
            raise InputError(f"'{self} {relation} {other}': write abs() on the left side, '{other} <= {self}'")
        return FamilyConstraint(self.family, relation, self._broadcast(other, relation))

    def _broadcast(self, value: Any, symbol: str) -> FamilyForm:
        """An operand as the forms of this family's members."""
        if isinstance(value, FamilyExpression):
            if len(value) != len(self):
                raise InputError(
                    f"{symbol}: expected families of one size, found '{self}' of {len(self)} and '{value}' of "
                    f"{len(value)}; take .mean() of one of them"
                )
            return value.family
        if isinstance(value, FamilyAbs):
            value._refuse()
        return FamilyForm(len(self), (), _shared(value, symbol))

    def __str__(self) -> str:
        return str(self.family)

    def __repr__(self) -> str:
        return f"FamilyExpression({self}: {len(self)} members)"

    __hash__ = None


def _shared(value: Any, symbol: str) -> LinearForm:
    """The form of a number or an ordinary expression, refused as ordinary expressions refuse it."""
    if isinstance(value, MovingLevel | Rewritten):
        raise InputError(
            f"{symbol}: expected a number or a linear expression beside a family, found '{value}'; compare the members "
            "by themselves, or call steer.ask with another level"
        )
    return form_of(value, symbol)


class FamilyAbs(AbsExpression):
    """`abs(f.group)`, of which only `abs(f.group) <= c` can be asked.

    Args:
        inside: the family inside.
    """

    inside: FamilyExpression

    def __init__(self, inside: FamilyExpression) -> None:
        object.__setattr__(self, "inside", inside)

    @property
    def form(self) -> NoReturn:
        """Refused: a family has no single form."""
        raise InputError(f"'{self}' stands for {len(self.inside)} values, expected one; write '{self} <= c'")

    def __le__(self, other: Any) -> FamilyConstraint:
        return self._compare("<=", other)

    def __ge__(self, other: Any) -> FamilyConstraint:
        return self._compare(">=", other)

    def __eq__(self, other: Any) -> FamilyConstraint:  # type: ignore[override]
        return self._compare("==", other)

    def _compare(self, relation: Literal["<=", ">=", "=="], other: Any) -> FamilyConstraint:
        right = self.inside._broadcast(other, relation)
        return FamilyConstraint(self.inside.family, relation, right, absolute=True)

    def __str__(self) -> str:
        return f"abs({self.inside})"

    __hash__ = None


def with_row_margins(constraints: Sequence[Constraint], margins: Sequence[float]) -> list[Constraint]:
    """The constraints with each inequality row given its own margin; a family of several becomes its members.

    Args:
        constraints: as written.
        margins: one for each inequality row, in standard errors.
    """
    given: list[Constraint] = []
    at = 0
    for constraint in constraints:
        if constraint.is_equality:
            given.append(constraint)
            continue
        parts = constraint.parts
        sizes = [part.size if isinstance(part, FamilyConstraint) else 1 for part in parts]
        own = margins[at : at + sum(sizes)]
        at += sum(sizes)
        if not isinstance(constraint, FamilyConstraint):
            given += with_margins([constraint], own)
        elif len(set(own)) == 1:
            given.append(constraint.with_margin(own[0]))
        else:
            members = [part.member(i) for part in parts if isinstance(part, FamilyConstraint) for i in range(part.size)]
            given += [member.with_margin(z) for member, z in zip(members, own, strict=True)]
    return given
