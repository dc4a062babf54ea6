"""A method's own iteration and its step rules, by hand: Armijo's test, the lengths tried, and what is counted."""

import numpy as np
import pytest
import torch

import ferero
from ferero.methods import MGDA, Ferero, LinearScalarization, SmoothTchebycheff
from ferero.optimize._fixed_step import Backtracking, FixedStep, iterate
from ferero.preference import Preference


class Counting:
    """An evaluator that counts, with the Jacobian given."""

    gradient_cost = 0

    def __init__(self, fun, jac):
        self._fun, self._jac = fun, jac
        self.points, self.gradients = [], 0

    @property
    def m(self):
        return len(self._fun(self.points[0]))

    def losses(self, points):
        self.points.append(points[0].copy())
        return np.asarray(self._fun(points[0]), dtype=float)[None]

    def jacobians(self, runs):
        self.gradients += 1
        return self._jac(self.points[-1])[None]


def bowl(scale):
    return Counting(lambda x: np.array([scale * (x @ x)]), lambda x: 2 * scale * x[None])


def backtrack(evaluator, x, method=None, lower=None, rule=None):
    losses = evaluator._fun(x)
    m = len(losses)
    preference, method = Preference.pareto(m), method or LinearScalarization()
    J = evaluator._jac(x)
    observation = ferero.Observation(losses - (0 if lower is None else lower), J @ J.T)
    weights = method.update(preference, observation, method.init(preference))[0].weights.numpy()
    rule = rule or Backtracking(method, preference, np.zeros(m) if lower is None else lower)
    return rule(evaluator, x, losses, J, weights), rule


@pytest.mark.parametrize("scale", [1e-12, 1e-2, 1.0, 30.0, 1e12])
@pytest.mark.parametrize("start", [0.05, 0.26, 3.0])
def test_the_step_is_the_first_that_falls_by_a_tenth_of_the_promise(scale, start):
    evaluator, x = bowl(scale), np.array([start, 0.0])
    taken, _ = backtrack(evaluator, x)
    g = 2 * scale * start
    t, trials = 0.5 / g, 1  # half a unit of distance, whatever the gradient's size
    while scale * (start - t * g) ** 2 - scale * start**2 > -0.1 * t * g * g:
        t, trials = 0.3 * t, trials + 1
    assert taken.step == pytest.approx(t)
    assert taken.trials == trials == len(evaluator.points)
    assert taken.point.tolist() == pytest.approx([start - t * g, 0.0])
    assert taken.losses.tolist() == [scale * float(taken.point @ taken.point)]


def test_the_length_grows_only_after_a_step_that_fits_at_once():
    far, near = bowl(1.0), bowl(1.0)
    taken, rule = backtrack(far, np.array([100.0, 0.0]))
    assert taken.trials == 1
    backtrack(far, taken.point, rule=rule)
    assert np.linalg.norm(far.points[-1] - taken.point) == pytest.approx(2.5 * 0.5)
    taken, rule = backtrack(near, np.array([0.2, 0.0]))
    assert taken.trials == 2
    backtrack(near, np.array([50.0, 0.0]), rule=rule)
    assert np.linalg.norm(near.points[-1] - [50.0, 0.0]) == pytest.approx(0.3 * 0.5)


def two(shift=(0.0, 0.0)):
    centres = np.array([[1.0, 1.0], [-1.0, -1.0]])
    return Counting(lambda x: ((x - centres) ** 2).sum(axis=1) + np.asarray(shift), lambda x: 2 * (x - centres))


@pytest.mark.parametrize("method", [SmoothTchebycheff(0.3), MGDA("loss"), LinearScalarization()], ids=repr)
def test_what_is_below_the_losses_is_not_seen(method):
    shift, x = np.array([40.0, -7.0]), np.array([0.5, -0.2])
    plain, _ = backtrack(two(), x, method)  # the first loss rises, and only without its bound is it the larger
    shifted, _ = backtrack(two(shift), x, method, lower=shift)
    assert shifted.step == pytest.approx(plain.step)
    np.testing.assert_allclose(shifted.point, plain.point)


def test_it_gives_up_after_a_fixed_number_of_trials():
    wrong = Counting(lambda x: np.array([1.0 + abs(float(x[0]) - 1.0)]), lambda x: np.array([[1.0]]))  # never falls
    taken, _ = backtrack(wrong, np.array([1.0]))
    assert taken.step == 0
    assert len(wrong.points) == 60


def test_no_step_where_there_is_no_descent():
    flat = Counting(lambda x: np.array([1.0, 2.0]), lambda x: np.zeros((2, 2)))
    against = Counting(lambda x: np.array([1.0 + x[0], 1.0 - x[0]]), lambda x: np.array([[1.0], [-1.0]]))
    assert backtrack(flat, np.zeros(2))[0].step == 0
    assert backtrack(against, np.zeros(1), MGDA())[0].step == 0
    assert flat.points == against.points == []


@pytest.mark.parametrize("bottom", [-1e150, -np.inf, np.nan, np.inf])
def test_losses_without_measure_are_no_success(bottom):
    cliff = Counting(lambda x: np.array([x[0] if x[0] > 0.8 else bottom]), lambda x: np.array([[1.0]]))
    taken, _ = backtrack(cliff, np.array([1.0]))
    assert taken.losses.tolist() == pytest.approx([1.0 - 0.5 * 0.3])
    assert taken.trials == 2


# the iteration -------------------------------------------------------------------------------------------


def run(evaluator, rule, method, preference=None, lower=None, max_iter=7, is_optimal=lambda *_: False):
    rounds = []
    outcome = iterate(
        evaluator,
        np.array([3.0, -2.0]),
        preference or Preference.pareto(2),
        method,
        is_optimal,
        rule=rule,
        max_iter=max_iter,
        lower=np.zeros(2) if lower is None else lower,
        on_round=lambda record: bool(rounds.append(record)),
    )
    return outcome, rounds


@pytest.mark.parametrize("method", [SmoothTchebycheff(0.3), MGDA(), LinearScalarization()], ids=repr)
def test_calls_and_gradients_are_counted(method):
    for rule in (FixedStep(0.05), Backtracking(method, Preference.pareto(2), np.zeros(2))):
        for max_iter in (0, 7):
            evaluator = two()
            outcome, rounds = run(evaluator, rule, method, max_iter=max_iter)
            assert outcome.status == "max_iter"
            assert outcome.iterations == len(rounds) == max_iter
            assert outcome.evaluations == len(evaluator.points)
            assert outcome.gradient_evaluations == evaluator.gradients == max_iter + 1


def test_rounds_tell_the_distance_that_was_gone():
    for rule in (FixedStep(0.05), Backtracking(MGDA(), Preference.pareto(2), np.zeros(2))):
        _, rounds = run(two(), rule, MGDA())
        points = [np.array([3.0, -2.0]), *(record.point for record in rounds)]
        for record, before, after in zip(rounds, points[:-1], points[1:], strict=True):
            assert record.length == pytest.approx(np.linalg.norm(after - before))


def test_methods_see_the_losses_above_their_bounds():
    shift = np.array([-40.0, -30.0])
    plain, _ = run(two(), FixedStep(0.02), Ferero())
    shifted, _ = run(two(shift), FixedStep(0.02), Ferero(), lower=shift)
    np.testing.assert_allclose(shifted.point, plain.point, atol=1e-9)


def test_violations_are_those_of_the_losses_above_their_bounds():
    wanted, shift = Preference.parse("f1 <= 4; f2 <= 100", names=["f1", "f2"]), np.array([-40.0, -30.0])
    plain, shifted = (
        run(two(by), FixedStep(0.02), Ferero(bound=1.0), wanted, by, max_iter=2)[1] for by in (np.zeros(2), shift)
    )
    first = plain[0].violation
    assert first == pytest.approx((13 - 4) / (13 + 4))  # relative to |B||F| + |b|
    assert [r.violation for r in shifted] == pytest.approx([r.violation for r in plain])


def test_what_is_not_finite_ends_at_the_last_point_that_was():
    fun = lambda x: np.array([x @ x, 1.0]) if x[0] > 2 else np.array([np.nan, 1.0])  # noqa: E731
    evaluator = Counting(fun, lambda x: np.stack([2 * x, 0 * x]))
    outcome, rounds = run(evaluator, FixedStep(0.15), LinearScalarization())
    assert outcome.status == "non_finite"
    assert np.isfinite(outcome.losses).all()
    np.testing.assert_allclose(outcome.point, rounds[-1].point)
    np.testing.assert_allclose(outcome.losses, fun(outcome.point))


def test_auto_makes_each_merit_fall_at_every_step():
    x0 = torch.tensor([3.0, -2.0], dtype=torch.float64)
    centres = torch.tensor([[1.0, 1.0], [-1.0, -1.0]], dtype=torch.float64)
    for method in (SmoothTchebycheff(0.3), MGDA(), MGDA("l2"), LinearScalarization([1, 3])):
        p = Preference.pareto(2)
        r = ferero.minimize(lambda x: (x - centres).square().sum(dim=-1), x0, p, method=method, max_iter=30)
        assert r.status in ("converged", "max_iter", "stalled")
        losses = np.asarray(r.history.losses)
        assert (method.change(p, losses[:-1], losses[1:]) < 0).all()
        assert r.kkt.stationarity < 1e-3
