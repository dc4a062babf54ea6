"""Differences of logarithms are compared as linear rows; sums of them are refused."""

import math

import pytest
import torch

from ferero.errors import InputError
from ferero.preference import Preference, objectives

f = objectives("a", "b")


@pytest.mark.parametrize(
    ("made", "row", "constant", "text"),
    [
        (lambda: f.a.log() - f.b.log() <= 0.3, [1, -math.exp(0.3)], 0, "log(a) - log(b) <= 0.3"),
        (lambda: f.a.log() - f.b.log() == 0.3, [1, -math.exp(0.3)], 0, "log(a) - log(b) == 0.3"),
        (lambda: f.a.log() - f.b.log() >= 0.3, [-1, math.exp(0.3)], 0, "log(a) - log(b) >= 0.3"),
        (lambda: f.a.log() <= f.b.log() + 0.3, [1, -math.exp(0.3)], 0, "log(a) <= log(b) + 0.3"),
        (lambda: f.a.log() <= -2, [1, 0], -math.exp(-2), "log(a) <= -2"),
        (lambda: -f.a.log() <= 2, [-math.exp(2), 0], 1, "-log(a) <= 2"),
        (lambda: 3 * f.a.log() <= 6, [1, 0], -math.exp(2), "3*log(a) <= 6"),
        (lambda: 2 * f.a.log() - 2 * f.b.log() + 1 <= 2, [1, -math.exp(0.5)], 0, "2*log(a) - 2*log(b) + 1 <= 2"),
        (lambda: (f.a + 1).log() / 2 <= 1, [1, 0], 1 - math.exp(2), "0.5*log(a + 1) <= 1"),
        (lambda: 1 >= f.a.log(), [1, 0], -math.e, "log(a) <= 1"),  # noqa: SIM300
        (lambda: 1 - f.a.log() <= 0, [-1, 0], math.e, "-log(a) + 1 <= 0"),
    ],
)
def test_a_comparison_is_an_exact_linear_row(made, row, constant, text):
    constraint = made()
    assert str(constraint) == text
    p = Preference(f, [constraint])
    found = torch.cat([p.B_g, p.B_h])[0], torch.cat([p.b_g, p.b_h])[0]
    wanted = torch.tensor([*row, constant], dtype=torch.float64)
    scale = float(found[0].abs().max() / wanted[:2].abs().max())  # a row may be written with either side in front
    torch.testing.assert_close(torch.cat([found[0], found[1][None]]), scale * wanted)
    assert Preference.parse(str(p), names=f).constraints == p.constraints


def test_within_a_factor():
    p = Preference(f, [(abs(f.a.log() - f.b.log()) <= math.log(2)).named("alike")])
    torch.testing.assert_close(p.B_g, torch.tensor([[1, -2], [-1, 0.5]], dtype=torch.float64))
    assert p.labels_g[1] == f"alike/lower: log(a) - log(b) >= {-math.log(2)}"
    assert p.is_satisfied([[1.0, 0.6], [1.0, 0.4], [0.4, 1.0], [-1.0, -1.0]]).tolist() == [True, False, False, False]


def test_an_offset_inside_abs():
    p = Preference(f, [abs(f.a.log() + 1) <= 2])
    assert p.is_satisfied([[math.exp(-2.9), 0], [math.exp(0.9), 0], [math.exp(-3.1), 0], [math.exp(1.1), 0]]).tolist() \
        == [True, True, False, False]  # fmt: skip


def test_the_logarithm_of_a_number_is_a_number():
    assert str(Preference.parse("log(a) <= log(2)").constraints[0]) == f"log(a) <= {math.log(2)}"
    with pytest.raises(InputError, match="log: expected a positive number, found 0"):
        (0 * f.a).log()


@pytest.mark.parametrize(
    ("misuse", "text"),
    [
        (lambda: f.a.log() + f.b.log() <= 1, "a sum of logarithms is that of a product: make it a loss of its own"),
        (lambda: f.a.log() - 2 * f.b.log() <= 1, "difference of two with the same factor"),
        (lambda: f.a.log() - f.a.log() <= 1, "cannot be made linear"),
        (lambda: f.a.log() <= f.b, "'log\\(a\\)' and 'b' cannot be made linear"),
        (lambda: f.b + f.a.log(), "'log\\(a\\)' and 'b' cannot be made linear"),
        (lambda: f.b * f.a.log(), "'log\\(a\\)' and 'b' cannot be made linear"),
        (lambda: f.a.log() * f.b.log(), "cannot be made linear"),
        (lambda: f.a.log() / 0, "divided by zero"),
        (lambda: f.a.log() <= 1000, r"exp\(1000\) is beyond floating-point numbers"),
        (lambda: f.a.log() <= -1000, r"exp\(-1000\) is beyond floating-point numbers"),
        (lambda: f.a.log() < 1, "write '<='"),
        (lambda: 1 / f.a.log(), "cannot be made linear"),
        (lambda: f.a.log() ** 2, "cannot be made linear"),
        (lambda: abs(f.a.log()) >= 1, "takes only '<='"),
        (lambda: abs(f.a.log()) <= -1, "needs c >= 0"),
        (lambda: abs(f.a.log()) + 1, "can only be compared"),
        (lambda: abs(abs(f.a.log())), "can only be compared"),
        (lambda: f.b.log() <= abs(f.a.log()), r"bound abs\(\) by a number"),
        (lambda: abs(f.a.log()) <= f.b.log(), "can only be compared"),
        (lambda: Preference(f, minimize=f.a.log()), r"minimize: .* found 'log\(a\)', which is linear only where"),
    ],
)
def test_what_cannot_be_linear_is_refused_in_words(misuse, text):
    with pytest.raises(InputError, match=text):
        misuse()
