"""Ratios in training: the linear row is steered, the report speaks of the ratio, and of denominators below 0."""

import math

import pytest
import torch

import ferero
from ferero import Preference, Steer
from ferero.methods import Observation
from ferero.training._report import judge_losses

f = ferero.objectives("a", "b")
CORNERS = torch.tensor([[0.0, 0.0], [1.0, 0.0]])


def trained(preference, steps=800, noise=0.0, shift=0.0):
    draw, steer = torch.Generator().manual_seed(0), Steer(preference)
    x = torch.tensor([0.3, 0.7], requires_grad=True)
    optimizer = torch.optim.SGD([x], lr=0.02)
    for _ in range(steps):
        losses = (x - CORNERS).square().sum(dim=-1) * (1 + noise * torch.randn(2, generator=draw)) - shift
        optimizer.zero_grad()
        steer({"a": losses[0], "b": losses[1]}).backward()
        optimizer.step()
    return steer


@pytest.mark.parametrize(
    ("constraint", "ratio"),
    [(f.a / f.b == 0.5, 0.5), (f.a.log() - f.b.log() == math.log(0.5), 0.5), ((f.a + f.b) / (f.b + 0.1) == 1.4, None)],
    ids=str,
)
def test_a_ratio_is_met(constraint, ratio):
    steer = trained(Preference(f, [constraint]))
    a, b = steer.losses.tolist()
    assert steer.report().status == "met"
    assert a / b == pytest.approx(ratio, rel=1e-3) if ratio else (a + b) / (b + 0.1) == pytest.approx(1.4, rel=1e-3)


def test_weights_are_those_of_the_linear_row():
    one, other = trained(Preference(f, [f.a / f.b <= 0.5]), 100), trained(Preference(f, [f.a <= 0.5 * f.b]), 100)
    assert torch.equal(one.weights, other.weights)
    assert torch.equal(one.multipliers, other.multipliers)


def test_units_of_the_losses_do_not_matter():
    draw, method = torch.Generator().manual_seed(0), ferero.FereroPI()
    written = [Preference(f, [(f.a + f.b / u) / (f.b + u) <= 0.5 / u, f.a / f.b >= 0.1 / u]) for u in (1.0, 1e6)]
    states = [method.init(p) for p in written]
    for _ in range(100):
        losses, shares = torch.rand(2, generator=draw, dtype=torch.float64), []
        for i, unit in enumerate((1.0, 1e6)):
            units = torch.tensor([1.0, unit], dtype=torch.float64)
            decision, states[i] = method.update(written[i], Observation(losses * units), states[i])
            weights = decision.weights * units
            shares.append(weights / weights.abs().sum())
        torch.testing.assert_close(*shares, rtol=0, atol=1e-9)


def test_the_report_is_in_units_of_the_ratio():
    preference = Preference(f, [f.a / f.b <= 0.2], minimize=f.b)
    linear = Preference(f, [f.a <= 0.2 * f.b], minimize=f.b)
    (row,), (other,) = (trained(p, 200, noise=0.1).report().constraints for p in (preference, linear))
    b = trained(preference, 200, noise=0.1).losses[1].item()
    assert row.label == "a / b <= 0.2"
    for name in ("value", "standard_error", "allowed", "swing", "margin", "trend"):
        assert getattr(row, name) * b == pytest.approx(getattr(other, name))
    assert row.multiplier == pytest.approx(other.multiplier * b)
    assert row.allowed == pytest.approx(0.002, rel=0.2)  # a hundredth of the level
    assert row.status == other.status


def test_the_constant_of_a_denominator_is_no_bound():
    row = trained(Preference(f, [f.a / (f.b + 0.001) <= 0.5])).report().constraints[0]
    assert row.allowed == pytest.approx(0.005, rel=1e-2)


NEGATIVE = {"b": [f.a / f.b <= 2, f.a.log() - f.b.log() <= 2, f.b.log() <= 2], "b - a": [f.a / (f.b - f.a) == 1]}


@pytest.mark.parametrize(("what", "constraint"), [(key, c) for key, every in NEGATIVE.items() for c in every], ids=str)
def test_a_negative_denominator_is_told(what, constraint):
    controller = ferero.Controller(Preference(f, [constraint], minimize=f.a))
    for _ in range(5):
        controller.step({"a": 0.5, "b": -1.0})
    report = controller.report()
    assert report.status == "not_met"
    assert f"means the same only where {what} >= 0, and {what} is -" in report.advice
    assert f"'{what} >= 0'" in str(report)
    assert controller.metrics()["ferero/merit"] == math.inf
    status, advice = judge_losses(controller.preference, controller.losses, report)
    assert status == "not_met"
    assert "means the same only where" in advice


def test_a_row_pushes_its_denominator_above_zero():
    steer = trained(Preference(f, [f.a / f.b <= 2], minimize=f.b), 50, shift=torch.tensor([0.0, 2.0]))
    assert steer.losses[1] > 0  # it began at -1


def test_single_batches_below_zero_are_noise():
    steer = trained(Preference(f, [f.a / f.b == 0.5]), 500, noise=1.0)  # b of a batch is negative one time in six
    assert "means the same" not in str(steer.report())


@pytest.mark.slow
def test_the_linear_row_is_not_biased_by_noise():
    """The mean of a / b over batches would be: E[1 / b] is not 1 / E[b]."""
    draw, controller = torch.Generator().manual_seed(0), ferero.Controller(Preference(f, [f.a / f.b == 0.5]))
    a, b = torch.tensor(1.0), torch.tensor(2.0)
    ratios = []
    for _ in range(1500):
        noisy = torch.stack([a, b]) * (1 + 0.3 * torch.randn(2, generator=draw)).clamp(min=0.2)
        ratios.append(noisy[0] / noisy[1])
        controller.step(noisy.double())
    row = controller.report().constraints[0]
    assert torch.stack(ratios).mean() > 0.54
    assert abs(row.value) < 3 * row.standard_error
    assert row.standard_error < 0.02


# where there is no training -------------------------------------------------------------------------------


def fun(x):
    return (x - CORNERS.double()).square().sum(dim=-1)


X = torch.tensor([0.25, 0.75], dtype=torch.float64)


def test_minimize_finds_a_ratio():
    r = ferero.minimize(fun, X, Preference(f, [f.a / f.b == 0.5]))
    assert r.success
    assert float(r.losses[0] / r.losses[1]) == pytest.approx(0.5, rel=1e-6)
    assert ferero.certify(fun, r.x, r.preference, x0=X).worst < 1e-5


def test_minimize_does_not_claim_a_ratio_with_a_negative_denominator():
    def below(x):
        return fun(x) - torch.tensor([0.0, 2.0], dtype=x.dtype)

    p = Preference(f, [f.a / f.b >= -1], minimize=f.a)
    r = ferero.minimize(below, X, p, lower=-2.0)
    assert r.status == "unattainable"
    assert "'a / b >= -1' is steered as 'a >= -b', which means the same only where b >= 0, and b is" in r.message
    assert ferero.certify(below, r.x, p).feasibility == math.inf
    bounded = Preference(f, [f.a / f.b >= -1, f.b >= 0.1], minimize=f.a)
    assert ferero.minimize(below, X, bounded, lower=-2.0).success
