"""Names for the losses, so that preferences can be written with them."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ferero.errors import InputError, UnknownNameError
from ferero.preference._expression import Expression, LinearForm

__all__ = ["Objectives", "as_objectives", "did_you_mean", "objectives"]

_FIELDS = frozenset({"names", "measured"})
_WORDS = frozenset({"abs", "minimize"})


@dataclass(frozen=True)
class Objectives:
    """The named objectives: `f.zh`, `f["zh"]`, `f[1]`, `len(f)`, iteration and unpacking.

    Args:
        names: the names (m,), in the order of the losses.
        measured: those whose target is a value of a metric in other units.
    """

    names: tuple[str, ...]
    measured: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.names:
            raise InputError("names: expected at least one, found none; write objectives('f1', 'f2')")
        for name in self.names:
            _check_name(name)
        repeated = sorted(name for name, times in Counter(self.names).items() if times > 1)
        if repeated:
            raise InputError(f"names must differ, found {', '.join(repeated)} more than once; rename one")
        self.__dict__["_places"] = {name: i for i, name in enumerate(self.names)}
        for name in self.measured:
            self._index(name)

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("__"):  # protocols (copy, pickle, numpy) probe for these
            is_ours = name in self.__dict__.get("_places", {})
            raise AttributeError(f"'{name}' is read as f[\"{name}\"]" if is_ours else name)
        return self[name]

    def __getitem__(self, key: str | int) -> Expression:
        if isinstance(key, str):
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
        if not isinstance(name, str) or name not in places:
            raise UnknownNameError(f"'{name}' is none of the objectives{did_you_mean(str(name), tuple(places))}")
        return places[name]


def objectives(*names: str, measured: Sequence[str] = ()) -> Objectives:
    """Name the losses, in their order.

    Args:
        *names: identifiers, all different.
        measured: the names whose target is a value of a metric in other units, tracked by an outer integral.

    Returns:
        The `Objectives`.

    Raises:
        InputError: for names that are empty, repeated, reserved or no identifiers.
        UnknownNameError: when `measured` has a name that is none of `names`.

    Example:
        >>> f = objectives("cpc", "zh", "en")
        >>> print(f.zh - f.en <= 0.5)
        zh - en <= 0.5
    """
    if isinstance(measured, str):
        raise InputError(f"measured: expected a sequence of names, found '{measured}'; write ('{measured}',)")
    return Objectives(tuple(names), tuple(measured))


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
