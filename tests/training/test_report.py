"""Every status can be reached and gives advice; the merit orders checkpoints."""

from __future__ import annotations

import math
import re

import pytest
import torch

from ferero.preference import Preference, objectives
from ferero.training import Steer
from ferero.training._report import ADVICE

f = objectives("a", "b")
BELOW = Preference(f, [f.a <= 0.5])
EQUAL = Preference(f, [f.a == f.b])


def train(preference, values, **arguments):
    """A steer that has seen the values (T, 2)."""
    steer = Steer(preference, **arguments)
    for row in values:
        steer(torch.as_tensor(row, dtype=torch.float64).requires_grad_())
    return steer


def noise(steps, size, seed=0):
    return size * torch.randn(steps, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pairs(first):
    first = torch.as_tensor(first, dtype=torch.float64)
    return torch.stack([first, torch.ones_like(first)], dim=-1)


SWING = pairs(1 + 0.3 * torch.sin(2 * math.pi * torch.arange(300) / 40))
CASES = {
    "met": (BELOW, pairs([0.3] * 20), {}),
    "met_within_noise": (BELOW, pairs(0.5 + noise(150, 0.2)), {}),
    "not_met": (BELOW, pairs([1.0] * 20), {}),
    "saturated": (BELOW, pairs([1.0] * 400), {}),
    "oscillating": (EQUAL, SWING, {}),
}


@pytest.mark.parametrize("status", CASES)
def test_every_status_can_be_reached_and_gives_advice(status):
    preference, values, arguments = CASES[status]
    report = train(preference, values, **arguments).report()
    (row,) = report.constraints
    assert report.status == row.status == status
    assert row.advice.startswith(ADVICE[status])
    assert report.advice.endswith(row.advice)
    assert report.advice.startswith("Met" if status == "met" else f"{row.label}: ")
    assert row.saturated == (status == "saturated")
    assert report.steps == len(values)
    assert str(report).startswith(f"{status} after {len(values)} steps\nlosses: a ")
    assert row.label in str(report)


def test_an_oscillation_that_ended_is_no_longer_reported():
    calm = pairs(1 + 0.3 * torch.exp(-torch.arange(500) / 20))
    report = train(EQUAL, torch.cat([SWING, calm])).report()
    assert report.status in {"met", "met_within_noise"}


def test_the_worst_constraint_speaks_for_all():
    both = Preference(f, [f.a <= 0.5, f.b <= 0.5])
    report = train(both, [[0.3, 1.0]] * 20).report()
    assert [row.status for row in report.constraints] == ["met", "not_met"]
    assert report.status == "not_met"
    assert report.advice.startswith("b <= 0.5: Not met yet.")


def test_figures_are_those_of_the_values():
    values = 0.4 + noise(300, 0.1)
    steer = train(Preference(f, [(f.a <= 0.5).with_margin(z=2.0)]), pairs(values))
    (row,) = steer.report().constraints
    assert row.value == pytest.approx(-0.1, abs=0.03)
    assert row.standard_error == pytest.approx(0.1 / math.sqrt(199), rel=0.4)
    assert row.margin == pytest.approx(2 * row.standard_error)
    assert row.allowed == pytest.approx(0.005)  # a hundredth of the bound
    assert row.multiplier == float(steer.multipliers[-1]) > 0
    drift = train(BELOW, pairs(torch.linspace(1, 0, 300))).report().constraints[0]
    assert drift.trend < 0


def test_the_standard_error_knows_that_successive_values_resemble_each_other():
    walk = [0.0]
    for step in noise(400, 0.1).tolist():
        walk.append(0.9 * walk[-1] + step)
    (like,) = train(BELOW, pairs(walk)).report().constraints
    (white,) = train(BELOW, pairs(noise(401, float(torch.tensor(walk).std())))).report().constraints
    assert like.standard_error > 2 * white.standard_error


def test_no_constraint_at_all():
    report = train(Preference(f), [[1.0, 2.0]] * 3).report()
    assert (report.status, report.constraints) == ("met", ())
    assert report.advice == "There is no constraint: the losses are minimised."
    assert str(report) == "met after 3 steps\nlosses: a 1, b 2\nThere is no constraint: the losses are minimised."


def test_before_the_first_step():
    report = Steer(EQUAL).report()
    assert report.status == "not_met"
    assert "a has not arrived yet: is it in the losses? b has not arrived yet" in report.advice


def test_a_quantity_that_never_arrives():
    steer = Steer(Preference(f, [f.a <= 5.0, f.b <= 0.5]))
    for _ in range(5):
        steer({"a": torch.ones((), requires_grad=True)})
    report = steer.report()
    assert [row.status for row in report.constraints] == ["met", "not_met"]
    assert report.constraints[1].advice == "b has not arrived yet: is it in the losses?"


def test_a_metric_that_was_never_measured():
    """Its surrogate's value is in other units and says nothing about the constraint."""
    g = objectives("a", "gap", measured=("gap",))
    report = train(Preference(g, [g.gap <= 0.5], minimize=g.a), [[1.0, 0.01]] * 20).report()
    assert report.status == "not_met"
    assert "gap" in report.advice
    assert "observe" in report.advice


def test_skipped_batches_are_counted():
    steer = train(BELOW, [[0.3, 1.0], [math.nan, 1.0], [0.3, 1.0]], on_nonfinite="skip")
    assert steer.report().skipped == 1
    assert str(steer.report()).endswith("1 batches were not finite and were left out.")
    assert steer.metrics()["ferero/skipped"] == 1


def test_what_was_observed_counts():
    steer = train(BELOW, [[0.3, 1.0]] * 10)
    steer.observe(a=0.9)
    for _ in range(300):
        steer(torch.tensor([0.3, 1.0], requires_grad=True))
    report = steer.report()
    assert report.status in ("not_met", "saturated")  # it does not answer to any weight
    assert report.losses["a"] == pytest.approx(0.9)
    assert report.constraints[0].value == pytest.approx(0.4, abs=0.02)


# metrics ----------------------------------------------------------------------------------------------------


def test_the_keys_of_the_metrics():
    found = train(Preference(f, [f.a <= 0.5, f.a - f.b == 0.25]), [[1.0, 2.0]] * 3).metrics()
    assert list(found) == [
        "ferero/loss/a",
        "ferero/loss/b",
        "ferero/weight/a",
        "ferero/weight/b",
        "ferero/multiplier/a_le_0.5",
        "ferero/multiplier/a_minus_b_eq_0.25",
        "ferero/violation/a_le_0.5",
        "ferero/violation/a_minus_b_eq_0.25",
        "ferero/merit",
        "ferero/skipped",
    ]
    assert all(isinstance(value, float) for value in found.values())
    assert found["ferero/loss/b"] == 2.0
    assert found["ferero/violation/a_le_0.5"] == pytest.approx(0.5)
    assert found["ferero/violation/a_minus_b_eq_0.25"] == pytest.approx(1.25)


def test_constraints_of_the_same_words_keep_their_own_keys():
    ray = Preference.ray([1.0, 2.0, 3.0])  # two rows, both "F along ..."
    found = train(ray, [[1.0, 2.0, 4.0]] * 3).metrics()
    assert "ferero/violation/F_along_0.27_0.53_0.8_2" in found
    assert sum(key.startswith("ferero/multiplier/") for key in found) == 2
    assert sum(key.startswith("ferero/violation/") for key in found) == 2


def test_names_of_constraints_are_in_reports_and_metrics():
    named = [(f.a <= 0.5).named("budget"), (abs(f.a - f.b) <= 0.2).named("gaps/ab"), (f.a + 1e7 * f.b == 2)]
    steer = train(Preference(f, named), [[1.0, 2.0]] * 3)
    assert [row.label for row in steer.report().constraints][:2] == ["budget: a <= 0.5", "gaps/ab/upper: a - b <= 0.2"]
    found = steer.metrics()
    keys = [key.removeprefix("ferero/violation/") for key in found if key.startswith("ferero/violation/")]
    assert keys == ["budget", "gaps/ab/upper", "gaps/ab/lower", "a_plus_1e07_b_eq_2"]
    assert all(re.fullmatch(r"[A-Za-z0-9/_.-]+", key) for key in found)
    assert "budget: a <= 0.5: " in str(steer.report())


def merit(a, b, steps=120):
    return train(BELOW, [[a, b]] * steps).metrics()["ferero/merit"]


def test_the_merit_orders_checkpoints():
    good, better, negative = merit(0.4, 2.0), merit(0.4, 1.0), merit(0.4, -3.0)
    bad, worse = merit(0.6, 0.1), merit(5.0, 0.0)
    assert negative < better < good < 1 < bad < worse
    assert merit(0.4, 1e9) < merit(0.6, 0.0)  # no objective makes up for a violation
    assert merit(0.502, 1.0) < 1  # met up to a hundredth


def test_nothing_is_best_before_the_first_step():
    assert Steer(BELOW).metrics()["ferero/merit"] >= 1 + 0.01


@pytest.mark.parametrize("size", [0.0, 0.05, 0.3])
def test_the_value_of_a_drifting_model_is_that_of_the_present_or_its_standard_error_says_how_far_ahead_that_is(size):
    """The mean lags by a tenth."""
    ramp = 1 + torch.arange(2000, dtype=torch.float64) / 1000
    (row,) = train(EQUAL, pairs(ramp + noise(2000, size))).report().constraints
    assert abs(row.value - 1.999) <= 2 * row.standard_error + 1e-9
    assert row.standard_error < 0.2


@pytest.mark.slow
def test_what_drifts_towards_its_bound_is_not_met_before_it_is_there():
    falling = pairs(torch.linspace(6.0, 0.7, 300, dtype=torch.float64))  # no noise at all, and 0.2 too high at the end
    report = train(BELOW, falling).report()
    assert report.status == "not_met"
    there = pairs(torch.cat([falling[:, 0], torch.full((50,), 0.45, dtype=torch.float64)]))
    assert train(BELOW, there).report().status == "met_within_noise"  # its mean still lags behind
    long_there = pairs(torch.cat([falling[:, 0], torch.full((1500,), 0.45, dtype=torch.float64)]))
    assert train(BELOW, long_there).report().status == "met"


@pytest.mark.parametrize(("off", "status"), [(0.01, "met_within_noise"), (0.15, "not_met")])
def test_noise_excuses_a_twentieth_of_the_bound_and_no_more(off, status):
    values = noise(400, 6 * off)  # batches that differ by as much
    assert train(BELOW, pairs(0.5 + off + values)).report().status == status


@pytest.mark.slow
def test_losses_are_told_and_the_swing_of_the_model_is_no_noise():
    steps = torch.arange(1200, dtype=torch.float64)
    swinging = pairs(1 + 0.1 * torch.sin(2 * math.pi * steps / 60))
    (row,) = train(EQUAL, swinging).report().constraints
    assert row.swing == pytest.approx(0.1 / 2**0.5, rel=0.1)
    (quiet,) = train(EQUAL, pairs(1 + noise(1200, 0.1))).report().constraints
    assert quiet.swing < 0.05
    assert quiet.standard_error > 0.005
    told = str(train(BELOW, pairs([0.25] * 20)).report())
    assert "losses: a 0.25, b 1\n" in told


def test_a_swing_that_matters_is_named_where_the_mean_is_right():
    steps = torch.arange(1200, dtype=torch.float64)
    report = train(BELOW, pairs(0.46 + 0.05 * torch.sin(2 * math.pi * steps / 60))).report()
    assert report.status in ("met", "met_within_noise")
    assert "swing by 0.035" in report.constraints[0].advice
    assert "swing" not in train(BELOW, pairs([0.46] * 200)).report().constraints[0].advice


def test_room_that_is_left_is_told_where_all_losses_are_minimised():
    report = train(BELOW, pairs([0.1] * 50)).report()
    assert "0.4 to spare" in report.advice
    assert "minimize=" in report.advice
    only = Preference(f, [f.a <= 0.5], minimize=f.b)
    assert "to spare" not in train(only, pairs([0.1] * 50)).report().advice
    assert "to spare" not in train(BELOW, pairs([0.49] * 50)).report().advice


def test_a_steady_drift_is_no_swing():
    (row,) = train(EQUAL, pairs(torch.linspace(3.0, 1.0, 1500, dtype=torch.float64))).report().constraints
    assert abs(row.trend) > 0.3
    assert row.swing < abs(row.trend) / 6  # a third of it without taking the drift off


# about the present ------------------------------------------------------------------------------------------


def constant(value, steps):
    return torch.full((steps,), float(value), dtype=torch.float64)


def statuses(preference, values, start):
    """The verdict after each step from the given one on."""
    steer = train(preference, values[:start])
    found = []
    for row in values[start:]:
        steer(row.clone().requires_grad_())
        found.append(steer.report().status)
    return found


@pytest.mark.parametrize("start", [10.0, 1e3, 1e6])
def test_a_fast_descent_to_twice_the_bound_is_never_met(start):
    """Sizes and standard errors that remembered the start would excuse it."""
    values = pairs(torch.cat([constant(start, 30), constant(1.0, 600)]))
    assert set(statuses(BELOW, values, 30)) <= {"not_met", "saturated"}


@pytest.mark.parametrize("preference", [BELOW, Preference(f, [f.a == 0.4]), Preference(f, [f.a - f.b == -0.6])])
@pytest.mark.parametrize("start", [10.0, 1e3, 1e6])
def test_what_has_come_to_rest_is_met_a_bounded_time_later_however_far_the_start_was(preference, start):
    """Forgetting by a share at each step takes longer the farther the start was: 4,000 steps for a million."""
    values = pairs(torch.cat([constant(start, 30), constant(0.4, 700)]))
    assert train(preference, values).report().status == "met"


@pytest.mark.slow
def test_the_figures_of_a_run_that_came_to_rest_are_those_without_the_start():
    rest = 0.4 + noise(900, 0.02)
    (far,) = train(BELOW, pairs(torch.cat([1e4 * torch.exp(-torch.arange(200) / 20), rest]))).report().constraints
    (near,) = train(BELOW, pairs(rest)).report().constraints
    assert far.value == pytest.approx(near.value, abs=1e-3)
    assert far.standard_error == pytest.approx(near.standard_error, rel=0.3)
    assert far.swing < 0.02


STEPS = torch.arange(2000, dtype=torch.float64)
STATIONARY = {
    "white": noise(2000, 1.0),
    "outliers": noise(2000, 1.0) ** 3,
    "swing of 60": torch.sin(2 * math.pi * STEPS / 60),
    "swing of 200": torch.sin(2 * math.pi * STEPS / 200),
    "steady way": STEPS / 100,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STATIONARY)
def test_noise_swings_and_a_steady_way_are_not_begun_anew(name):
    steer = train(EQUAL, pairs(STATIONARY[name]))
    assert steer.get_buffer("record_updates").tolist() == [2000]


def test_a_value_that_leaves_its_bound_is_seen_at_once():
    values = pairs(torch.cat([constant(0.1, 460), constant(0.75, 40)]))
    assert set(statuses(BELOW, values, 460)) == {"not_met"}


@pytest.mark.slow
@pytest.mark.parametrize("size", [0.05, 0.2])
def test_the_luck_of_the_batches_takes_no_met_away(size):
    assert set(statuses(BELOW, pairs(0.3 + noise(1000, size)), 100)) == {"met"}


def test_the_tolerance_is_small_beside_a_bound_on_a_small_difference_of_large_losses():
    gap = Preference(f, [abs(f.a - f.b) <= 0.05])
    assert train(gap, [[5.11, 5.0]] * 50).report().status == "not_met"
    assert train(gap, [[5.11, 5.0]] * 50).metrics()["ferero/merit"] > 1
    assert train(gap, [[5.0504, 5.0]] * 50).report().status == "met"  # a hundredth of the bound is allowed
    assert train(Preference(f, [f.a - f.b == 0.5]), [[304.5, 300.0]] * 50).report().status == "not_met"
    assert train(EQUAL, [[303.0, 300.0]] * 50).report().status == "met"  # no bound but 0: a hundredth of the largest
    assert train(EQUAL, [[304.0, 300.0]] * 50).report().status == "not_met"
    assert train(BELOW, [[0.5049, 1.0]] * 50).report().status == "met"
    assert train(BELOW, [[0.506, 1.0]] * 50).report().status == "not_met"


@pytest.mark.parametrize("noisy", [0.0, 0.1, 1.0])
def test_0_0156_does_not_pass_for_0_01(noisy):
    values = 0.0156 * (1 + noisy * noise(400, 1.0))
    report = train(Preference(f, [f.a <= 0.01], minimize=f.b), pairs(values)).report()
    assert report.status in ("not_met", "saturated")


def test_the_merit_of_a_far_start_is_that_of_the_present():
    """Relative to a size that remembers the start, twice the bound would be within a hundredth."""
    steer = train(BELOW, pairs(constant(1e3, 30)))
    for row in pairs(constant(1.0, 300)):
        steer(row.clone().requires_grad_())
        assert steer.metrics()["ferero/merit"] > 1.01


def test_luck_makes_no_checkpoint_feasible():
    """After a jump single batches are believed for a while, and one in four of these is below the bound."""
    steer = train(BELOW, pairs(constant(1e3, 30)))
    for row in pairs(0.56 * (1 + noise(600, 0.2))):
        steer(row.clone().requires_grad_())
        assert steer.metrics()["ferero/merit"] > 1


def test_the_merit_knows_what_was_just_observed():
    steer = train(BELOW, [[0.3, 1.0]] * 50)
    steer.observe(a=0.9)
    before = steer.metrics()["ferero/merit"]
    steer(torch.tensor([0.3, 1.0], requires_grad=True))
    assert before == pytest.approx(steer.metrics()["ferero/merit"]) == pytest.approx(1 + 0.4 / 0.5)


# losses that do not come ------------------------------------------------------------------------------------


def one(name, value=1.0):
    return {name: torch.tensor(value, requires_grad=True)}


def test_steps_are_counted_whichever_losses_they_bring():
    steer = Steer(EQUAL)
    for t in range(100):
        steer(one("ab"[t % 2]))
    assert steer.report().steps == 100
    assert steer.report().status == "met"
    assert steer.report().constraints[0].value == 0  # a row waits for all its losses


@pytest.mark.parametrize("constrained", ["a", "b"])
def test_a_loss_that_stopped_arriving_is_named(constrained):
    steer = Steer(Preference(f, [f[constrained] <= 2.0]))
    for _ in range(50):
        steer({**one("a"), **one("b")})
    for _ in range(100):
        steer(one("b"))
    assert steer.report().status == "met"  # as long as the verdict speaks of
    steer(one("b"))
    report = steer.report()
    assert (report.status, report.steps) == ("not_met", 151)
    assert "a has not arrived for 101 steps: showing its last known value." in report.advice
    steer(one("a"))
    assert steer.report().status == "met"


def test_a_loss_that_comes_rarely_has_not_stopped():
    steer = Steer(Preference(f, [f.a <= 2.0]))
    for t in range(1000):
        steer({**one("b"), **(one("a") if t % 150 == 0 else {})})
    assert steer.report().status == "met"


# advice -----------------------------------------------------------------------------------------------------


def test_a_preference_that_no_losses_can_meet_is_named():
    report = train(Preference(f, [f.a <= -1.0]), [[1.0, 1.0]] * 20).report()
    assert report.status == "not_met"
    assert report.advice.endswith("Note: no non-negative losses can meet 'a <= -1'.")
    met = train(Preference(f, [f.a <= -1.0]), [[-2.0, 1.0]] * 20).report()
    assert met.status == "met"
    assert "Note" not in met.advice
