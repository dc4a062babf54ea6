import dataclasses
import io

import numpy as np
import pytest
import torch

import ferero
from ferero.errors import InputError, NonFiniteError, UnsupportedError
from ferero.methods import Observation
from ferero.methods._baselines.epo import EPO, EPOState
from ferero.preference import Preference
from ferero_lab.bench.golden import golden

SOLVERS = ["exact", "batched"]
both = pytest.mark.parametrize("solver", SOLVERS)


def decide(method, preference, losses, gramian):
    return method.update(preference, Observation(losses, gramian), method.init(preference))


def draw(m, batch=(), seed=0):
    rng = np.random.default_rng([seed, m])
    J = rng.standard_normal((*batch, m, m + 3))
    return rng.uniform(0.2, 2.0, (*batch, m)), J @ np.swapaxes(J, -1, -2)


@both
def test_it_moves_as_the_released_code_does(solver):
    for case in golden("epo"):
        preference = Preference.from_weights(case["r"])
        decision, state = decide(EPO(solver=solver), preference, case["losses"], case["gramian"])
        assert bool(state.is_balancing) == (case["move"] == "bal")
        assert float(state.nonuniformity) == pytest.approx(case["nonuniformity"], abs=1e-10)
        np.testing.assert_allclose(decision.weights, case["weights"], atol=1e-5)


def test_adjustments_are_those_of_the_released_code():
    from ferero.methods._baselines.epo import _adjustment

    for case in golden("epo"):
        r, F = (torch.tensor(case[name], dtype=torch.float64) for name in ("r", "losses"))
        mu, a = _adjustment(r, r * F, 2e-16)
        assert float(mu) == pytest.approx(case["nonuniformity"], abs=1e-10)
        np.testing.assert_allclose(a, case["adjustment"], atol=1e-10)


@both
def test_balance_takes_the_loss_that_is_too_large(solver):
    decision, state = decide(EPO(solver=solver), Preference.ray([1.0, 1.0, 1.0]), [3.0, 1.0, 1.0], np.eye(3))
    assert decision.weights.tolist() == [1.0, 0.0, 0.0]
    assert bool(state.is_balancing)


@both
def test_dominance_lets_no_loss_rise(solver):
    for seed in range(20):
        F, K = draw(4, seed=seed)
        decision, state = decide(EPO(solver=solver), Preference.ray(F), F, K)
        assert not bool(state.is_balancing)
        slopes = -K @ decision.weights.numpy()
        assert (slopes <= 1e-9 * np.abs(K).max()).all()


@both
def test_dominance_that_asks_too_much_falls_back_on_the_relaxed_form(solver):
    rng, gave_up = np.random.default_rng(3), 0
    for _ in range(100):
        J = rng.standard_normal((4, 3))
        K, F = J @ J.T, 1.0 + 1e-3 * rng.standard_normal(4)
        strict, relaxed = (
            decide(EPO(tolerance=0.1, relax=relax, solver=solver), Preference.ray(np.ones(4)), F, K)[0].weights
            for relax in (False, True)
        )
        logs = np.log(F / F.mean())
        aim = K @ (logs - (F / F.sum()) @ logs)
        assert (K @ strict.numpy() >= -1e-8).all()
        if aim @ strict.numpy() < min(aim.max(), 0) - 1e-6 * np.abs(aim).max():
            gave_up += 1
            torch.testing.assert_close(strict, relaxed)
    assert 0 < gave_up < 100


@both
@pytest.mark.parametrize("m", [1, 2, 5, 12])
def test_weights_are_on_the_simplex_and_permute_with_the_losses(m, solver):
    method, order = EPO(solver=solver), np.random.default_rng(m).permutation(m)
    for seed in range(5):
        F, K = draw(m, seed=seed)
        ray = np.random.default_rng(seed).uniform(0.3, 1, m)
        weights = decide(method, Preference.ray(ray), F, K)[0].weights
        assert (weights >= 0).all()
        assert float(weights.sum()) == pytest.approx(1)
        permuted = decide(method, Preference.ray(ray[order]), F[order], K[np.ix_(order, order)])[0].weights
        torch.testing.assert_close(permuted, weights[order], atol=1e-9, rtol=0)


@both
def test_common_units_do_not_matter(solver):
    F, K = draw(5)
    preference = Preference.ray([1.0, 2.0, 0.5, 1.0, 1.5])
    expected = decide(EPO(solver=solver), preference, F, K)[0].weights
    for losses, gradients in ((1e-8, 1.0), (1.0, 1e-10), (1e6, 1e8)):
        weights = decide(EPO(solver=solver), preference, losses * F, gradients**2 * K)[0].weights
        torch.testing.assert_close(weights, expected, atol=1e-9, rtol=0)


@both
def test_a_stack_and_leading_dimensions_equal_a_loop(solver):
    members = [Preference.ray(ray) for ray in ([1.0, 2.0, 1.0], [1.0, 1.0, 1.0], [3.0, 0.5, 1.0])]
    F, K = draw(3, (4, 3))
    F[1, 1] = 0.7  # on the ray: both moves in one batch
    method = EPO(solver=solver)
    together, state = decide(method, Preference.stack(members), F, K)
    assert together.weights.shape == (4, 3, 3)
    assert state.is_balancing.shape == state.nonuniformity.shape == (4, 3)
    assert not state.is_balancing[1, 1]
    for i in range(4):
        for j, member in enumerate(members):
            alone, alone_state = decide(method, member, F[i, j], K[i, j])
            torch.testing.assert_close(together.weights[i, j], alone.weights, atol=1e-9, rtol=0)
            assert state.is_balancing[i, j] == alone_state.is_balancing


def test_both_solvers_agree_on_many():
    F, K = draw(6, (50,))
    exact, batched = (decide(EPO(solver=solver), Preference.pareto(6), F, K)[0].weights for solver in SOLVERS)
    torch.testing.assert_close(exact, batched, atol=1e-9, rtol=0)


@both
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_have_the_losses_type(dtype, solver):
    F, K = (torch.from_numpy(part).to(dtype) for part in draw(3))
    kept = F.clone(), K.clone()
    decision, state = decide(EPO(solver=solver), Preference.ray([1.0, 2.0, 1.0]), F, K)
    assert decision.weights.dtype == dtype
    assert state.nonuniformity.dtype == torch.float64
    assert torch.equal(F, kept[0])
    assert torch.equal(K, kept[1])


@both
def test_zeros_are_no_trouble(solver):
    for F in ([0.0, 1.0, 2.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]):
        for K in (np.zeros((3, 3)), np.diag([0.0, 1.0, 1.0]), np.eye(3)):
            weights = decide(EPO(solver=solver), Preference.ray([1.0, 1.0, 2.0]), F, K)[0].weights
            assert weights.isfinite().all()
            assert float(weights.sum()) == pytest.approx(1)


def test_no_value_is_looked_at_away_from_the_cpu():
    F, K = (torch.from_numpy(part).to("meta") for part in draw(3, (2,)))  # a look at them would raise
    decision, state = decide(EPO(solver="batched"), Preference.ray([1.0, 2.0, 1.0]), F, K)
    assert decision.weights.device.type == state.is_balancing.device.type == "meta"
    assert decision.weights.shape == (2, 3)


def test_the_state_survives_saving():
    _, state = decide(EPO(), Preference.ray([1.0, 1.0]), [2.0, 1.0], np.eye(2))
    buffer = io.BytesIO()
    torch.save(dataclasses.asdict(state), buffer)
    buffer.seek(0)
    loaded = EPOState(**torch.load(buffer, weights_only=True))
    assert torch.equal(loaded.nonuniformity, state.nonuniformity)
    assert bool(loaded.is_balancing)
    assert not bool(EPO().init(Preference.ray([1.0, 1.0])).is_balancing)


def test_it_declares_itself():
    method = EPO()
    assert method.requires == {"losses", "gramian"}
    assert not method.has_merit
    assert method.understands(Preference.ray([1.0, 2.0])) is None
    assert method.understands(Preference.pareto(2)) is None
    assert "EPO knows rays from the origin only" in method.understands(Preference.ray([1.0, 2.0], through=[1.0, 0.0]))
    with pytest.raises(UnsupportedError, match="EPO knows no constraint"):
        method.init(Preference.parse("f1 <= 0.5; f2 <= 1"))


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="tolerance: expected a positive finite number, found 0"):
        EPO(tolerance=0)
    with pytest.raises(InputError, match='solver: expected "exact" or "batched", found \'pgd\''):
        EPO(solver="pgd")
    ray = Preference.ray([1.0, 1.0])
    with pytest.raises(InputError, match=r"losses: EPO compares .* must not be negative, found -1; subtract"):
        decide(EPO(), ray, [-1.0, 1.0], np.eye(2))
    with pytest.raises(InputError, match="EPO reads gramian, found None"):
        EPO().update(ray, Observation([1.0, 1.0]), EPO().init(ray))
    with pytest.raises(NonFiniteError, match="gramian: expected finite numbers"):
        decide(EPO(), ray, [1.0, 1.0], [[np.nan, 0.0], [0.0, 1.0]])
    with pytest.raises(InputError, match="gramian: expected a symmetric matrix"):
        decide(EPO(), ray, [1.0, 1.0], [[1.0, 0.5], [0.0, 1.0]])


@pytest.mark.parametrize("ray", [[1.0, 1.0], [1.0, 2.0], [3.0, 1.0]])
def test_it_ends_on_the_ray_and_on_the_front(ray):
    def fun(x):
        return torch.stack([(x - 1).square().sum(), (x + 1).square().sum()])

    x0 = torch.tensor([2.0, -0.5, 0.4], dtype=torch.float64)
    result = ferero.minimize(fun, x0, Preference.ray(ray), method=EPO(), step=0.01, max_iter=600)
    assert float(ferero.ray_error(result.losses, ray)) < 1.0
    assert result.kkt.stationarity < 0.01


def test_a_ray_with_zeros_is_refused():
    assert "make every entry positive" in (EPO().understands(Preference.ray([0.0, 1.0])) or "")
