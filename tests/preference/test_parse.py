"""Text to preference: the same as written in Python, back from print, and never evaluated."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ferero.errors import InputError, UnknownNameError
from ferero.preference import Preference, objectives

NAMES = ["cpc", "zh", "en"]
f = objectives(*NAMES)


def is_same(p, q):
    same = all(torch.equal(getattr(p, x), getattr(q, x)) for x in ("A", "B_g", "b_g", "margins", "B_h", "b_h"))
    return same and p.names == q.names and (p.cone is None) == (q.cone is None)


@pytest.mark.parametrize(
    ("text", "constraints"),
    [
        ("cpc <= 1.2; zh - en == 0.5", [f.cpc <= 1.2, f.zh - f.en == 0.5]),
        ("cpc <= 1.2\nzh - en = .5\n", [f.cpc <= 1.2, f.zh - f.en == 0.5]),
        ("cpc <= 1e-3, zh >= 2.E+1,", [f.cpc <= 1e-3, f.zh >= 20]),
        ("2*(zh - en)/4 + 1 <= --cpc", [2 * (f.zh - f.en) / 4 + 1 <= f.cpc]),
        ("1.2 >= cpc", [f.cpc <= 1.2]),
        ("abs(zh - en) <= 0.1; 0.2 >= abs(cpc)", [abs(f.zh - f.en) <= 0.1, abs(f.cpc) <= 0.2]),
        ("-(zh) + +en <= (1 + 2) * 3", [f.en - f.zh <= 9]),
        ("cpc <= (1 +\n 2)", [f.cpc <= 3]),
        ("subject to cpc <= 1", [f.cpc <= 1]),
        ("cpc * 2 <= zh / 4", [2 * f.cpc <= f.zh / 4]),
        ("cpc <= 1 (margin 1 standard error)\nzh <= (2)", [(f.cpc <= 1).with_margin(1), f.zh <= 2]),
        ("abs(cpc) <= 1 (margin 1.64 standard errors); zh <= 2", [(abs(f.cpc) <= 1).with_margin(1.64), f.zh <= 2]),
        ("", []),
    ],
)
def test_same_as_in_python(text, constraints):
    assert is_same(Preference.parse(text, names=NAMES), Preference(f, constraints))


def test_order_clauses():
    p = Preference.parse("minimize zh + en, cpc; cpc <= 1", names=NAMES)
    assert is_same(p, Preference(f, f.cpc <= 1, minimize=[f.zh + f.en, f.cpc]))
    q = Preference.parse("minimize zh, cpc <= 1", names=NAMES)
    assert is_same(q, Preference(f, f.cpc <= 1, minimize=f.zh))
    assert Preference.parse("minimize cpc, zh, en").cone is None


def test_lines():
    assert is_same(Preference.parse("ray 1 2"), Preference.ray([1, 2]))
    p = Preference.parse("ray(1, -2) through (0, 0.5)", names=["a", "b"])
    assert is_same(p, Preference.ray([1, -2], through=[0, 0.5], names=["a", "b"]))
    assert p.ray is not None
    assert is_same(Preference.parse("weights(0.3,0.7)"), Preference.from_weights([0.3, 0.7]))
    mixed = Preference.parse("ray 1 2; f2 <= 3")
    assert mixed.names == ("f1", "f2")
    assert (mixed.m_g, mixed.m_h, mixed.ray) == (1, 1, None)
    assert Preference.parse("ray 1 2; a <= b").names == ("a", "b")


def test_words_of_clauses_can_be_names():
    p = Preference.parse("ray - weights <= 1; weights >= 0", names=["ray", "weights"])
    assert p.B_g.tolist() == [[1, -1], [0, -1]]


def test_names_in_order_of_first_appearance():
    assert Preference.parse("zh <= 1; cpc - zh <= 2; en == cpc").names == ("zh", "cpc", "en")
    assert Preference.parse("größe <= 1").names == ("größe",)
    assert Preference.parse("wer <= 1", names=objectives("wer", measured=("wer",))).measured == ("wer",)


numbers = st.floats(-1e6, 1e6, allow_subnormal=False)


@st.composite
def constraints(draw):
    side = st.lists(numbers, min_size=4, max_size=4)
    left, right = (
        sum((c * x for c, x in zip(row, f, strict=False)), start=0 * f.cpc) + row[3] for row in (draw(side), draw(side))
    )
    kind = draw(st.sampled_from(["<=", ">=", "==", "abs"]))
    made = {"<=": lambda: left <= right, ">=": lambda: left >= right, "==": lambda: left == right}
    return abs(left) <= abs(right.form.constant) if kind == "abs" else made[kind]()


@settings(derandomize=True, deadline=None)
@given(constraints(), st.sampled_from([None, f.zh - 2 * f.en, [f.zh, f.cpc + f.en]]), st.floats(0, 9))
def test_print_parses_back(constraint, minimize, margin):
    if not constraint.form.terms:
        return
    constraint = constraint if constraint.is_equality else constraint.with_margin(margin)
    p = Preference(f, [constraint], minimize=minimize)
    q = Preference.parse(str(p), names=NAMES)
    assert is_same(p, q)
    assert str(q) == str(p)


@pytest.mark.parametrize(
    ("text", "message", "caret"),
    [
        ("cpc <= ", "expected a number, a name or '\\(', found the end", 7),
        ("cpc 1.2", "expected '<=', '>=' or '==', or an operator, found '1.2'", 4),
        ("cpc; zh <= 1", "expected '<=', '>=' or '==', found ';'", 3),
        ("cpc <= 1 zh", "expected an operator, or ';' before the next constraint, found 'zh'", 9),
        ("cpc < 1", "strict inequalities are not supported; write '<='", 4),
        ("0 <= cpc <= 1", "write two constraints separated by ';'", 9),
        ("cpc * zh <= 1", "product of 'cpc' and 'zh' is not linear", 4),
        ("1 / zh + en <= 1", "'1 / zh' and 'en' cannot be made linear", 7),
        ("zh / en <= cpc", "'zh / en' and 'cpc' cannot be made linear", 8),
        ("zh <= 2 / en", "'2 / en' and 'zh' cannot be made linear", 3),
        ("abs(zh / en) >= 1", "takes only '<='", 13),
        ("log(zh) + log(en) <= 1", "a sum of logarithms is that of a product", 18),
        ("log(abs(zh)) <= 1", "log: expected a linear expression, found 'abs", 0),
        ("log(zh / en) <= 1", "as a difference", 0),
        ("log(-1) <= zh", "log: expected a positive number, found -1", 0),
        ("minimize zh / en", "'zh / en' cannot be minimised", 16),
        ("minimize ramp(1, 2, steps=3)", "it is a level", 28),
        ("zh <= ramp(1, 2)", "ramp: expected steps=..., found none", 6),
        ("zh <= ramp(1, 2, steps=0)", "at least 1 for steps, found 0", 6),
        ("zh <= ramp(1, 2, stps=5)", "expected 'steps=' or 'after=', each once, found 'stps'", 17),
        ("zh <= ramp(1, 2, steps=5, steps=6)", "each once, found 'steps'", 26),
        ("zh <= ramp(1, zh, steps=5)", "expected a number, found 'zh'", 14),
        ("zh <= ramp(1, 2, steps=5) + en", "stands alone on its side", 26),
        ("zh <= piecewise(1)", "expected jumps .*, found none", 6),
        ("zh <= piecewise(1, (5, 2), (5, 3))", "whose steps rise, found 5, 5", 6),
        ("zh <= piecewise(1, 2)", "expected '\\(', found '2'", 19),
        ("zh / en <= ramp(1, 2, steps=3)", "would change the coefficients", 8),
        ("zh / 0 <= 1", "divided by zero", 3),
        ("zh <= 1e999", "expected a finite number, found inf", 6),
        ("(zh <= 1", "expected '\\)', found '<='", 4),
        ("2*abs(zh) <= 1", "can only be compared", 1),
        ("abs(abs(zh)) <= 1", "can only be compared", 0),
        ("abs(zh) >= 1", "takes only '<='", 8),
        ("abs(zh) <= -1", "needs c >= 0", 8),
        ("minimize abs(zh)", "cannot be minimised", 16),
        ("zh <= 1; zh $ 2", "unexpected '\\$'", 12),
        ("__import__('os')", "unexpected '''", 11),
        ("zh <= 1 (margin 2)", "expected 'standard', found '\\)'", 17),
        ("zh == 1 (margin 2 standard errors)", "only inequalities take a margin", 8),
        ("zh <= 1 (2)", "expected an operator, or ';'", 8),
        ("ray 1 2; ray 2 1", "a second line in one preference", 9),
        ("ray(1, zh)", "expected a number, found 'zh'", 7),
        ("2 zh <= 1", "expected '<='.*or an operator, found 'zh'", 2),
    ],
)
def test_errors_point_at_the_place(text, message, caret):
    with pytest.raises(InputError, match=message) as caught:
        Preference.parse(text, names=NAMES)
    shown = str(caught.value).splitlines()
    assert shown[-2:] == [f"  {text}", "  " + " " * caret + "^"]


def test_errors_show_only_their_line():
    with pytest.raises(InputError, match=r"found 'zh'\n  2 zh <= 1\n    \^$"):
        Preference.parse("cpc <= 1\n2 zh <= 1\nen <= 2", names=NAMES)


def test_unknown_names():
    with pytest.raises(UnknownNameError, match=r"'othr' is none .*did you mean 'other'\?.*\n  othr <= 1\n  \^"):
        Preference.parse("othr <= 1", names=["zh", "other"])


def test_other_refusals():
    with pytest.raises(InputError, match="found no names"):
        Preference.parse("")
    with pytest.raises(InputError, match="text: expected a string, found 3"):
        Preference.parse(3)
    with pytest.raises(InputError, match="more than 100 parentheses"):
        Preference.parse("(" * 5000 + "zh" + ")" * 5000 + " <= 1")
    with pytest.raises(InputError, match="names: expected 3, found 2"):
        Preference.parse("ray 1 2 3; a <= b")
    assert Preference.parse("-" * 5000 + "zh <= 1").B_g.tolist() == [[1.0]]
