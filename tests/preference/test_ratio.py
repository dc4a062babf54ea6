"""Ratios are compared as linear rows, print as they were written, and mean it only where denominators are positive."""

import copy
import pickle

import pytest
import torch

from ferero.errors import ContradictionError, InputError, UnknownNameError
from ferero.preference import Preference, objectives
from ferero.preference._rewriting import are_valid, invalid_rows, row_units

f = objectives("a", "b", "c")


def rows(constraint):
    p = Preference(f, [constraint])
    return torch.cat([p.B_g, p.B_h]).tolist(), torch.cat([p.b_g, p.b_h]).tolist()


@pytest.mark.parametrize(
    ("made", "row", "constant", "text"),
    [
        (lambda: f.a / f.b <= 2, [1, -2, 0], 0, "a / b <= 2"),
        (lambda: f.a / f.b >= 2, [-1, 2, 0], 0, "a / b >= 2"),
        (lambda: f.a / f.b == 2, [1, -2, 0], 0, "a / b == 2"),
        (lambda: 2 >= f.a / f.b, [1, -2, 0], 0, "a / b <= 2"),  # noqa: SIM300
        (lambda: (f.a + f.b) / (f.c + 1) <= 0.5, [1, 1, -0.5], -0.5, "(a + b) / (c + 1) <= 0.5"),
        (lambda: f.a / f.b - 1 <= 0.5, [1, -1.5, 0], 0, "a / b - 1 <= 0.5"),
        (lambda: 1 - f.a / f.b <= 0.5, [-1, 0.5, 0], 0, "-a / b + 1 <= 0.5"),
        (lambda: 2 * (f.a / f.b) <= 1, [2, -1, 0], 0, "2*a / b <= 1"),
        (lambda: f.a / f.b / 4 <= 1, [0.25, -1, 0], 0, "0.25*a / b <= 1"),
        (lambda: 1 / f.b <= 4, [0, -4, 0], 1, "1 / b <= 4"),
        (lambda: f.a / (2 * f.b) <= 3, [1, -6, 0], 0, "a / (2*b) <= 3"),
        (lambda: f.a / -f.b >= -3, [-1, 3, 0], 0, "a / (-b) >= -3"),
        (lambda: f.a / f.b <= 0, [1, 0, 0], 0, "a / b <= 0"),
        (lambda: f.a / f.b <= torch.tensor(2.0), [1, -2, 0], 0, "a / b <= 2"),
    ],
)
def test_a_comparison_is_a_linear_row_and_prints_as_written(made, row, constant, text):
    constraint = made()
    assert rows(constraint) == ([row], [constant])
    assert str(constraint) == text
    p = Preference(f, [constraint])
    again = Preference.parse(str(p), names=f)
    assert again.constraints == p.constraints


def test_abs_of_a_ratio_is_two_rows():
    p = Preference(f, [(abs(f.a / f.b - 1) <= 0.25).named("alike").with_margin(2)])
    assert p.B_g.tolist() == [[1, -1.25, 0], [-1, 0.75, 0]]
    assert p.labels_g == ("alike/upper: a / b - 1 <= 0.25", "alike/lower: a / b - 1 >= -0.25")
    assert p.metric_keys == ("alike/upper", "alike/lower")
    assert p.margins.tolist() == [2, 2]
    assert str(p).endswith("subject to abs(a / b - 1) <= 0.25 (margin 2 standard errors)")
    assert Preference(f, [abs(f.a / f.b - 1) <= 0.25]).metric_keys == (
        "a_over_b_minus_1_le_0.25",
        "a_over_b_minus_1_ge_-0.25",
    )


def test_margins_of_the_rows_of_an_abs_may_differ():
    p = Preference(f, [abs(f.a / f.b) <= 2]).with_margin([1.0, 0.0])
    assert p.labels_g == ("a / b <= 2", "a / b >= -2")
    assert p.B_g.tolist() == [[1, -2, 0], [-1, -2, 0]]


@pytest.mark.parametrize(
    ("misuse", "text"),
    [
        (lambda: f.a / f.b + f.c <= 1, "'a / b' and 'c' cannot be made linear.*make the quotient a loss of its own"),
        (lambda: f.c - f.a / f.b, "'-a / b' and 'c' cannot be made linear"),
        (lambda: f.a / f.b + f.c / f.b, r"write sums over one denominator, '\(f.a \+ f.b\) / f.c'"),
        (lambda: f.a / f.b * f.b, r"\*: 'a / b' and 'b' cannot be made linear"),
        (lambda: f.b * (f.a / f.b), r"\*: 'a / b' and 'b' cannot be made linear"),
        (lambda: 2 / (f.a / f.b), "/: 'a / b' and '2' cannot"),
        (lambda: f.c / (f.a / f.b), "/: 'a / b' and 'c' cannot"),
        (lambda: f.a / f.b / f.c, "/: 'a / b' and 'c' cannot"),
        (lambda: (f.a / f.b) ** 2, r"\*\*: 'a / b' and '2' cannot"),
        (lambda: f.a / f.b <= f.c, "<=: 'a / b' and 'c' cannot"),
        (lambda: f.c >= f.a / f.b, "<=: 'a / b' and 'c' cannot"),
        (lambda: f.a / f.b <= f.c / f.b, "<=: 'a / b' and 'c / b' cannot"),
        (lambda: f.a / f.b / 0, "'a / b' is divided by zero"),
        (lambda: f.a / f.b <= float("nan"), "expected a finite number, found nan"),  # noqa: PLW0177
        (lambda: f.a / f.b <= "2", r"found 2 \(str\)"),
        (lambda: f.a / f.b < 2, "write '<='"),
        (lambda: f.a / f.b > 2, "write '>='"),
        (lambda: f.a / f.b != 2, "is no constraint"),
        (lambda: bool(f.a / f.b), "neither true nor false"),
        ((f.a / f.b).log, "as a difference"),
        (lambda: abs(f.a / f.b) >= 1, "takes only '<='.* write 'abs\\(a / b\\) <= c'"),
        (lambda: abs(f.a / f.b) <= -1, "needs c >= 0.*can never hold"),
        (lambda: abs(f.a / f.b) + 1, "can only be compared"),
        (lambda: abs(abs(f.a / f.b)), "can only be compared"),
        (lambda: abs(f.c) <= f.a / f.b, r"abs\(\) on both sides"),
        (lambda: Preference(f, minimize=f.a / f.b), "minimize: .* found 'a / b', which is linear only where it is"),
        (lambda: (f.a / f.b == 2).with_margin(1), "only inequalities take a margin, 'a / b == 2'"),
    ],
)
def test_what_cannot_be_linear_is_refused_in_words(misuse, text):
    with pytest.raises(InputError, match=text):
        misuse()


def test_names_of_denominators_are_checked_also_where_their_row_vanishes():
    other = objectives("a", "x")
    with pytest.raises(UnknownNameError, match="'x' is none of the objectives"):
        Preference(f, [other.a / other.x <= 0])


def test_a_contradiction_is_named_as_it_was_written():
    with pytest.raises(ContradictionError, match="all of 'a / b <= 2', 'a / b >= 3' and 'b >= 1'"):
        Preference(f, [f.a / f.b <= 2, f.a / f.b >= 3, f.b >= 1])


def test_ratios_survive_copies_stacks_and_the_other_half():
    p = Preference(f, [f.a / f.b <= 2])
    for other in (copy.deepcopy(p), pickle.loads(pickle.dumps(p)), p & Preference(f, [f.c <= 1]), p.with_margin(1)):
        assert other.labels_g[0] == "a / b <= 2"
        assert invalid_rows(other, torch.tensor([1.0, -1.0, 0.0])).keys() == {0}


# where a row means what was written ----------------------------------------------------------------------


def test_a_negative_denominator_satisfies_nothing():
    p = Preference(f, [f.a / f.b <= 2])
    losses = torch.tensor([[1.0, 1.0, 0.0], [-5.0, -1.0, 0.0], [5.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert p.is_satisfied(losses).tolist() == [True, False, False, True]  # -5 / -1 is 5, although -5 <= 2 * -1
    stack = Preference.stack([p, Preference(f, [f.c <= 1])])
    assert stack.is_satisfied(losses[1]).tolist() == [False, True]
    assert stack.is_satisfied(losses[[1, 1]]).tolist() == [False, True]
    assert are_valid(Preference(f, [f.c <= 1]), losses) is None


def test_the_sentence_says_what_is_negative():
    p = Preference(f, [f.c <= 1, f.a / (f.b - f.c) == 2])
    assert invalid_rows(p, torch.tensor([1.0, 2.0, 1.0])) == {}
    assert invalid_rows(p, torch.tensor([1.0, torch.nan, 1.0])) == {}
    (sentence,) = invalid_rows(p, torch.tensor([1.0, 1.0, 3.0])).values()
    assert sentence == (
        "'a / (b - c) == 2' is steered as 'a == 2*b - 2*c', which means the same only where b - c >= 0, and b - c is "
        "-2 here. Bound it from below, 'b - c >= 0', or choose another ratio."
    )


def test_units_are_denominators_and_rows_over_them_ratios():
    p = Preference(f, [f.c <= 1, f.a / f.b <= 2, f.a.log() - f.b.log() == 0.3])
    losses = torch.tensor([3.0, 0.5, 1.0], dtype=torch.float64)
    units = row_units(p, losses)
    G, H = p.values(losses)
    torch.testing.assert_close(G / units[:2], torch.tensor([0.0, 6.0 - 2.0], dtype=torch.float64))
    torch.testing.assert_close(H / units[2:], torch.expm1(torch.tensor([3.0 / 0.5]).double().log() - 0.3))
    assert row_units(p, -losses).tolist() == [1, 1, 1]
