"""Names for the losses, so that preferences can be written with them."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ferero.errors import InputError, UnknownNameError
from ferero.preference._expression import Expression, LinearForm
from ferero.preference._family import Family, FamilyExpression, FamilyForm, split_member

__all__ = ["Objectives", "as_objectives", "column_of", "did_you_mean", "objectives"]

_FIELDS = frozenset({"names", "measured", "families"})
_WORDS = frozenset({"abs", "minimize"})


@dataclass(frozen=True)
class Objectives:
    """The named objectives: `f.zh`, `f["zh"]`, `f[1]`, `len(f)`, iteration and unpacking.

    A family counts as its members, `group[0]`, `group[1]`, ..., which follow the other names.

    Args:
        names: the names (m,), in the order of the losses.
        measured: those whose target is a value of a metric in other units.
        families: the families among them, in the order of their members.
    """

    names: tuple[str, ...]
    measured: tuple[str, ...] = ()
    families: tuple[Family, ...] = ()

    def __post_init__(self) -> None:
        if not self.names:
            raise InputError("names: expected at least one, found none; write objectives('f1', 'f2')")
        plain = self.names[: self.families[0].start] if self.families else self.names
        called = [*plain, *(family.name for family in self.families)]
        for name in called:
            _check_name(name)
        repeated = sorted(name for name, times in Counter(called).items() if times > 1)
        if repeated:
            raise InputError(f"names must differ, found {', '.join(repeated)} more than once; rename one")
        self.__dict__["_places"] = {name: i for i, name in enumerate(plain)}
        self.__dict__["_families"] = {family.name: family for family in self.families}
        for name in self.measured:
            self._index(name)

    def __getattr__(self, name: str) -> Any:  # an Expression, or a FamilyExpression
        if name.startswith("__"):  # protocols (copy, pickle, numpy) probe for these
            is_ours = name in self.__dict__.get("_places", {})
            raise AttributeError(f"'{name}' is read as f[\"{name}\"]" if is_ours else name)
        return self[name]

    def __getitem__(self, key: str | int) -> Expression:
        if isinstance(key, str):
            family = self.__dict__.get("_families", {}).get(key)
            if family is not None:
                return FamilyExpression(FamilyForm(family.size, ((key, 1.0),)))
            return Expression(LinearForm(((self.names[self._index(key)], 1.0),)))
        if not -len(self.names) <= key < len(self.names):
            raise UnknownNameError(f"index {key} is out of range: there are {len(self.names)} objectives")
        return Expression(LinearForm(((self.names[key], 1.0),)))

    def __iter__(self) -> Iterator[Expression]:
        return (self[name] for name in self.names)

    def __len__(self) -> int:
        return len(self.names)

    def _index(self, name: object) -> int:
        places: dict[str, int] = self.__dict__.get("_places", {})
        families: dict[str, Family] = self.__dict__.get("_families", {})
        if isinstance(name, str):
            if name in places:
                return places[name]
            member = split_member(name)
            family = None if member is None else families.get(member[0])
            if member is not None and family is not None and member[1] < family.size:
                return family.start + member[1]
        raise UnknownNameError(f"'{name}' is none of the objectives{did_you_mean(str(name), (*places, *families))}")


def objectives(*names: str, measured: Sequence[str] = (), **families: int) -> Objectives:
    """Name the losses, in their order.

    Args:
        *names: identifiers, all different.
        measured: the names whose target is a value of a metric in other units, tracked by an outer integral; a
            family's name stands for all its members.
        **families: families of losses with their sizes: `group=100` names a hundred losses, `group[0]` to `group[99]`,
            behind the other names, and `f.group` is an expression for all of them.

    Returns:
        The `Objectives`.

    Raises:
        InputError: for names that are empty, repeated, reserved or no identifiers, or a size that is no positive
            integer.
        UnknownNameError: when `measured` has a name that is none of `names`.

    Example:
        >>> f = objectives("cpc", "zh", "en")
        >>> print(f.zh - f.en <= 0.5)
        zh - en <= 0.5
        >>> f = objectives("ce", group=100)
        >>> print(f.group <= 0.1, len(f))
        group <= 0.1 101
    """
    if isinstance(measured, str):
        raise InputError(f"measured: expected a sequence of names, found '{measured}'; write ('{measured}',)")
    made, start = [], len(names)
    for name, size in families.items():
        if type(size) is not int or size < 1:
            raise InputError(f"{name}: expected the number of a family's members, found {size!r}; write {name}=100")
        made.append(Family(name, size, start))
        start += size
    members = {family.name: family.members for family in made}
    known = (*names, *(member for family in made for member in members[family.name]))
    return Objectives(known, tuple(one for name in measured for one in members.get(name, (name,))), tuple(made))


def column_of(objectives: Objectives, name: str) -> int:
    """The position of a loss among all of them; a member of a family is called `group[3]`.

    Raises:
        UnknownNameError: for a name that is none of the objectives.
    """
    return objectives._index(name)


def as_objectives(names: Objectives | Sequence[str] | None, m: int) -> Objectives:
    """`names` as `Objectives` of size `m`; f1..fm for None.

    Raises:
        InputError: when there are not `m` names.
    """
    if names is None:
        return Objectives(tuple(f"f{i + 1}" for i in range(m)))
    found = names if isinstance(names, Objectives) else objectives(*names)
    if len(found) != m:
        raise InputError(f"names: expected {m}, found {len(found)} ({', '.join(found.names)})")
    return found


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """The end of an error sentence: the known names, and the closest one first where there is one."""
    close = difflib.get_close_matches(name, known, n=1)
    guess = f"; did you mean '{close[0]}'?" if close else ""
    return f"{guess} (known: {', '.join(known)})"


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise InputError(f"names: expected strings, found {name!r} ({type(name).__name__}); write objectives(*names)")
    if not name.isidentifier():
        raise InputError(f"names: expected identifiers such as 'loss_1', found '{name}'; rename it")
    if name in _FIELDS or hasattr(Objectives, name):
        raise InputError(
            f"names: '{name}' is reserved: f.{name} is an attribute of the objectives themselves, and a loss of that "
            f"name could only be read as f[\"{name}\"]; rename it, for instance to '{name.strip('_')}_loss'"
        )
    if name in _WORDS:
        raise InputError(
            f"names: '{name}' is reserved: it is a word of Preference.parse; rename it, for instance to '{name}_loss'"
        )
