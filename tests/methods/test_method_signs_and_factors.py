"""What single wrong signs, factors and masks in the methods would change; each test names one."""

from itertools import pairwise

import numpy as np
import pytest
import torch

import ferero
from ferero.errors import InputError
from ferero.methods import (
    EPO,
    MGDA,
    XWCMGDA,
    Ferero,
    FereroQG,
    FereroSA,
    Observation,
    SmoothTchebycheff,
    Tchebycheff,
)
from ferero.preference import Preference

SOLVERS = ["exact", "batched"]
both = pytest.mark.parametrize("solver", SOLVERS)
WANTED = Preference.parse("f1 <= 0.5; f1 - f2 == 0.25; f3 >= 0", names=["f1", "f2", "f3"])


def float64(values):
    return torch.tensor(np.asarray(values), dtype=torch.float64)


def once(method, preference, losses, gramian=None):
    return method.update(preference, Observation(losses, gramian), method.init(preference))[0].weights


def draw(m, seed, n=None):
    rng = np.random.default_rng([seed, m])
    J = rng.standard_normal((m, n or m + 2))
    return rng.uniform(0.2, 2.0, m), J @ J.T


# the learned gramian -------------------------------------------------------------------------------------


def learn(method, preference, losses, gramian, steps):
    """The states at one fixed point, where slopes are those of the weights just given."""
    decision, state = method.update(preference, Observation(losses), method.init(preference))
    states = [state]
    for _ in range(steps):
        observation = Observation(losses, slopes=-gramian @ decision.weights)
        decision, state = method.update(preference, observation, state)
        states.append(state)
    return decision, states


def test_every_pair_is_reproduced_not_only_the_first():
    F, K = torch.ones(3).double(), float64([[3.0, 0.3, 0.1], [0.3, 2.5, -0.2], [0.1, -0.2, 3.5]])  # nothing is clipped
    _, states = learn(FereroQG(damping=1.0), Preference.pareto(3), F, K, 4)
    for before, after in pairwise(states):
        torch.testing.assert_close(after.estimate @ before.weights, K @ before.weights, rtol=1e-9, atol=0)


def test_the_first_miss_is_all_news():
    F, K = float64([1.0, 2.0, 0.5]), float64([[4.0, 0.3, 0.1], [0.3, 2.0, -0.2], [0.1, -0.2, 9.0]])
    judged, given = (learn(method, WANTED, F, K, 1)[1][-1] for method in (FereroQG(), FereroQG(damping=1.0)))
    torch.testing.assert_close(judged.estimate, given.estimate)


def test_each_kind_of_constraint_has_its_own_rate():
    F, K = float64([0.9, 0.4, 0.7]), float64(draw(3, 4)[1])
    settings = {"c_g": 0.3, "c_h": 1.7, "domain": "simplex", "bound": 50.0}
    learned = K @ learn(FereroQG(**settings), WANTED, F, K, 200)[0].weights
    known = K @ once(Ferero(**settings), WANTED, F, K)
    assert float(learned @ known / (learned.norm() * known.norm())) == pytest.approx(1, abs=1e-6)


def test_units_are_the_first_sizes_for_good():
    method, state = FereroQG(), FereroQG().init(WANTED)
    for F in ([1.0, -2.0, 0.0], [0.1, 5.0, 0.25], [3.0, 0.5, 7.0]):
        _, state = method.update(WANTED, Observation(F, slopes=[-1.0, 0.5, 0.2]), state)
    assert state.units.tolist() == [1.0, 2.0, 0.25]  # the third had no size at first


# scalarizations ------------------------------------------------------------------------------------------


def test_a_loss_that_went_missing_keeps_its_lowest_value():
    method, state = Tchebycheff(ideal="tracked"), Tchebycheff(ideal="tracked").init(Preference.pareto(2))
    for F, present in (([2.0, 3.0], None), ([1.0, -9.0], [True, False])):
        _, state = method.update(Preference.pareto(2), Observation(F, present=present), state)
    assert state.lowest.tolist() == [1.0, 3.0]


@pytest.mark.parametrize("change", [-45.0, -5.0, -0.3, 0.3, 5.0, 45.0])
def test_a_common_change_changes_the_smooth_merit_by_itself(change):
    F = np.array([1.0, 0.7, -0.4])
    found = SmoothTchebycheff(0.2).change(Preference.pareto(3), F, F + 3 * 0.2 * change)
    assert float(found) == pytest.approx(0.2 * change, rel=1e-12)


# mgda ----------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("normalize", ["loss", "loss+"])
def test_a_loss_of_zero_has_no_unit(normalize, solver):
    F, K = np.array([0.0, 1.0, 0.5]), draw(3, 1)[1]
    wanted = once(MGDA(normalize, solver), Preference.pareto(3), F, K)
    found = once(MGDA(normalize, solver), Preference.pareto(3), 1e-13 * F, K)
    torch.testing.assert_close(1e-13 * found, wanted, rtol=1e-6, atol=1e-9)


def test_a_gradient_of_zero_counts_as_long_as_the_longest():
    weights = once(MGDA("l2"), Preference.pareto(2), [1.0, 1.0], np.diag([1e10, 0.0]))
    assert weights.tolist() == pytest.approx([0.0, 1e-5], abs=1e-12)


def test_dividing_by_small_losses_stays_within_half_precision():
    F, K = float64([2e-4, 1e-3]), float64([[4.0, -1.0], [-1.0, 1.0]])
    found = once(MGDA("loss"), Preference.pareto(2), F.half(), K.half())
    torch.testing.assert_close(found.double(), once(MGDA("loss"), Preference.pareto(2), F, K), rtol=5e-3, atol=0)


# epo -----------------------------------------------------------------------------------------------------


@both
def test_balance_never_lets_the_largest_rise_nor_any_where_none_is_served(solver):
    alone = 0
    for seed in range(160):
        F, K = draw(3, seed, n=2)
        weights = once(EPO(solver=solver), Preference.pareto(3), F, K).numpy()
        falls, size = K @ weights, 1e-9 * np.abs(K).max()
        p = F / F.sum()
        toward = K @ (np.log(3 * p) - p @ np.log(3 * p))
        assert falls[F.argmax()] >= -size
        if toward.max() <= 0:
            alone += 1
            assert falls.min() >= -size
    assert alone >= 5


@both
def test_at_zero_losses_it_is_as_on_the_ray(solver):
    K = np.diag([1.0, 2.0, 5.0])
    preference, method = Preference.ray([1.0, 2.0, 4.0]), EPO(solver=solver)
    at_zero, state = method.update(preference, Observation([0.0] * 3, K), method.init(preference))
    assert (float(state.nonuniformity), bool(state.is_balancing)) == (0.0, False)
    torch.testing.assert_close(at_zero.weights, once(method, preference, [1.0, 2.0, 4.0], K))


# weighted Chebyshev --------------------------------------------------------------------------------------


@both
def test_below_the_reference_units_do_not_matter_either(solver):
    F, K = draw(3, 3)
    preference, method = Preference.pareto(3), XWCMGDA(u=0.3, solver=solver)
    wanted = once(method, preference, -F, K)
    for unit in (1e-6, 1e6):
        torch.testing.assert_close(once(method, preference, -unit * F, K), wanted, atol=1e-8, rtol=0)


@both
@pytest.mark.parametrize("u", [1e-3, 1.0, 1e3])
def test_a_loss_without_weight_takes_no_share(solver, u):
    method = XWCMGDA(u=u, solver=solver)
    for z in ([0.0, 0.0], [0.0, 2.0]):  # above and below where the ray starts
        assert once(method, Preference.ray([1.0, 0.0], through=z), [1.0, 1.0], np.eye(2)).tolist() == [0.0, 1.0]


# the single loop -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", ["adaptive", "simplex"])
def test_many_steps_with_all_kinds_of_rows_by_hand(domain):
    from scipy.optimize import brentq

    rng = np.random.default_rng(0)
    A, B_g, B_h = np.abs(rng.standard_normal((4, 3))), rng.standard_normal((2, 3)), rng.standard_normal((1, 3))
    b_g, b_h = rng.standard_normal(2), rng.standard_normal(1)
    preference = Preference.from_matrices(A=A, B_g=B_g, b_g=b_g, B_h=B_h, b_h=b_h)
    method = FereroSA(gamma=0.3, c_g=0.7, c_h=1.9, bound=0.4, domain=domain)
    state, last = method.init(preference), None
    for _ in range(8):
        F, slopes = rng.uniform(0, 1, 3) * 10.0 ** rng.uniform(-4, 0, 3), rng.standard_normal(3)
        decision, state = method.update(preference, Observation(F, slopes=slopes), state)
        if last is None:
            f, g, h = np.full(4, 0.25 if domain == "simplex" else 1.0), np.zeros(2), np.zeros(1)
        else:
            f = f + 0.3 * A @ slopes
            g = (g + 0.3 * (0.7 * (B_g @ last + b_g) + B_g @ slopes)).clip(0, 0.4)
            h = (h + 0.3 * (1.9 * (B_h @ last + b_h) + B_h @ slopes)).clip(-0.4, 0.4)
        a = A @ F if domain == "adaptive" else np.ones(4)
        b = a.sum() if domain == "adaptive" else 1.0
        t = brentq(lambda t, f=f, a=a, b=b: a @ (f - t * a).clip(0) - b, -1e9, 1e9, xtol=1e-14)
        f, last = (f - t * a).clip(0), F
        np.testing.assert_allclose(decision.weights, A.T @ f + B_g.T @ g + B_h.T @ h, rtol=0, atol=1e-6)
        f = decision.multipliers[:4].numpy()


@pytest.mark.parametrize("method", [FereroSA(), FereroQG()], ids=repr)
def test_slopes_of_another_batch_are_refused_and_those_of_missing_losses_not_read(method):
    preference = Preference.pareto(2)
    _, state = method.update(preference, Observation(np.ones((3, 2))), method.init(preference))
    with pytest.raises(
        InputError, match=r"slopes: expected the batch dimensions of the losses, \(3,\), .* found \(4,\)"
    ):
        method.update(preference, Observation(np.ones((3, 2)), slopes=np.ones((4, 2))), state)
    _, state = method.update(preference, Observation([1.0, 1.0]), method.init(preference))
    decision, _ = method.update(preference, Observation([1.0, 1.0], None, [-1.0, np.nan], [True, False]), state)
    assert decision.weights.isfinite().all()


@pytest.mark.parametrize("solver", ["exact", "batched"])
@pytest.mark.parametrize("u", [0.03, 0.3, 3.0])
def test_fewer_parameters_than_losses(solver, u):
    """Rank-deficient gramians, where a piece of the search has no end."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        J = rng.standard_normal((6, 2))
        method, preference = ferero.WCMGDA(u=u, solver=solver), ferero.Preference.pareto(6)
        observation = ferero.Observation(rng.uniform(0.1, 1, 6), J @ J.T)
        weights = method.update(preference, observation, method.init(preference))[0].weights
        assert bool(weights.isfinite().all())
        assert float(weights.sum()) == pytest.approx(1)


def test_gramian_methods_refuse_missing_losses():
    preference = ferero.Preference.pareto(2)
    observation = ferero.Observation([1.0, 2.0], np.eye(2), present=[True, False])
    for method in (ferero.Ferero(), ferero.MGDA(), ferero.EPO(), ferero.PMTL(), ferero.WCMGDA()):
        with pytest.raises(ferero.FereroError, match=r"present: .* needs the gradient of every loss"):
            method.update(preference, observation, method.init(preference))
