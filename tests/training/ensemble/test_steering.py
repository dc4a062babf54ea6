"""The weights of K models from one batched method are those that K steers give."""

from __future__ import annotations

import pytest
import torch
from tests.training.ensemble.alone import BOUND, CPU, ORDER, OTHER_RAY, RAY

import ferero
from ferero.errors import UnsupportedError
from ferero.training.ensemble.steering import Steering

PREFERENCES = [RAY, BOUND, ORDER, OTHER_RAY]


def losses(step, count=4):
    generator = torch.Generator().manual_seed(step)
    return 0.5 + torch.rand(count, 3, generator=generator, dtype=torch.float64) / (1 + step)


def steer_each(steers, F):
    return torch.stack(
        [(steer(row.requires_grad_()), steer.weights.clone())[1] for steer, row in zip(steers, F, strict=True)]
    )


@pytest.mark.parametrize("is_observed", [False, True], ids=["alone", "observed"])
def test_weights_losses_and_reports_are_those_of_each(is_observed):
    steering = Steering(PREFERENCES, ferero.FereroPI(), CPU)
    steers = [ferero.Steer(preference) for preference in PREFERENCES]
    for step in range(120):
        found = steering.update(losses(step), None)
        torch.testing.assert_close(found, steer_each(steers, losses(step)), rtol=1e-9, atol=1e-10)
        if is_observed and step % 30 == 20:
            measured = 1.2 * losses(step)
            steering.observe(measured, torch.ones(3, dtype=torch.bool))
            for steer, row in zip(steers, measured, strict=True):
                steer.observe(**dict(zip("abc", row, strict=True)))
    for k, (report, steer) in enumerate(zip(steering.reports(), steers, strict=True)):
        torch.testing.assert_close(steering.losses[k], steer.losses, rtol=1e-9, atol=1e-10)
        torch.testing.assert_close(steering.multipliers(k), steer.multipliers, rtol=1e-9, atol=1e-10)
        wanted = steer.report()
        assert report.status == wanted.status
        assert report.advice == wanted.advice
        assert report.steps == wanted.steps == 120
        assert [row.label for row in report.constraints] == [row.label for row in wanted.constraints]
        for row, other in zip(report.constraints, wanted.constraints, strict=True):
            for figure in ("value", "standard_error", "margin", "multiplier", "trend"):
                assert getattr(row, figure) == pytest.approx(getattr(other, figure), rel=1e-8, abs=1e-10), figure


@pytest.mark.parametrize("first", [0, 3], ids=["from the start", "later"])
def test_a_model_that_is_not_finite_keeps_its_state_and_weighs_nothing(first):
    for method in (ferero.FereroPI(), ferero.Tchebycheff(), ferero.SmoothTchebycheff()):
        preferences = [RAY, OTHER_RAY, RAY]
        steering, sound = Steering(preferences, method, CPU), Steering(preferences, method, CPU)
        for step in range(first):
            steering.update(losses(step, 3), None)
            sound.update(losses(step, 3), None)
        before = steering.state_dict()
        bad = losses(9, 3)
        bad[1, 2] = torch.nan
        found, wanted = steering.update(bad, None), sound.update(losses(9, 3), None)
        assert found[1].tolist() == [0.0, 0.0, 0.0]
        assert torch.equal(found[[0, 2]], wanted[[0, 2]])
        after, other = steering.state_dict(), sound.state_dict()
        for name, tensor in after.items():
            if tensor.shape[:1] == (3,) and name != "record_skipped":
                assert torch.equal(tensor[1], before[name][1]), name
                assert torch.equal(tensor[0], other[name][0]), name
        assert after["record_skipped"].tolist() == [0.0, 1.0, 0.0]
        assert steering.is_good.tolist() == [True, False, True]
        assert [report.skipped for report in steering.reports()] == [0, 1, 0]


def test_what_a_step_did_is_learned_of_those_who_took_it():
    steering = Steering([RAY, RAY], ferero.FereroSA(), CPU)
    steering.update(losses(0, 2), None)
    steering.learn_slopes(torch.full((2, 3), 2.0, dtype=torch.float64))
    bad = losses(1, 2)
    bad[0] = torch.inf
    steering.update(bad, None)
    steering.learn_slopes(torch.full((2, 3), 7.0, dtype=torch.float64))
    assert steering.slopes[:, 0].tolist() == [2.0, 7.0]


def test_a_gramian_that_solvers_could_not_square_is_not_finite():
    steering = Steering([RAY, RAY], ferero.Ferero(), CPU)
    gramian = torch.eye(3, dtype=torch.float64).repeat(2, 1, 1)
    gramian[0] *= 1e200
    assert steering.update(losses(0, 2), gramian)[0].tolist() == [0.0, 0.0, 0.0]
    assert steering.is_good.tolist() == [False, True]


def test_measured_values_that_are_not_finite_are_left_out():
    steering = Steering([RAY, RAY], ferero.FereroPI(), CPU)
    measured = torch.full((2, 3), 0.7, dtype=torch.float64)
    measured[0, 1] = torch.nan
    steering.observe(measured, torch.ones(3, dtype=torch.bool))  # before the first step there is nothing to correct
    assert steering.state_dict()["correction_observed"].sum() == 0
    steering.update(losses(0, 2), None)
    steering.observe(measured, torch.tensor([True, True, False]))
    assert steering.state_dict()["correction_observed"].tolist() == [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    torch.testing.assert_close(steering.losses[1, :2], measured[1, :2])


@pytest.mark.parametrize("method", [ferero.FereroPI(), ferero.LinearScalarization()], ids=["FereroPI", "LS"])
def test_it_goes_on_where_another_was(method):
    one, other = Steering([RAY, OTHER_RAY], method, CPU), Steering([RAY, OTHER_RAY], method, CPU)
    for step in range(5):
        one.update(losses(step, 2), None)
    other.load_state_dict(one.state_dict())
    assert torch.equal(one.update(losses(7, 2), None), other.update(losses(7, 2), None))
    for k in range(2):
        a, b = one.multipliers(k), other.multipliers(k)
        assert (a is None) == (b is None)
        assert a is None or torch.equal(a, b)


def test_every_preference_must_be_understood():
    with pytest.raises(UnsupportedError, match="Tchebycheff"):
        Steering([RAY, BOUND], ferero.Tchebycheff(), CPU)
