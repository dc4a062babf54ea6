"""Word and character error rates over a set of utterances, with standard errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ferero.errors import InputError, MissingExtraError

__all__ = ["error_rate"]


@dataclass(frozen=True)
class ErrorRate:
    """Errors for each unit of the references.

    Attributes:
        rate: errors / units; above 1 where hypotheses are far too long.
        errors: substitutions, deletions and insertions.
        units: words or characters of the references.
        standard_error: of the rate, as utterances vary; None for a single utterance.
    """

    rate: float
    errors: int
    units: int
    standard_error: float | None


def error_rate(references: Sequence[str], hypotheses: Sequence[str], unit: str = "words") -> ErrorRate:
    """The error rate of a set, R = sum e_i / sum n_i, counted by jiwer.

    The standard error takes utterances as drawn independently and R as a ratio of two means (delta method):
    sqrt(N / (N - 1) sum (e_i - R n_i)^2) / sum n_i.

    Args:
        references: what was said.
        hypotheses: what was recognised; may be empty strings.
        unit: "words", separated by spaces, or "characters", of which spaces do not count.

    Raises:
        InputError: for lists of different lengths, no utterances, an empty reference or another unit.
        MissingExtraError: without jiwer.
    """
    if unit not in ("words", "characters"):
        raise InputError(f"unit: expected words or characters; found {unit!r}.")
    if len(references) != len(hypotheses):
        raise InputError(
            f"hypotheses: expected one for each of the {len(references)} references; found {len(hypotheses)}."
        )
    if not references:
        raise InputError("references: expected at least one utterance; found none.")
    separator = " " if unit == "words" else ""
    truths, guesses = _spaced(references, separator), _spaced(hypotheses, separator)
    for i, truth in enumerate(truths):
        if not truth:
            raise InputError(
                f"references: expected {unit} in every one; number {i} is empty; leave that utterance out."
            )
    count = _counter(unit)
    pairs = [count(truth, guess) for truth, guess in zip(truths, guesses, strict=True)]
    errors, units = sum(e for e, _ in pairs), sum(n for _, n in pairs)
    return ErrorRate(errors / units, errors, units, _standard_error(pairs))


def _spaced(texts: Sequence[str], separator: str) -> list[str]:
    return [separator.join(text.split()) for text in texts]


def _counter(unit: str) -> Callable[[str, str], tuple[int, int]]:
    """A function of a reference and a hypothesis that gives the errors and the units of the reference."""
    try:
        import jiwer
    except ImportError:
        raise MissingExtraError(
            'speech: jiwer is not installed; it comes with pip install "ferero-lab[speech]".'
        ) from None
    process: Callable[[str, str], Any] = jiwer.process_words if unit == "words" else jiwer.process_characters

    def count(reference: str, hypothesis: str) -> tuple[int, int]:
        found = process(reference, hypothesis)
        wrong = found.substitutions + found.deletions
        return wrong + found.insertions, wrong + found.hits

    return count


def _standard_error(pairs: Sequence[tuple[int, int]]) -> float | None:
    number = len(pairs)
    if number < 2:
        return None
    units = sum(n for _, n in pairs)
    rate = sum(e for e, _ in pairs) / units
    squares = sum((e - rate * n) ** 2 for e, n in pairs)
    return math.sqrt(number / (number - 1) * squares) / units
