"""Families in a test for contradictions: members that no constraint singles out are alike, so a few stand for all.

Exchanging two such members changes nothing in the constraints. If some losses satisfy them, so does the mean over all
exchanges, at which these members are equal: one member in the place of all decides about contradictions, whatever sums
over the family there are. Without such sums two members decide about redundancy as well, one in the place of all the
others. The cost is that of the constraints as written, and not of the family's size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ferero.errors import ContradictionError
from ferero.preference._expression import Constraint, LinearForm
from ferero.preference._family import Family, FamilyConstraint, split_member

__all__ = ["Representatives", "representatives"]


class Representatives(NamedTuple):
    """Constraints that stand for all.

    Attributes:
        constraints: Of one row each, in their order.
        silent: The numbers of those that no verdict of redundancy holds for.
    """

    constraints: list[Constraint]
    silent: frozenset[int]


def representatives(parts: Sequence[Constraint], families: Sequence[Family]) -> Representatives:
    """Constraints that contradict each other exactly if all rows of the parts do.

    Args:
        parts: of one row each, or of one row for each member of a family.
        families: all of them.

    Raises:
        ContradictionError: for a family of constraints that some member must break, such as `group <= mean(group) - 1`.
    """
    if not families:
        return Representatives(list(parts), frozenset())
    plain = [part for part in parts if not isinstance(part, FamilyConstraint)]
    shared = [part.difference.shared for part in parts if isinstance(part, FamilyConstraint)]
    named = _named([*(part.form for part in plain), *shared], families)
    summed = _summed([*(part.form for part in plain), *shared], families)
    stand_in = _Substitution(families, named, summed)
    found: list[Constraint] = []
    silent: set[int] = set()
    for part in parts:
        if not isinstance(part, FamilyConstraint):
            found.append(stand_in.constraint(part, part.text))
            continue
        for i in sorted(named[part.size]):
            member = part.member(i)
            found.append(stand_in.constraint(member, member.text))
        for i in stand_in.others(part.size):
            made = stand_in.constraint(part.member(i), part.text)
            if not made.form.terms and part.form.terms:
                _check_alike(part, made)
                continue
            if part.size in summed:
                silent.add(len(found))
            found.append(made)
    return Representatives(found, frozenset(silent))


def _named(forms: Iterable[LinearForm], families: Sequence[Family]) -> dict[int, set[int]]:
    """The members that some form names by themselves, by the size of their families, which forms pair off."""
    sizes = {family.name: family.size for family in families}
    found: dict[int, set[int]] = defaultdict(set)
    for form in forms:
        for name, _ in form.terms:
            member = split_member(name)
            if member is not None and member[0] in sizes:
                found[sizes[member[0]]].add(member[1])
    return found


def _summed(forms: Iterable[LinearForm], families: Sequence[Family]) -> set[int]:
    """The sizes of the families over which some form sums."""
    names = {name for form in forms for name, _ in form.terms}
    return {family.size for family in families if family.mean in names}


class _Substitution:
    """Puts one member in the place of all those of a family that nothing names, in sums over it."""

    def __init__(self, families: Sequence[Family], named: dict[int, set[int]], summed: set[int]) -> None:
        self._families = {family.mean: family for family in families}
        self._named, self._summed = named, summed

    def others(self, size: int) -> list[int]:
        """The members that stand for those that nothing names: one, or two without sums."""
        wanted = 1 if size in self._summed else 2
        named = self._named[size]
        return [i for i in range(min(size, len(named) + wanted)) if i not in named][:wanted]

    def constraint(self, part: Constraint, text: str) -> Constraint:
        """The constraint with its sums replaced, which still reads as before."""
        sides = [self._replaced(side) for side in (part.left, part.right)]
        return Constraint(sides[0], part.relation, sides[1], label=text, margin=part.margin)

    def _replaced(self, form: LinearForm) -> LinearForm:
        if not any(name in self._families for name, _ in form.terms):
            return form
        found = LinearForm(constant=form.constant)
        for name, c in form.terms:
            family = self._families.get(name)
            if family is None:
                found = found.plus(LinearForm(((name, c),)))
                continue
            named = self._named[family.size]
            shares = dict.fromkeys(sorted(named), c / family.size)
            for i in self.others(family.size):
                shares[i] = c * (family.size - len(named)) / family.size
            found = found.plus(LinearForm(tuple((f"{family.name}[{i}]", share) for i, share in shares.items())))
        return _without_rounding(found, form)


def _without_rounding(form: LinearForm, source: LinearForm) -> LinearForm:
    """The form without terms that only rounding has left."""
    tiny = 1e-12 * max((abs(c) for _, c in source.terms), default=0.0)
    return LinearForm(tuple((name, c) for name, c in form.terms if abs(c) > tiny), form.constant)


def _check_alike(part: FamilyConstraint, made: Constraint) -> None:
    """Refuse what does not hold where all members are equal, and has nothing else to depend on."""
    value = abs(made.form.constant) if part.is_equality else made.form.constant
    if value > 1e-9 * (abs(made.left.constant) + abs(made.right.constant)):
        raise ContradictionError(
            f"constraints contradict each other: no losses satisfy '{part.text}' for all {part.size} members; relax it"
        )
