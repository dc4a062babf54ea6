"""What a recogniser writes: letters for English; characters or syllables for Mandarin."""

from __future__ import annotations

import string
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from ferero.errors import InputError
from ferero_lab.speech.corpora.corpus import NO_TRANSCRIPT, Utterance

__all__ = ["OTHER", "OUTSIDE", "UNITS", "Alphabet"]

OTHER = "□"
"""Stands for every symbol that the training texts have too rarely, or never."""

OUTSIDE = "characters outside the alphabet"
"""Why an utterance is left out of training and scoring."""

UNITS = {"letters": "en", "characters": "zh", "syllables": "zh", "toneless": "zh"}
"""What a symbol may be, and the language it is for."""

_LETTERS = (" ", "'", *string.ascii_uppercase)
_READ_ALOUD = frozenset("%&@#*/\\")  # Unicode calls these punctuation, yet a speaker says them
_APOSTROPHES = str.maketrans("\u2019\u2018\u02bc`", "''''")  # curly, turned, a letter of its own, a grave accent


@dataclass(frozen=True)
class Alphabet:
    """Symbols and their numbers. The first symbol has number 1; 0 is CTC's blank.

    An alphabet with ``OTHER`` is open: what it lacks is written as OTHER, so that the loss of a held-out text is
    finite. The English one is closed: an utterance with a digit or a foreign letter cannot be written.

    Attributes:
        symbols: all different.
        language: which one is written with them.
        unit: "letters", "characters", "syllables" (pinyin with tone digits) or "toneless" (without).
    """

    symbols: tuple[str, ...]
    language: str
    unit: str

    def __post_init__(self) -> None:
        if UNITS.get(self.unit) != self.language:
            pairs = ", ".join(f"{unit} ({language})" for unit, language in UNITS.items())
            raise InputError(f"unit: expected one of {pairs}, found {self.unit!r} ({self.language}).")
        if not self.symbols or len(set(self.symbols)) != len(self.symbols):
            different = len(set(self.symbols))
            raise InputError(f"symbols: expected different ones, found {different} different of {len(self.symbols)}.")

    @classmethod
    def letters(cls) -> Self:
        """English: space, apostrophe, A to Z.

        Example:
            >>> len(Alphabet.letters())
            28
        """
        return cls(_LETTERS, "en", "letters")

    @classmethod
    def of(cls, utterances: Iterable[Utterance], *, unit: str = "characters", at_least: int = 2) -> Self:
        """The symbols of Mandarin (training) utterances, sorted, and OTHER after them.

        Args:
            utterances: in Mandarin.
            unit: "characters", "syllables" or "toneless".
            at_least: how often a symbol must occur; with 2 or more, the rarer ones teach what OTHER is like.

        Raises:
            InputError: for another unit, an utterance in another language, or when no symbol occurs so often.
        """
        if UNITS.get(unit) != "zh":
            raise InputError(f"unit: expected characters, syllables or toneless, found {unit!r}.")
        bare = cls((OTHER,), "zh", unit)
        counts = Counter(symbol for each in utterances for symbol in bare.units(each))
        del counts[OTHER]
        often = sorted(symbol for symbol, count in counts.items() if count >= at_least)
        if not often:
            raise InputError(
                f"utterances: expected {unit} that occur {at_least} times or more, found none among {len(counts)}. "
                + ("Lower at_least." if counts else "Give utterances whose corpus has them written down.")
            )
        return cls((*often, OTHER), "zh", unit)

    def __len__(self) -> int:
        """The number of symbols, without the blank."""
        return len(self.symbols)

    @property
    def is_open(self) -> bool:
        """Whether it has OTHER."""
        return OTHER in self._numbers

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {symbol: number for number, symbol in enumerate(self.symbols, start=1)}

    def units(self, utterance: Utterance) -> tuple[str, ...]:
        """The utterance in symbols, whether or not the alphabet has them; none when nothing is written down.

        Letters: in upper case, dashes and white space as one space, no punctuation but the apostrophe. Characters:
        without white space and punctuation. Syllables: as the corpus has them.

        Raises:
            InputError: for an utterance in another language.
        """
        if utterance.language != self.language:
            raise InputError(
                f"{utterance.name}: expected an utterance in {self.language}, found one in {utterance.language}. "
                "Each language has its own alphabet."
            )
        if self.unit == "letters":
            return tuple(_english(utterance.text))
        if self.unit == "characters":
            return tuple(c for c in unicodedata.normalize("NFKC", utterance.text) if not _is_silent(c))
        syllables = (each.lower() for each in utterance.syllables)
        return tuple(each.rstrip(string.digits) if self.unit == "toneless" else each for each in syllables)

    def reference(self, utterance: Utterance) -> str:
        """What a perfect recogniser would write: the utterance's symbols, joined as ``decode`` does."""
        return self._join(self.units(utterance))

    def encode(self, utterance: Utterance) -> tuple[list[int], tuple[str, ...]]:
        """The numbers of the utterance's symbols, and those of its symbols that the alphabet lacks.

        An open alphabet gives the number of OTHER for these. A closed one leaves them out of the numbers, which then
        must not be used: see ``objection``.

        Example:
            >>> Alphabet.letters().encode(Utterance("a", "en", "test", "me", "to b", (), bytes))
            ([22, 17, 1, 4], ())
        """
        units = self.units(utterance)
        other = self._numbers.get(OTHER)
        numbers = (self._numbers.get(unit, other) for unit in units)
        return [n for n in numbers if n is not None], tuple(unit for unit in units if unit not in self._numbers)

    def objection(self, utterance: Utterance) -> str | None:
        """Why the utterance cannot be written, if so: it is empty, or a closed alphabet lacks a symbol of it."""
        numbers, outside = self.encode(utterance)
        if outside and not self.is_open:
            return OUTSIDE
        return None if numbers else NO_TRANSCRIPT

    def decode(self, numbers: Iterable[int]) -> str:
        """The text: letters and characters joined, syllables with spaces between.

        Raises:
            InputError: for a number that is none of a symbol; blanks are to be taken out before.
        """
        found = [int(number) for number in numbers]
        wrong = [number for number in found if not 1 <= number <= len(self)]
        if wrong:
            raise InputError(f"numbers: expected 1 to {len(self)}, found {wrong[0]}. Take CTC's blanks (0) out before.")
        return self._join(self.symbols[number - 1] for number in found)

    def _join(self, symbols: Iterable[str]) -> str:
        return ("" if self.unit in {"letters", "characters"} else " ").join(symbols)


def _english(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text.translate(_APOSTROPHES))
    spaced = "".join(" " if unicodedata.category(c) == "Pd" else c for c in plain)
    # A foreign letter is kept as it is: ß in upper case would become two letters that nobody wrote.
    kept = (c.upper() if c.isascii() else c for c in spaced if c.isspace() or c == "'" or not _is_silent(c))
    return " ".join("".join(kept).split())


def _is_silent(character: str) -> bool:
    """Whether nobody says it: white space, control characters, most punctuation."""
    return unicodedata.category(character)[0] in "PZC" and character not in _READ_ALOUD
