"""Levels that move: their values, their text, and what they may stand beside."""

import copy
import math
import pickle

import pytest
import torch

import ferero
from ferero import Preference, cosine, piecewise, ramp
from ferero.errors import ContradictionError, InputError, UnsupportedError
from ferero.preference._preference import levels_of

f = ferero.objectives("a", "b")
RAMP = ramp(1.0, 0.2, steps=5000)


def by_hand(level, t):
    """The level at a step, from its definition."""
    found = level.levels[0]
    for (begin, end), (early, late) in zip(level.spans, zip(level.levels, level.levels[1:], strict=False), strict=True):
        x = min(max((t - begin) / (end - begin), 0.0), 1.0)
        found += (late - early) * ((1 - math.cos(math.pi * x)) / 2 if level.kind == "cosine" else x)
    return found


@pytest.mark.parametrize(
    "level",
    [RAMP, ramp(0.5, 2, steps=7, after=3), cosine(1, -1, steps=10), cosine(3, 1, steps=10, after=5),
     piecewise(1.0, (100, 0.5), (200, 0.2)), piecewise(1, (1, 2))],
    ids=str,
)  # fmt: skip
def test_levels_at_every_step(level):
    for t in range(250):
        assert level.at(t) == pytest.approx(by_hand(level, t), rel=1e-11, abs=1e-12)
    assert level.at(0) == pytest.approx(level.levels[0])
    assert level.at(10**6) == level.end  # to the last bit
    assert all(isinstance(knot, int) for knot in level.knots)


def test_a_jump_is_at_its_step():
    assert [piecewise(1.0, (3, 0.5)).at(t) for t in (0, 2, 3, 4)] == [1.0, 1.0, 0.5, 0.5]


@pytest.mark.parametrize(
    ("level", "text"),
    [
        (RAMP, "ramp(1, 0.2, steps=5000)"),
        (ramp(1, 0.1, steps=10, after=4), "ramp(1, 0.1, steps=10, after=4)"),
        (cosine(1 / 3, 0, steps=10), "cosine(0.3333333333333333, 0, steps=10)"),
        (piecewise(1, (10, 0.5), (20, 0.25)), "piecewise(1, (10, 0.5), (20, 0.25))"),
    ],
)
def test_text_reads_back_and_copies_are_equal(level, text):
    assert str(level) == text
    p = Preference(f, [f.a <= level, abs(f.a - f.b) <= level, f.b >= -level])
    again = Preference.parse(str(p), names=f)
    assert again.constraints == p.constraints
    for other in (copy.deepcopy(level), pickle.loads(pickle.dumps(level))):
        assert other == level
        assert hash(other) == hash(level)
    assert level != ramp(1, 0.3, steps=5000)


def test_tensors_hold_the_end_and_at_gives_a_step():
    p = Preference(f, [(f.a - 9 <= RAMP).named("budget"), f.b >= RAMP, f.a - f.b == ramp(0, 1, steps=10)])
    assert p.moves
    assert p.b_g.tolist() == [-9.2, 0.2]
    assert p.b_h.tolist() == [-1]
    early = p.at(0)
    assert not early.moves
    torch.testing.assert_close(early.b_g, torch.tensor([-10.0, 1.0], dtype=torch.float64))
    assert early.b_h.tolist() == [0]
    assert p.at(2500).labels_g == ("budget: a - 9 <= 0.6", "b >= 0.6")
    assert p.at(2500).labels_h == ("a - b == 1",)
    assert torch.equal(p.at(9999).b_g, p.b_g)
    assert early.at(5) is early


def test_metric_keys_do_not_change_with_the_step():
    p = Preference(f, [f.a <= RAMP])
    assert p.metric_keys == ("a_le_ramp_1_0.2_steps_5000",)


@pytest.mark.parametrize("step", [0, 1, 5, 12, 100])
def test_shifts_are_those_of_single_preferences(step):
    one = Preference(f, [f.a <= ramp(1, 0.5, steps=10), abs(f.a - f.b) <= cosine(2, 1, steps=20), f.b <= 3])
    two = Preference(f, [f.b >= piecewise(1, (5, 2), (12, 0)), f.a - f.b == ramp(0, 1, steps=7), f.a <= 9])
    stack = Preference.stack([one, two])
    b = torch.cat([stack.b_g, stack.b_h], dim=-1)
    shifts = levels_of(stack, b)
    found = b + shifts.shift(torch.full((2, 1), float(step), dtype=torch.float64))
    now = stack.at(step)
    torch.testing.assert_close(found, torch.cat([now.b_g, now.b_h], dim=-1))
    assert levels_of(one.at(0), one.b_g) is None


def test_levels_that_clash_on_the_way_are_named_with_the_step():
    with pytest.raises(ContradictionError, match=r"at step 10 of training: .* both 'a <= 0' and 'a >= 1'"):
        Preference(f, [f.a <= ramp(1, 0, steps=10), f.a >= 1])
    with pytest.raises(ContradictionError, match="at step 0 of training"):
        Preference(f, [f.a <= ramp(0, 2, steps=10), f.a >= 1])
    assert Preference(f, [f.a <= ramp(3, 2, steps=10), f.a <= 2.5, f.b <= 1, f.b <= 2]).notes == (
        "'b <= 2' is redundant: the other constraints imply it",
    )


@pytest.mark.parametrize(
    ("misuse", "text"),
    [
        (lambda: f.a <= f.b + RAMP, r"'ramp\(1, 0.2, steps=5000\)' stands alone on its side of a comparison"),
        (lambda: RAMP + 1, "stands alone"),
        (lambda: 2 * RAMP, "stands alone"),
        (lambda: abs(RAMP), "stands alone"),
        (lambda: RAMP < f.a, "stands alone"),  # noqa: SIM300
        (lambda: f.a / f.b <= RAMP, "would change the coefficients .* steer.ask"),
        (lambda: f.a.log() <= RAMP, "would change the coefficients"),
        (lambda: abs(f.a / f.b) <= RAMP, "would change the coefficients"),
        (lambda: abs(f.a) <= ramp(1, -1, steps=3), r"needs c >= 0: 'abs\(a\) <= ramp\(1, -1, steps=3\)'"),
        (lambda: ramp(1, 2, steps=0), "ramp: expected a whole number of at least 1 for steps, found 0"),
        (lambda: ramp(1, 2, steps=2.5), "found 2.5"),
        (lambda: ramp(1, 2, steps=True), "found True"),
        (lambda: ramp(1, 2, steps=3, after=-1), "at least 0 for after, found -1"),
        (lambda: ramp("1", 2, steps=3), "ramp: expected a finite number for start, found '1'"),
        (lambda: cosine(1, math.inf, steps=3), "cosine: expected a finite number for end, found inf"),
        (lambda: piecewise(1), "expected jumps .*, found none; write the number alone"),
        (lambda: piecewise(1, 2), r"expected jumps \(step, level\), such as \(1000, 0.5\), found 2"),
        (lambda: piecewise(1, (0, 2)), "at least 1 for step, found 0"),
        (lambda: piecewise(1, (5, 2), (4, 3)), "whose steps rise, found 5, 4; sort them"),
        (lambda: piecewise(1, (5, math.nan)), "finite number for level, found nan"),
        (lambda: RAMP.at(-1), "at: expected a whole number of at least 0 for step, found -1"),
        (lambda: Preference(f, [f.a <= RAMP]).at(0.5), "at least 0 for step, found 0.5"),
        (lambda: Preference(f, minimize=RAMP), "expected expressions such as"),
    ],
)
def test_misuse_is_refused_in_words(misuse, text):
    with pytest.raises(InputError, match=text):
        misuse()


# where there is no training -------------------------------------------------------------------------------

MOVING = Preference(f, [f.a <= RAMP])


def fun(x):
    return torch.stack([(x - 1).square().sum(), (x + 1).square().sum()])


X = torch.zeros(2, dtype=torch.float64)


@pytest.mark.parametrize(
    "call",
    [
        lambda p: ferero.minimize(fun, X, p),
        lambda p: ferero.trace(fun, X, [p]),
        lambda p: ferero.certify(fun, X, p),
        lambda p: ferero.minimize(fun, X, p, method=ferero.FereroPI(), step=0.1),
        lambda p: ferero.solve_subprogram(p, [1.0, 1.0], torch.eye(2)),
    ],
    ids=["minimize", "trace", "certify", "FereroPI", "subprogram"],
)
def test_a_level_that_moves_needs_training(call):
    match = r"'a <= ramp\(1, 0.2, steps=5000\)' moves with .* write its last level, 'a <= 0.2', or pass preference.at"
    with pytest.raises(UnsupportedError, match=match):
        call(MOVING)


def test_at_a_step_everything_takes_it():
    assert ferero.minimize(fun, X, MOVING.at(0)).losses[0] <= 1.0 + 1e-6
    assert ferero.minimize(fun, X, MOVING.at(5000)).losses[0] <= 0.2 + 1e-6


def test_other_methods_refuse_it():
    with pytest.raises(UnsupportedError, match=r"FereroSA does not follow levels that move .* use FereroPI"):
        ferero.methods.check_understood(ferero.FereroSA(), MOVING)
