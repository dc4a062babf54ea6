"""Names and expressions: arithmetic is that of vectors, and every misuse is refused in words."""

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ferero.errors import InputError, UnknownNameError
from ferero.preference import AbsExpression, Constraint, Expression, Objectives, objectives
from ferero.preference._expression import LinearForm, number_text

f = objectives("cpc", "zh", "en")
numbers = st.floats(-1e6, 1e6, allow_subnormal=False)
rows = st.lists(numbers, min_size=3, max_size=3)


def expression(row, constant=0.0):
    return sum((c * x for c, x in zip(row, f, strict=True)), start=0 * f.cpc) + constant


def vector(e):
    return np.array([*e.form.row(f.names), e.form.constant])


@settings(derandomize=True, deadline=None)
@given(rows, rows, numbers, numbers)
def test_arithmetic_is_that_of_vectors(a, b, c, k):
    x, y = expression(a, c), expression(b)
    np.testing.assert_allclose(vector(x + y), vector(x) + vector(y))
    np.testing.assert_allclose(vector(x - y), vector(x) - vector(y))
    np.testing.assert_allclose(vector(k * x), k * vector(x))
    np.testing.assert_allclose(vector(x * k), k * vector(x))
    np.testing.assert_allclose(vector(-x), -vector(x))
    np.testing.assert_allclose(vector(k - x), np.array([0, 0, 0, k]) - vector(x))
    if abs(k) > 1e-3:
        np.testing.assert_array_equal(vector(x / k), vector(x) / k)


@settings(derandomize=True, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_printed_so_that_they_read_back(x):
    assert float(number_text(x)) == x


def test_access_and_unpacking():
    cpc, zh, en = f
    assert str(cpc), str(zh) == ("cpc", "zh")
    assert str(f["zh"]) == str(f.zh) == str(f[1]) == str(f[-2]) == str(zh)
    assert str(en) == "en"
    assert len(f) == 3
    assert f.names == ("cpc", "zh", "en")
    assert f.measured == ()
    assert objectives("ce", "wer", measured=("wer",)).measured == ("wer",)


def test_sum_and_text():
    assert str(sum(f)) == "cpc + zh + en"
    assert str(2 * f.zh - f.en / 2 - 1) == "2*zh - 0.5*en - 1"
    assert str(-f.zh + 0.25) == "-zh + 0.25"
    assert str(f.zh - f.zh) == "0"
    assert str(+f.zh) == "zh"


@pytest.mark.parametrize(
    "number",
    [0.5, np.float64(0.5), np.float32(0.5), torch.tensor(0.5), np.array(0.5)],
    ids=lambda x: type(x).__name__,
)
def test_numbers_of_every_library_on_both_sides(number):
    for made in (number * f.zh, f.zh * number):
        assert isinstance(made, Expression)
        assert str(made) == "0.5*zh"
    assert str(f.zh <= number) == str(number >= f.zh) == "zh <= 0.5"
    assert str(f.zh == number) == str(number == f.zh) == "zh == 0.5"
    assert str(abs(f.zh) <= number) == str(number >= abs(f.zh)) == "abs(zh) <= 0.5"


def test_unknown_names_list_the_known_ones():
    with pytest.raises(UnknownNameError, match=r"'zhh' is none .* did you mean 'zh'\? \(known: cpc, zh, en\)"):
        _ = f.zhh
    with pytest.raises(AttributeError, match=r"\(known: cpc, zh, en\)"):
        _ = f.wholly_else
    with pytest.raises(LookupError, match="'x' is none"):
        _ = f["x"]
    with pytest.raises(UnknownNameError, match="index 3 is out of range: there are 3"):
        _ = f[3]
    with pytest.raises(UnknownNameError, match="'wer' is none"):
        objectives("ce", measured=("wer",))


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ((), "at least one"),
        (("a", "a"), "names must differ, found a more than once"),
        (("",), "expected identifiers such as 'loss_1', found ''"),
        (("1a",), "found '1a'"),
        (("a b",), "found 'a b'"),
        (("names",), r"'names' is reserved: f\.names is an attribute .* f\[\"names\"\]; rename it, .*'names_loss'"),
        (("measured",), r"'measured' is reserved: f\.measured is an attribute"),
        (("_index",), "'_index' is reserved: .* to 'index_loss'"),
        (("minimize",), r"'minimize' is reserved: it is a word of Preference\.parse"),
        (("abs",), "'abs' is reserved: .* to 'abs_loss'"),
        (("__len__",), "'__len__' is reserved"),
        ((["a", "b"],), r"write objectives\(\*names\)"),
        ((3,), r"found 3 \(int\)"),
    ],
)
def test_bad_names(names, text):
    with pytest.raises(InputError, match=text):
        objectives(*names)


def test_names_that_only_brackets_can_read():
    odd = objectives("__x", "lambda")
    assert str(odd["__x"] + odd["lambda"]) == "__x + lambda"
    with pytest.raises(AttributeError, match=r"'__x' is read as f\[\"__x\"\]"):
        getattr(odd, "__x")


def test_measured_as_a_bare_string():
    with pytest.raises(InputError, match=r"write \('wer',\)"):
        objectives("ce", "wer", measured="wer")


@pytest.mark.parametrize(
    ("misuse", "text"),
    [
        (lambda: f.zh * f.en, "product of 'zh' and 'en' is not linear"),
        (lambda: 1 / f.zh + f.en, "'1 / zh' and 'en' cannot be made linear"),
        (lambda: f.zh / f.en <= f.zh, "'zh / en' and 'zh' cannot be made linear"),
        (lambda: f.zh / 0, "'zh' is divided by zero"),
        (lambda: 2 * f.zh / 1e-308, "coefficient of 'zh' is inf"),
        (lambda: f.zh < 1, "write '<='"),
        (lambda: f.zh > 1, "write '>='"),
        (lambda: f.zh != 1, "is no constraint"),
        (lambda: f.zh + float("nan"), "expected a finite number, found nan"),
        (lambda: f.zh + float("inf"), "expected a finite number, found inf"),
        (lambda: f.zh <= "1", r"expected a number or an expression, found 1 \(str\)"),
        (lambda: f.zh <= True, r"found True \(bool\)"),
        (lambda: f.zh <= [1, 2], r"found \[1, 2\] \(list\)"),
        (lambda: f.zh <= torch.ones(2), r"found an array of shape \(2,\)"),
        (lambda: f.zh <= (f.en <= 1), r"found en <= 1 \(Constraint\)"),
        (lambda: f.zh == None, r"found None"),  # noqa: E711
        (lambda: bool(f.zh), "neither true nor false"),
        (lambda: 0.1 <= f.zh <= 0.5, r"write two constraints, \[f.x >= a, f.x <= b\]"),
        (lambda: abs(f.zh) >= 1, "takes only '<='.* write 'abs\\(zh\\) <= c', or 'zh == c'"),
        (lambda: abs(f.zh) == 0, "takes only '<='"),
        (lambda: abs(f.zh) <= -0.1, "needs c >= 0.*can never hold"),
        (lambda: abs(f.zh) < 1, "can only be compared"),
        (lambda: 2 * abs(f.zh), "can only be compared"),
        (lambda: f.en + abs(f.zh), "can only be compared"),
        (lambda: -abs(f.zh), "can only be compared"),
        (lambda: abs(f.zh) <= abs(f.en), r"abs\(\) on both sides"),
    ],
)
def test_misuse_is_refused_in_words(misuse, text):
    with pytest.raises(InputError, match=text):
        misuse()


def test_types_and_hash():
    assert isinstance(abs(f.zh), AbsExpression)
    assert isinstance(f.zh == f.en, Constraint)
    with pytest.raises(TypeError, match="unhashable"):
        hash(f.zh)


def test_objectives_survive_copies_and_pickle():
    for other in (copy.deepcopy(f), pickle.loads(pickle.dumps(f))):
        assert isinstance(other, Objectives)
        assert other == f
        assert str(other.zh) == "zh"


def test_linear_form_row_ignores_zeros():
    assert LinearForm.from_row(("a", "b"), [0.0, 2.0], 1.0) == LinearForm((("b", 2.0),), 1.0)
