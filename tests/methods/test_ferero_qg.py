import dataclasses
import io

import numpy as np
import pytest
import torch

from ferero.errors import InputError, NonFiniteError
from ferero.methods import Ferero, FereroSA, Observation
from ferero.methods._ferero_qg import FereroQG, FereroQGState, _by_sign, positive_part
from ferero.preference import Preference
from ferero_lab.bench.methods.learned_gramian import NoiseCase, measure_errors
from ferero_lab.problems.exponential import Exponential

WANTED = Preference.parse("f1 <= 0.5; f1 - f2 == 0.25; f3 >= 0", names=["f1", "f2", "f3"])
METHODS = [FereroQG(), FereroQG(domain="adaptive", damping=0.3), FereroQG(bound=None, solver="batched")]


def float64(values):
    return torch.tensor(np.asarray(values), dtype=torch.float64)


def run(method, preference, observations):
    state, decisions = method.init(preference), []
    for observation in observations:
        decision, state = method.update(preference, observation, state)
        decisions.append(decision)
    return decisions, state


def feed(method, preference, losses, gramian, steps):
    """Asks at one fixed point, where slopes are those of the weights just given."""
    decision, state = method.update(preference, Observation(losses), method.init(preference))
    for _ in range(steps):
        slopes = -(gramian @ decision.weights.double()[..., None])[..., 0]
        decision, state = method.update(preference, Observation(losses, slopes=slopes), state)
    return decision, state


def draw(seed, m=3, n=5):
    rng = np.random.default_rng(seed)
    J = rng.standard_normal((m, n))
    return float64(rng.uniform(0.2, 1.0, m)), float64(J @ J.T)


def test_the_first_step_is_uniform_and_needs_no_slopes():
    F, _ = draw(0)
    (simplex,), _ = run(FereroQG(), WANTED, [Observation(F)])
    (adaptive,), _ = run(FereroQG(domain="adaptive"), WANTED, [Observation(F)])
    assert simplex.weights.tolist() == pytest.approx([1 / 3] * 3)
    assert adaptive.weights.tolist() == [1.0, 1.0, 1.0]


def test_one_pair_is_reproduced_exactly():
    F, K = torch.ones(3).double(), float64([[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 1.8]])
    w = torch.full((3,), 1 / 3, dtype=torch.float64)
    _, state = run(FereroQG(damping=1.0), WANTED, [Observation(F), Observation(F, slopes=-K @ w)])
    torch.testing.assert_close(state.estimate @ w, K @ w)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("domain", ["simplex", "adaptive"])
def test_at_rest_it_solves_the_true_subprogram(seed, domain):
    F, K = draw(seed)
    decision, _ = feed(FereroQG(domain=domain, bound=50.0), WANTED, F, K, 200)
    known, _ = Ferero(domain=domain, bound=50.0).update(WANTED, Observation(F, gramian=K), Ferero().init(WANTED))
    ours, theirs = K @ decision.weights, K @ known.weights
    cosine = ours @ theirs / (ours.norm() * theirs.norm())
    assert float(cosine) == pytest.approx(1, abs=1e-6)  # weights are shortened where constraints crowd them
    assert float(ours.norm() / theirs.norm()) <= 1 + 1e-3


def test_weights_are_bounded_by_the_objective_part():
    rng = np.random.default_rng(2)
    for method in METHODS:
        state = method.init(WANTED)
        for _ in range(40):
            observation = Observation(rng.uniform(0.1, 2, 3), slopes=10 * rng.standard_normal(3))
            decision, state = method.update(WANTED, observation, state)
            unit, lam_f = state.units, state.multipliers[:3]
            assert float(decision.weights.abs() @ unit) <= float(lam_f @ unit) * (1 + 1e-9)
            assert torch.linalg.eigvalsh(state.estimate)[0] >= -1e-9 * state.estimate.trace()


def test_weights_are_those_of_the_multipliers():
    F, K = draw(3)
    decision, _ = feed(FereroQG(), WANTED, F, K, 5)
    rows = torch.cat([WANTED.A, WANTED.B_g, WANTED.B_h])
    torch.testing.assert_close(rows.T @ decision.multipliers, decision.weights)


@pytest.mark.parametrize("method", METHODS)
def test_permuted_losses_have_permuted_weights(method):
    order = [2, 0, 1]
    matrices = {"A": torch.eye(3), "B_g": [[1.0, 0.0, 0.0]], "b_g": [-0.5], "B_h": [[1.0, -1.0, 0.5]], "b_h": [-0.25]}
    moved = {k: torch.as_tensor(v)[:, order] if k in ("B_g", "B_h") else v for k, v in matrices.items()}
    F, K = draw(4)
    one, _ = feed(method, Preference.from_matrices(**matrices), F, K, 10)
    other, _ = feed(method, Preference.from_matrices(**moved), F[order], K[order][:, order], 10)
    torch.testing.assert_close(one.weights[order], other.weights, rtol=1e-7, atol=1e-9)


def test_scale_of_the_gradients_does_not_matter_without_constraints():
    F, K = draw(5)
    preference = Preference.pareto(3)
    usual, _ = feed(FereroQG(), preference, F, K, 6)
    for factor in (1e-20, 1e20):
        scaled, _ = feed(FereroQG(), preference, F, factor * K, 6)
        torch.testing.assert_close(scaled.weights, usual.weights, rtol=1e-6, atol=1e-9)


def test_units_of_the_losses_do_not_matter():
    F, K = draw(6)
    units = float64([1e-3, 1.0, 1e4])
    A = torch.eye(3).double()
    one = Preference.from_matrices(A=A, B_h=[[1.0, -1.0, 0.5]], b_h=[-0.25])
    other = Preference.from_matrices(A=A / units, B_h=float64([[1.0, -1.0, 0.5]]) / units, b_h=[-0.25])
    first, _ = feed(FereroQG(), one, F, K, 6)
    second, _ = feed(FereroQG(), other, F * units, K * units[:, None] * units, 6)
    torch.testing.assert_close(first.weights, second.weights * units, rtol=1e-6, atol=1e-9)


def test_a_stack_equals_a_loop():
    rng = np.random.default_rng(7)
    members = [
        WANTED,
        Preference.pareto(3),
        Preference.ray([1.0, 2.0, 1.0]),
        Preference.from_matrices(A=[[1.0, 1.0, 1.0]]),
    ]
    F, slopes = rng.uniform(0.2, 1, (5, 4, 3)), rng.standard_normal((5, 4, 3))
    for solver in ("exact", "batched"):
        method = FereroQG(solver=solver)
        steps = [Observation(f, slopes=s) for f, s in zip(F, slopes, strict=True)]
        together, _ = run(method, Preference.stack(members), steps)
        for i, member in enumerate(members):
            alone, _ = run(method, member, [Observation(f[i], slopes=s[i]) for f, s in zip(F, slopes, strict=True)])
            for a, b in zip(together, alone, strict=True):
                torch.testing.assert_close(a.weights[i], b.weights, rtol=1e-6, atol=1e-8)


def test_leading_dimensions_and_solvers_agree():
    rng = np.random.default_rng(8)
    F, slopes = rng.uniform(0.2, 1, (4, 2, 5, 3)), rng.standard_normal((4, 2, 5, 3))
    steps = [Observation(f, slopes=s) for f, s in zip(F, slopes, strict=True)]
    exact, _ = run(FereroQG(solver="exact"), WANTED, steps)
    batched, _ = run(FereroQG(solver="batched"), WANTED, steps)
    for i in range(2):
        for j in range(5):
            alone, _ = run(
                FereroQG(), WANTED, [Observation(f[i, j], slopes=s[i, j]) for f, s in zip(F, slopes, strict=True)]
            )
            for a, b, c in zip(exact, batched, alone, strict=True):
                torch.testing.assert_close(a.weights[i, j], c.weights)
                torch.testing.assert_close(b.weights[i, j], c.weights, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_one_loss(method):
    decision, _ = feed(method, Preference.pareto(1), float64([2.0]), float64([[4.0]]), 5)
    assert decision.weights.tolist() == pytest.approx([1.0])


@pytest.mark.parametrize("method", METHODS)
def test_finite_without_gradients_and_at_zero_losses(method):
    F, nothing = float64([1.0, 0.0, 0.5]), torch.zeros(3, 3).double()
    decision, state = feed(method, WANTED, F, nothing, 4)
    assert decision.weights.isfinite().all()
    decision, _ = method.update(WANTED, Observation(F, slopes=[-1.0, -0.5, 0.2]), state)
    assert decision.weights.isfinite().all()
    assert float(decision.weights.abs().sum()) > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_weights_have_the_losses_type(dtype):
    F, K = draw(9)
    decision, state = feed(FereroQG(), WANTED, F.to(dtype), K, 3)
    assert decision.weights.dtype == dtype
    assert all(getattr(state, field.name).dtype == torch.float64 for field in dataclasses.fields(state))
    assert torch.equal(state.weights, decision.weights.double())  # slopes belong to what was returned


def test_nothing_is_changed_in_place():
    F, K = draw(10)
    _, state = feed(FereroQG(), WANTED, F, K, 3)
    kept = [getattr(state, field.name).clone() for field in dataclasses.fields(state)]
    observation = Observation(F.clone(), slopes=[-1.0, 0.5, 0.1])
    once, _ = FereroQG().update(WANTED, observation, state)
    twice, _ = FereroQG().update(WANTED, observation, state)
    assert torch.equal(once.weights, twice.weights)
    assert torch.equal(observation.losses, F)
    for field, before in zip(dataclasses.fields(state), kept, strict=True):
        assert torch.equal(getattr(state, field.name), before)


def test_the_state_survives_saving():
    F, K = draw(11)
    _, state = feed(FereroQG(), WANTED, F, K, 3)
    buffer = io.BytesIO()
    torch.save(dataclasses.asdict(state), buffer)
    buffer.seek(0)
    loaded = FereroQGState(**torch.load(buffer, weights_only=True))
    later = Observation(F, slopes=[-1.0, -1.0, 0.0])
    assert torch.equal(
        FereroQG().update(WANTED, later, state)[0].weights, FereroQG().update(WANTED, later, loaded)[0].weights
    )


def test_missing_losses_do_what_was_expected():
    F, K = draw(12)
    method = FereroQG()
    decision, state = feed(method, WANTED, F, K, 3)
    units = state.units
    expected = -(state.estimate * units[:, None] * units) @ decision.weights
    partial = Observation(
        torch.where(float64([1, 0, 1]) > 0, F, 5.0),
        slopes=torch.where(float64([1, 0, 1]) > 0, -K @ decision.weights, 7.0),
        present=[True, False, True],
    )
    whole = Observation(F, slopes=torch.where(float64([1, 0, 1]) > 0, -K @ decision.weights, expected))
    a, _ = method.update(WANTED, partial, state)
    b, _ = method.update(WANTED, whole, state)
    torch.testing.assert_close(a.weights, b.weights)


def test_the_sign_iteration_gives_the_positive_part():
    rng = np.random.default_rng(13)
    M = float64(rng.standard_normal((6, 20, 20)))
    M = M + M.mT
    size = torch.linalg.matrix_norm(M, ord=2)
    worst = torch.linalg.matrix_norm(_by_sign(M) - positive_part(M), ord=2) / size
    assert float(worst.max()) < 1e-3
    assert torch.equal(_by_sign(torch.zeros(2, 2).double()), torch.zeros(2, 2).double())


def test_damping_follows_the_misses():
    rng = np.random.default_rng(14)
    F, K = draw(14)
    method, state = FereroQG(), FereroQG().init(WANTED)
    decision, state = method.update(WANTED, Observation(F), state)
    for _ in range(200):
        noise = float64(rng.standard_normal((3, 3)))
        slopes = -(K + 0.5 * noise @ K @ noise.T / 3) @ decision.weights + 0.3 * noise[0]
        decision, state = method.update(WANTED, Observation(F, slopes=slopes), state)
    assert float(state.miss.square().sum() / state.spread) < 0.3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("method", [FereroSA(gamma=0.1), FereroQG(solver="batched")], ids=["single loop", "learned"])
def test_on_a_gpu_the_same_without_waiting(method):
    rng = np.random.default_rng(16)
    F, slopes = float64(rng.uniform(0.2, 1, (6, 3))), float64(rng.standard_normal((6, 3)))
    expected, _ = run(method, WANTED, [Observation(f, slopes=s) for f, s in zip(F, slopes, strict=True)])
    steps = [Observation(f, slopes=s) for f, s in zip(F.cuda(), slopes.cuda(), strict=True)]
    decision, state = method.update(WANTED, steps[0], method.init(WANTED))
    torch.cuda.set_sync_debug_mode("error")
    try:
        for step in steps[1:]:
            decision, state = method.update(WANTED, step, state)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(decision.weights.cpu(), expected[-1].weights, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("noise", "bar"), [(0.0, 0.05), (0.3, 1.0)])
def test_it_ends_on_the_ray(noise, bar):
    errors = measure_errors(NoiseCase(Exponential(), noise, 0.1), FereroQG(), rays=8)
    assert errors.median < bar


def test_it_declares_itself():
    assert FereroQG.requires == {"losses", "slopes"}
    assert not FereroQG.has_merit
    assert FereroQG().understands(WANTED) is None


def test_bad_settings_are_refused():
    for name in ("c_g", "c_h", "bound"):
        with pytest.raises(InputError, match=rf"{name}: expected a positive finite number, found -1"):
            FereroQG(**{name: -1})
    with pytest.raises(InputError, match=r"damping: expected a number in \(0, 1\], or None to judge it, found 2"):
        FereroQG(damping=2)
    with pytest.raises(InputError, match=r'domain: expected "adaptive" or "simplex"'):
        FereroQG(domain="box")
    with pytest.raises(InputError, match=r'solver: expected "auto", "exact" or "batched", found \'qp\''):
        FereroQG(solver="qp")


def test_bad_observations_are_refused():
    F, K = draw(15)
    method = FereroQG()
    _, state = feed(method, WANTED, F, K, 1)
    with pytest.raises(InputError, match=r"observation: FereroQG reads slopes, found None"):
        method.update(WANTED, Observation(F), state)
    with pytest.raises(NonFiniteError, match=r"slopes: expected finite numbers"):
        method.update(WANTED, Observation(F, slopes=[np.inf, 0.0, 0.0]), state)
    adaptive = FereroQG(domain="adaptive")
    with pytest.raises(InputError, match=r"losses: the adaptive domain needs A F >= 0"):
        adaptive.update(WANTED, Observation([-1.0, 2.0, 0.0]), adaptive.init(WANTED))
