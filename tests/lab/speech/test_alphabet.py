"""Texts become numbers and numbers texts; what an alphabet lacks is named."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferero.errors import InputError
from ferero_lab.speech.corpora import OTHER, Alphabet, Utterance
from ferero_lab.speech.corpora.alphabet import OUTSIDE


def english(text, name="a"):
    return Utterance(name, "en", "train", "me", text, (), bytes)


def mandarin(text, syllables="", name="a"):
    return Utterance(name, "zh", "train", "me", text, tuple(syllables.split()), bytes)


def test_letters_are_numbered_from_one():
    letters = Alphabet.letters()
    assert letters.symbols == tuple(" 'ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    assert letters.encode(english("A'Z B")) == ([3, 2, 28, 1, 4], ())
    assert not letters.is_open


@given(st.lists(st.text("'ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=1), max_size=6).map(" ".join))
def test_letters_come_back(text):
    letters = Alphabet.letters()
    numbers, outside = letters.encode(english(text))
    assert outside == ()
    assert letters.decode(numbers) == text == letters.reference(english(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't", "DON'T"),
        ("don\u2019t", "DON'T"),
        ("  two\twords \n", "TWO WORDS"),
        ("twenty-one", "TWENTY ONE"),
        ("wait \u2014 what?!", "WAIT WHAT"),
        ('"Yes," she said.', "YES SHE SAID"),
        ("\uff21\uff22", "AB"),
    ],
)
def test_english_is_written_in_capitals_without_punctuation(text, expected):
    assert Alphabet.letters().reference(english(text)) == expected


@pytest.mark.parametrize(
    ("text", "outside"),
    [
        ("ROOM 42", ("4", "2")),
        ("CAFÉ", ("É",)),
        ("STRAßE", ("ß",)),
        ("FISH & CHIPS", ("&",)),
        ("50%", ("5", "0", "%")),
        ("你 A", ("你",)),
    ],
)
def test_what_english_letters_cannot_write_is_told(text, outside):
    assert Alphabet.letters().encode(english(text))[1] == outside


def test_why_english_utterances_cannot_be_written_is_told():
    given = [english("YES", "good"), english("ROOM 42", "digits"), english("...", "dots"), english("naïve", "foreign")]
    assert [Alphabet.letters().objection(each) for each in given] == [None, OUTSIDE, "no transcript", OUTSIDE]


TRAINING = [mandarin("大山大雨", "da4 shan1 da4 yu3"), mandarin("小山,大 海。", "xiao3 shan1 da4 hai3")]


def test_an_alphabet_has_the_characters_that_occur_often_enough_and_other():
    assert Alphabet.of(TRAINING).symbols == ("大", "山", OTHER)
    assert Alphabet.of(TRAINING, at_least=1).symbols == ("大", "小", "山", "海", "雨", OTHER)


def test_rare_and_unseen_characters_are_other_and_named():
    alphabet = Alphabet.of(TRAINING)
    assert alphabet.is_open
    numbers, outside = alphabet.encode(mandarin("山海关"))
    assert numbers == [2, 3, 3]
    assert outside == ("海", "关")
    assert alphabet.decode(numbers) == f"山{OTHER}{OTHER}"


def test_the_alphabet_does_not_depend_on_the_order_of_the_utterances():
    assert Alphabet.of(TRAINING, at_least=1) == Alphabet.of(TRAINING[::-1], at_least=1)


def test_open_alphabets_write_whatever_is_written_down():
    given = [mandarin("关", name="unseen"), mandarin("。 ", name="nothing")]
    assert [Alphabet.of(TRAINING).objection(each) for each in given] == [None, "no transcript"]


def test_mandarin_loses_white_space_and_punctuation_only():
    alphabet = Alphabet.of(TRAINING)
    assert alphabet.units(mandarin("\u201c大 山\u201d,\u3000雨……《海》、百分之5%")) == tuple("大山雨海百分之5%")


@pytest.mark.parametrize(
    ("unit", "symbols", "text"),
    [
        ("syllables", ("da4", "hai3", "shan1", "xiao3", "yu3", OTHER), "da4 hai3"),
        ("toneless", ("da", "hai", "shan", "xiao", "yu", OTHER), "da hai"),
    ],
)
def test_syllables_are_decoded_with_spaces_between(unit, symbols, text):
    alphabet = Alphabet.of(TRAINING, unit=unit, at_least=1)
    assert alphabet.symbols == symbols
    said = mandarin("大海", "da4 hai3")
    assert alphabet.decode(alphabet.encode(said)[0]) == text == alphabet.reference(said)


def test_an_utterance_without_syllables_cannot_be_written_in_them():
    alphabet = Alphabet.of(TRAINING, unit="syllables")
    assert alphabet.objection(mandarin("大海", name="plain")) == "no transcript"


@pytest.mark.parametrize("number", [0, 29, -1])
def test_numbers_of_no_symbol_are_refused(number):
    message = f"numbers: expected 1 to 28, found {number}. Take CTC's blanks (0) out before."
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        Alphabet.letters().decode([3, number])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Alphabet.letters().encode(mandarin("大", name="x1")),
            "x1: expected an utterance in en, found one in zh. Each language has its own alphabet.",
        ),
        (
            lambda: Alphabet.of(TRAINING, unit="letters"),
            "unit: expected characters, syllables or toneless, found 'letters'.",
        ),
        (
            lambda: Alphabet.of(TRAINING, at_least=9),
            "utterances: expected characters that occur 9 times or more, found none among 5. Lower at_least.",
        ),
        (
            lambda: Alphabet.of([mandarin("大")], unit="syllables"),
            "utterances: expected syllables that occur 2 times or more, found none among 0. "
            "Give utterances whose corpus has them written down.",
        ),
        (
            lambda: Alphabet(("A", "A"), "en", "letters"),
            "symbols: expected different ones, found 1 different of 2.",
        ),
        (
            lambda: Alphabet(("A",), "zh", "letters"),
            "unit: expected one of letters (en), characters (zh), syllables (zh), toneless (zh), found 'letters' (zh).",
        ),
    ],
)
def test_what_makes_no_alphabet_is_refused(call, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        call()
