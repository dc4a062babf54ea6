"""The verdict on losses measured on all data: within the tolerance, within noise, or not."""

from __future__ import annotations

import pytest
import torch

import ferero
from ferero.training._report import ConstraintReport, Report, judge_losses

f = ferero.objectives("a", "b")
PREFERENCE = ferero.Preference(f, [f.a <= 1.0, f.b - f.a == 0.5])


def report(status="met", errors=(0.0, 0.0)):
    rows = tuple(ConstraintReport("x", 0.0, error, 0.01, 0.0, 0.0, 0.0, False, 0.0, "met", "") for error in errors)
    return Report(status, "of the report", rows, {}, 100, 0)


def judge(losses, *args, preference=PREFERENCE):
    return judge_losses(preference, torch.tensor(losses, dtype=torch.float64), report(*args))


def test_met():
    assert judge([1.0, 1.5]) == ("met", "Met. Nothing to do.")
    assert judge([1.008, 1.504], "oscillating")[0] == "met"  # a hundredth of 1 and of 0.5 is allowed


@pytest.mark.parametrize("seen", ["met", "met_within_noise", "not_met"])
def test_off_by_less_than_the_noise_or_by_more(seen):
    status, advice = judge([1.05, 1.55], seen, (0.06, 0.0))
    assert status == "met_within_noise"
    assert advice.startswith("a <= 1: Met, within batch noise")
    status, advice = judge([1.1, 1.6], seen, (0.01, 0.5))
    assert status == "not_met"
    assert advice.startswith("a <= 1: Not met yet.")
    assert judge([1.1, 1.6], seen, (0.5, 0.0))[0] == "not_met"  # noise excuses a twentieth at most


@pytest.mark.parametrize("seen", ["saturated", "oscillating"])
def test_the_report_knows_why(seen):
    assert judge([3.0, 3.5], seen)[0] == seen


def test_the_worst_is_named():
    assert judge([1.1, 9.0])[1].startswith("b - a == 0.5: ")


def test_without_constraints_the_report_speaks():
    assert judge([3.0, 4.0], "met", (), preference=ferero.Preference(f)) == ("met", "of the report")


def test_the_tolerance_is_small_beside_the_bound():
    gap = ferero.Preference(f, [f.a - f.b <= 0.05])
    assert judge([5.11, 5.0], "met", (0.0,), preference=gap)[0] == "not_met"
    assert judge([5.06, 5.0], "met", (0.02,), preference=gap)[0] == "not_met"
    assert judge([5.052, 5.0], "met", (0.02,), preference=gap)[0] == "met_within_noise"
    assert judge([5.0504, 5.0], "met", (0.0,), preference=gap)[0] == "met"
