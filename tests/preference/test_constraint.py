"""One constraint: its rows, its text, its margin."""

import pytest

from ferero.errors import InputError
from ferero.preference import objectives
from ferero.preference.constraint import tighten

f = objectives("a", "b")


@pytest.mark.parametrize(
    ("constraint", "row", "constant", "text"),
    [
        (f.a - f.b == 0.5, [1, -1], -0.5, "a - b == 0.5"),
        (f.a >= 0.1, [-1, 0], 0.1, "a >= 0.1"),
        (f.a <= 0.1, [1, 0], -0.1, "a <= 0.1"),
        (2 * f.a <= f.b + 4, [2, -1], -4, "2*a <= b + 4"),
        (2 * f.a >= f.b + 4, [-2, 1], 4, "2*a >= b + 4"),
        (0.1 <= f.a, [-1, 0], 0.1, "a >= 0.1"),  # noqa: SIM300  # the reflected operator
    ],
)
def test_rows_are_left_minus_right(constraint, row, constant, text):
    assert constraint.form.row(f.names) == row
    assert constraint.form.constant == constant
    assert str(constraint) == text
    assert constraint.parts == (constraint,)


def test_abs_has_two_rows():
    upper, lower = (abs(f.a - f.b) <= 0.25).parts
    assert (upper.form.row(f.names), upper.form.constant, str(upper)) == ([1, -1], -0.25, "a - b <= 0.25")
    assert (lower.form.row(f.names), lower.form.constant, str(lower)) == ([-1, 1], -0.25, "a - b >= -0.25")


def test_abs_may_be_bounded_by_an_expression():
    upper, lower = (abs(f.a) <= 0.5 * f.b).parts
    assert upper.form.row(f.names) == [1, -0.5]
    assert lower.form.row(f.names) == [-1, -0.5]


def test_margins_tighten():
    assert str((f.a <= 1).with_margin(0.25)) == "a <= 0.75"
    assert str((f.a >= 1).with_margin(0.25)) == "a >= 1.25"
    assert str((abs(f.a) <= 1).with_margin(0.25)) == "abs(a) <= 0.75"
    assert (f.a >= 1).with_margin(0.25).form.constant == 1.25


def test_margins_refused():
    with pytest.raises(InputError, match=r"only inequalities take a margin, 'a == b' .* 'abs\(a - b\) <= c'"):
        (f.a == f.b).with_margin(0.1)
    with pytest.raises(InputError, match=r"z must be finite and >= 0, found -0\.1"):
        (f.a <= 1).with_margin(-0.1)
    with pytest.raises(InputError, match="found nan"):
        (f.a <= 1).with_margin(float("nan"))
    with pytest.raises(InputError, match="can never hold"):
        (abs(f.a) <= 1).with_margin(2)


def test_tighten_splits_an_abs_with_two_margins():
    constraints = [abs(f.a) <= 1, f.a == f.b, f.b <= 2]
    assert [str(c) for c in tighten(constraints, [0.5, 0.5, 1])] == ["abs(a) <= 0.5", "a == b", "b <= 1"]
    assert [str(c) for c in tighten(constraints, [0.5, 0.25, 1])] == [
        "a <= 0.5",
        "a >= -0.75",
        "a == b",
        "b <= 1",
    ]


def test_constraints_compare_as_values():
    assert (f.a <= 1).__eq__(f.a <= 1) is True
    assert (f.a <= 1).__eq__(f.a <= 2) is False
    assert len({f.a <= 1, f.a <= 1, f.b <= 1}) == 2
