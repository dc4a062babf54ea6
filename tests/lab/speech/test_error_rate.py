"""Error rates against an edit distance of our own, and their standard error against a bootstrap."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

from ferero.errors import InputError, MissingExtraError
from ferero_lab.speech.error_rate import error_rate

pytest.importorskip("jiwer")


def distance(reference: list[str], hypothesis: list[str]) -> int:
    row = list(range(len(hypothesis) + 1))
    for i, a in enumerate(reference, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(hypothesis, 1):
            before, row[j] = row[j], min(before + (a != b), row[j] + 1, row[j - 1] + 1)
    return row[-1]


def sentences(number: int, seed: int, letters: str = "abcd") -> tuple[list[str], list[str]]:
    """References, and hypotheses where sentences of some are much worse than of others."""
    draw = np.random.default_rng(seed)
    references, hypotheses = [], []
    for _ in range(number):
        words = draw.choice(list(letters), size=draw.integers(1, 12)).tolist()
        noise = draw.beta(0.5, 2)
        heard = [draw.choice(list(letters)) if draw.random() < noise else word for word in words]
        references.append(" ".join(words))
        hypotheses.append(" ".join(word for word in heard if draw.random() > 0.3 * noise))
    return references, hypotheses


@pytest.mark.parametrize("seed", range(5))
def test_words_are_counted_as_edits(seed: int) -> None:
    references, hypotheses = sentences(30, seed)
    found = error_rate(references, hypotheses)
    assert found.errors == sum(distance(a.split(), b.split()) for a, b in zip(references, hypotheses, strict=True))
    assert found.units == sum(len(reference.split()) for reference in references)
    assert found.rate == found.errors / found.units


@pytest.mark.parametrize("seed", range(5))
def test_characters_are_counted_without_spaces(seed: int) -> None:
    references, hypotheses = sentences(30, seed, "我你他她")
    joined = [[text.replace(" ", "") for text in texts] for texts in (references, hypotheses)]
    found = error_rate(references, hypotheses, unit="characters")
    assert found == error_rate(*joined, unit="characters")
    assert found.errors == sum(distance(list(a), list(b)) for a, b in zip(*joined, strict=True))
    assert found.units == sum(map(len, joined[0]))


def test_extra_spaces_do_not_count() -> None:
    assert error_rate(["  the  cat\n"], ["the cat "]).errors == 0


@pytest.mark.parametrize(("unit", "units"), [("words", 3), ("characters", 8)])
def test_empty_hypotheses_miss_everything(unit: str, units: int) -> None:
    found = error_rate(["the cat", "is"], ["", "  "], unit=unit)
    assert (found.rate, found.errors, found.units, found.standard_error) == (1.0, units, units, 0.0)


def test_long_hypotheses_can_exceed_one() -> None:
    assert error_rate(["a"], ["b c d"]).rate == 3.0


def test_perfect() -> None:
    found = error_rate(["a b", "c"], ["a b", "c"])
    assert (found.rate, found.standard_error) == (0.0, 0.0)


def test_standard_error_agrees_with_a_bootstrap() -> None:
    references, hypotheses = sentences(300, seed=0)
    each = [error_rate([a], [b]) for a, b in zip(references, hypotheses, strict=True)]
    errors, units = np.array([one.errors for one in each]), np.array([one.units for one in each])
    drawn = np.random.default_rng(1).integers(0, 300, size=(4000, 300))
    spread = (errors[drawn].sum(axis=1) / units[drawn].sum(axis=1)).std()
    assert error_rate(references, hypotheses).standard_error == pytest.approx(spread, rel=0.05)


def test_standard_error_of_equal_lengths_is_that_of_a_mean() -> None:
    found = error_rate(["a b", "a b", "a b"], ["a b", "a c", "c c"])
    assert found.standard_error == pytest.approx(np.std([0, 0.5, 1], ddof=1) / np.sqrt(3))
    assert error_rate(["a b"], ["a c"]).standard_error is None


@pytest.mark.parametrize(
    ("references", "hypotheses", "unit", "message"),
    [
        (
            ["a", " "],
            ["a", "b"],
            "words",
            "references: expected words in every one; number 1 is empty; leave that utterance out.",
        ),
        (["a"], [], "words", "hypotheses: expected one for each of the 1 references; found 0."),
        ([], [], "words", "references: expected at least one utterance; found none."),
        (["a"], ["a"], "letters", "unit: expected words or characters; found 'letters'."),
    ],
)
def test_refusals(references: list[str], hypotheses: list[str], unit: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        error_rate(references, hypotheses, unit=unit)


def test_without_jiwer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jiwer", None)
    with pytest.raises(MissingExtraError, match=re.escape("jiwer is not installed; it comes with pip install")):
        error_rate(["a"], ["a"])
