"""One constraint: its rows, its text, its margin."""

import numpy as np
import pytest
import torch

from ferero.errors import InputError
from ferero.preference import Preference, objectives
from ferero.preference._expression import with_margins

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


@pytest.mark.parametrize("constraint", [f.a <= 1, f.a >= 1, abs(f.a - f.b) <= 1], ids=str)
def test_a_margin_counts_standard_errors_and_moves_no_bound(constraint):
    given = constraint.with_margin(z=1.64)
    assert (constraint.margin, given.margin) == (0.0, 1.64)
    assert (given.left, given.right, given.relation) == (constraint.left, constraint.right, constraint.relation)
    assert [part.form for part in given.parts] == [part.form for part in constraint.parts]
    assert [part.margin for part in given.parts] == [1.64] * len(given.parts)
    assert given.text == str(constraint)
    assert str(given) == f"{constraint} (margin 1.64 standard errors)"
    assert given.with_margin(1).margin == 1.0
    assert str(given.with_margin(1)) == f"{constraint} (margin 1 standard error)"
    assert given.with_margin(0) == constraint


@pytest.mark.parametrize("z", [2, np.float32(2), torch.tensor(2.0), np.array(2)], ids=lambda z: type(z).__name__)
def test_margins_of_every_library(z):
    margin = (f.a <= 1).with_margin(z).margin
    assert (margin, type(margin)) == (2.0, float)


def test_margins_refused():
    with pytest.raises(InputError, match=r"only inequalities take a margin, 'a == b' .* 'abs\(a - b\) <= c'"):
        (f.a == f.b).with_margin(0.1)
    with pytest.raises(InputError, match=r"z must be finite and >= 0, found -0\.1"):
        (f.a <= 1).with_margin(-0.1)
    with pytest.raises(InputError, match="found nan"):
        (f.a <= 1).with_margin(float("nan"))
    with pytest.raises(InputError, match="found inf; it counts standard errors"):
        (f.a <= 1).with_margin(float("inf"))
    with pytest.raises(InputError, match="z must be a number of standard errors, found 'wide'"):
        (f.a <= 1).with_margin("wide")


def test_two_margins_split_an_abs():
    constraints = [abs(f.a) <= 1, f.a == f.b, f.b <= 2]
    whole = with_margins(constraints, [2, 2, 0])
    assert [(c.text, c.margin) for c in whole] == [("abs(a) <= 1", 2), ("a == b", 0), ("b <= 2", 0)]
    split = with_margins(constraints, [2, 1, 0.5])
    assert [(c.text, c.margin) for c in split] == [("a <= 1", 2), ("a >= -1", 1), ("a == b", 0), ("b <= 2", 0.5)]


def test_a_constraint_is_no_truth_value():
    with pytest.raises(InputError, match=r"'a >= 0\.1' is neither true nor false; .* \[f\.x >= a, f\.x <= b\]"):
        _ = 0.1 <= f.a <= 0.5
    with pytest.raises(InputError, match="write two constraints"):
        _ = f.a <= 1 and f.b <= 1


def test_constraints_compare_as_values():
    assert (f.a <= 1).__eq__(f.a <= 1) is True
    assert (f.a <= 1).__eq__(f.a <= 2) is False
    assert len({f.a <= 1, f.a <= 1, f.b <= 1}) == 2


def test_a_name_changes_what_it_is_called_and_nothing_else():
    named = (f.a <= 1).named("budget")
    assert (named.name, named.key, named.titled) == ("budget", "budget", "budget: a <= 1")
    assert str(named) == str(f.a <= 1)  # so that parse reads what a preference prints
    assert named.with_margin(2).name == "budget"
    assert [part.name for part in (abs(f.a) <= 1).named("band").parts] == ["band/upper", "band/lower"]
    plain, same = Preference(f, [f.a <= 1, f.b == 2]), Preference(f, [named, (f.b == 2).named("level")])
    assert torch.equal(plain.B_g, same.B_g)
    assert torch.equal(plain.B_h, same.B_h)
    assert same.metric_keys == ("budget", "level")
    assert plain.metric_keys == ("a_le_1", "b_eq_2")


def test_keys_differ_although_formulas_repeat():
    p = Preference(f, [f.a <= 1, (f.b <= 2).named("a_le_1_1"), f.a <= 1])
    assert p.metric_keys == ("a_le_1_2", "a_le_1_1", "a_le_1_3")


@pytest.mark.parametrize("name", ["", "two words", "a<=1", None, 3])
def test_names_that_a_tracker_would_refuse(name):
    with pytest.raises(InputError, match=r"named: expected a name of letters, digits, .* write named\('budget'\)"):
        (f.a <= 1).named(name)


def test_two_constraints_of_one_name():
    with pytest.raises(InputError, match="found 'budget' for 'a <= 1' and for 'b <= 1'; rename one"):
        Preference(f, [(f.a <= 1).named("budget"), (f.b <= 1).named("budget")])
