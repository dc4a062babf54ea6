import numpy as np
import pytest
import torch

import ferero
from ferero.errors import InputError, NonFiniteError, UnsupportedError
from ferero.methods import Observation
from ferero.methods._baselines.wc_mgda import WCMGDA, XWCMGDA
from ferero.preference import Preference
from ferero.subprogram._conic import maximize_gain, maximize_gain_batched
from ferero_lab.problems.exponential import Exponential

SOLVERS = ["exact", "batched"]
both = pytest.mark.parametrize("solver", SOLVERS)
either = pytest.mark.parametrize("maximize", [maximize_gain, maximize_gain_batched])


def decide(method, preference, losses, gramian):
    return method.update(preference, Observation(losses, gramian), method.init(preference))[0].weights


def draw(m, batch=(), seed=0):
    """Losses, gradients."""
    rng = np.random.default_rng([seed, m])
    return rng.uniform(0.2, 2.0, (*batch, m)), rng.standard_normal((*batch, m, m + 3))


def gram(J):
    return J @ np.swapaxes(J, -1, -2)


def solve(maximize, q, K, u):
    counts = torch.ones(1, len(q), dtype=torch.bool)
    u = torch.tensor([u], dtype=torch.float64)
    return maximize(torch.from_numpy(q)[None], torch.from_numpy(K)[None], u, counts)[0].numpy()


@either
@pytest.mark.parametrize("m", [1, 2, 3, 6, 10, 20])
def test_the_step_of_length_u_proves_alpha_optimal(m, maximize):
    for seed in range(10):
        q, J = draw(m, seed=seed)
        J = J / np.linalg.norm(J, axis=1).max()
        u = 10.0 ** np.random.default_rng(seed).uniform(-3, 1)
        alpha = solve(maximize, q, gram(J), u)
        assert (alpha >= 0).all()
        assert alpha.sum() == pytest.approx(1)
        combined = alpha @ J
        step = -u * combined / np.linalg.norm(combined)
        lower, upper = alpha @ q - u * np.linalg.norm(combined), (q + J @ step).max()
        assert upper - lower <= 1e-7 * (1 + u)  # weak duality: lower <= upper for every alpha and step


def by_clarabel(q, K, u):
    import clarabel
    from scipy import sparse

    m = len(q)
    values, vectors = np.linalg.eigh(K)
    root = (vectors * np.sqrt(values.clip(0))).T
    matrix = np.zeros((2 * m + 2, m + 1))
    matrix[0, :m], matrix[1 : m + 1, :m] = 1.0, -np.eye(m)
    matrix[m + 1, m], matrix[m + 2 :, :m] = -1.0, -root
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(m), clarabel.SecondOrderConeT(m + 1)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    nothing, constraints = sparse.csc_matrix((m + 1, m + 1)), sparse.csc_matrix(matrix)
    solver = clarabel.DefaultSolver(nothing, np.append(-q, u), constraints, np.eye(2 * m + 2)[0], cones, settings)
    return np.array(solver.solve().x)[:m]


@either
@pytest.mark.parametrize("is_stationary", [False, True])
def test_it_agrees_with_a_conic_solver(is_stationary, maximize):
    for m in (2, 3, 7):
        for seed in range(8):
            q, J = draw(m, seed=seed + 100)
            if is_stationary:
                J = J - np.random.default_rng(seed).dirichlet(np.ones(m)) @ J
            K = gram(J) / gram(J).diagonal().max()
            u = 10.0 ** np.random.default_rng(seed).uniform(-2, 1)
            alpha, reference = solve(maximize, q, K, u), by_clarabel(q, K, u)
            value, best = (x @ q - u * np.sqrt(max(x @ K @ x, 0.0)) for x in (alpha, reference))
            assert value >= best - 1e-6 * (1 + u)
            np.testing.assert_allclose(alpha, reference, atol=1e-4)


@both
def test_a_large_u_is_mgda_of_the_weighted_losses(solver):
    F, J = draw(4)
    r = np.array([0.1, 0.2, 0.3, 0.4])
    shortest = ferero.solve_subprogram(Preference.pareto(4), F, gram(J * r[:, None]), domain="simplex")
    shares = shortest.weights.numpy()
    weights = decide(WCMGDA(u=1e6, solver=solver), Preference.from_weights(r), F, gram(J))
    np.testing.assert_allclose(weights, r * shares / (r * shares).sum(), atol=1e-5)


@both
def test_a_small_u_is_tchebycheff(solver):
    weights = decide(WCMGDA(u=1e-6, solver=solver), Preference.ray([1.0, 2.0, 1.0]), [1.0, 2.2, 1.0], np.eye(3))
    np.testing.assert_allclose(weights, [0.0, 1.0, 0.0], atol=1e-9)


@both
def test_on_the_ray_it_is_mgda_whatever_u(solver):
    for u in (1e-3, 1.0, 1e3):
        weights = decide(WCMGDA(u=u, solver=solver), Preference.ray([1.0, 1.0]), [2.0, 2.0], np.diag([1.0, 3.0]))
        np.testing.assert_allclose(weights, [0.75, 0.25], atol=1e-9)


@both
def test_a_shift_of_losses_and_ray_changes_nothing(solver):
    F, J = draw(3)
    ray, z = [1.0, 2.0, 1.0], np.array([0.3, -5.0, 1.0])
    plain = decide(WCMGDA(solver=solver), Preference.ray(ray), F, gram(J))
    shifted = decide(XWCMGDA(solver=solver), Preference.ray(ray, through=z), F + z, gram(J))
    torch.testing.assert_close(shifted, plain, atol=1e-9, rtol=0)
    torch.testing.assert_close(decide(XWCMGDA(solver=solver), Preference.ray(ray), F, gram(J)), plain)


@both
def test_below_the_reference_it_still_decides(solver):
    preference = Preference.ray([1.0, 1.0], through=[2.0, 2.0])
    weights = decide(XWCMGDA(u=1e-4, solver=solver), preference, [1.5, 1.0], np.eye(2))
    np.testing.assert_allclose(weights, [1.0, 0.0], atol=1e-6)


@both
def test_common_units_do_not_matter(solver):
    F, J = draw(5)
    preference, method = Preference.ray([1.0, 2.0, 0.5, 1.0, 1.5]), WCMGDA(u=0.3, solver=solver)
    expected = decide(method, preference, F, gram(J))
    for losses, gradients in ((1e-8, 1.0), (1.0, 1e-10), (1e6, 1e8)):
        weights = decide(method, preference, losses * F, gradients**2 * gram(J))
        torch.testing.assert_close(weights, expected, atol=1e-8, rtol=0)


@both
@pytest.mark.parametrize("m", [1, 2, 5, 12])
def test_weights_are_on_the_simplex_and_permute_with_the_losses(m, solver):
    method, order = WCMGDA(u=0.3, solver=solver), np.random.default_rng(m).permutation(m)
    for seed in range(3):
        F, J = draw(m, seed=seed)
        ray = np.random.default_rng(seed).uniform(0.3, 1, m)
        weights = decide(method, Preference.ray(ray), F, gram(J))
        assert (weights >= 0).all()
        assert float(weights.sum()) == pytest.approx(1)
        permuted = decide(method, Preference.ray(ray[order]), F[order], gram(J[order]))
        torch.testing.assert_close(permuted, weights[order], atol=1e-8, rtol=0)


@both
def test_a_stack_and_leading_dimensions_equal_a_loop(solver):
    members = [
        Preference.ray([1.0, 2.0, 1.0]),
        Preference.ray([1.0, 1.0, 1.0], through=[0.1, 0.0, -1.0]),
        Preference.ray([3.0, 0.5, 1.0]),
    ]
    F, J = draw(3, (4, 3))
    together = decide(XWCMGDA(solver=solver), Preference.stack(members), F, gram(J))
    assert together.shape == (4, 3, 3)
    for i in range(4):
        for j, member in enumerate(members):
            alone = decide(XWCMGDA(solver=solver), member, F[i, j], gram(J[i, j]))
            torch.testing.assert_close(together[i, j], alone, atol=1e-8, rtol=0)


def test_both_solvers_agree_on_many():
    for m in (3, 8):
        F, J = draw(m, (20,))
        exact, batched = (decide(WCMGDA(u=0.2, solver=s), Preference.pareto(m), F, gram(J)) for s in SOLVERS)
        torch.testing.assert_close(exact, batched, atol=1e-8, rtol=0)


@both
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_have_the_losses_type_and_inputs_stay(dtype, solver):
    F, J = (torch.from_numpy(part).to(dtype) for part in draw(3))
    K = J @ J.T
    kept = F.clone(), K.clone()
    assert decide(WCMGDA(solver=solver), Preference.ray([1.0, 2.0, 1.0]), F, K).dtype == dtype
    assert torch.equal(F, kept[0])
    assert torch.equal(K, kept[1])


@both
def test_zeros_are_no_trouble(solver):
    for F in ([0.0, 1.0, 2.0], [0.0, 0.0, 0.0], [-1.0, 1.0, 1.0]):
        for K in (np.zeros((3, 3)), np.diag([0.0, 1.0, 1.0]), np.eye(3)):
            weights = decide(WCMGDA(solver=solver), Preference.ray([1.0, 1.0, 2.0]), F, K)
            assert weights.isfinite().all()
            assert float(weights.sum()) == pytest.approx(1)
    assert decide(WCMGDA(solver=solver), Preference.ray([0.0, 1.0]), [1.0, 1.0], np.eye(2)).tolist() == [1.0, 0.0]
    uniform = decide(WCMGDA(solver=solver), Preference.pareto(3), [1.0, 1.0, 1.0], np.zeros((3, 3)))
    np.testing.assert_allclose(uniform, np.full(3, 1 / 3), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("m", [2, 3, 8])
def test_no_value_is_looked_at_away_from_the_cpu(m):
    F, J = (torch.from_numpy(part).to("meta") for part in draw(m, (2,)))  # a look at them would raise
    assert decide(XWCMGDA(solver="batched"), Preference.pareto(m), F, J @ J.mT).shape == (2, m)


def test_they_declare_themselves():
    shifted = Preference.ray([1.0, 2.0], through=[1.0, 0.0])
    for method in (WCMGDA(), XWCMGDA()):
        assert method.requires == {"losses", "gramian"}
        assert not method.has_merit
        assert method.understands(Preference.ray([1.0, 2.0])) is None
        assert method.understands(Preference.pareto(2)) is None
        with pytest.raises(UnsupportedError, match=f"{type(method).__name__} knows no constraint"):
            method.init(Preference.parse("f1 <= 0.5; f2 <= 1"))
    assert XWCMGDA().understands(shifted) is None
    assert "WCMGDA knows rays from the origin only" in WCMGDA().understands(shifted)


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="u: expected a positive finite number, found 0"):
        WCMGDA(u=0)
    with pytest.raises(InputError, match='solver: expected "exact" or "batched", found \'pgd\''):
        XWCMGDA(solver="pgd")
    ray = Preference.ray([1.0, 1.0])
    with pytest.raises(InputError, match="WCMGDA reads gramian, found None"):
        WCMGDA().update(ray, Observation([1.0, 1.0]), WCMGDA().init(ray))
    with pytest.raises(NonFiniteError, match="losses: expected finite numbers"):
        decide(WCMGDA(), ray, [np.inf, 1.0], np.eye(2))


def quadratics(x):
    return torch.stack([(x - 1).square().sum(), 2 * (x + 1).square().sum()])


@pytest.mark.parametrize("ray", [[1.0, 1.0], [1.0, 2.0], [3.0, 1.0]])
def test_it_ends_on_the_ray_of_a_convex_front(ray):
    x0 = torch.tensor([2.0, -0.5, 0.4], dtype=torch.float64)
    result = ferero.minimize(quadratics, x0, Preference.ray(ray), method=WCMGDA(), step=0.02, max_iter=300)
    assert float(ferero.ray_error(result.losses, ray)) < 0.1
    assert result.kkt.stationarity < 1e-5


def test_it_ends_on_a_shifted_ray():
    ray, z = [1.0, 1.0], [0.5, -1.0]
    x0 = torch.tensor([2.0, -0.5, 0.4], dtype=torch.float64)
    preference = Preference.ray(ray, through=z)
    result = ferero.minimize(quadratics, x0, preference, method=XWCMGDA(), step=0.02, max_iter=300)
    assert float(ferero.ray_error(result.losses, ray, through=z)) < 0.5
    assert result.kkt.stationarity < 1e-3


@pytest.mark.parametrize("ray", [[1.0, 2.0], [3.0, 1.0]])
def test_it_ends_on_the_ray_of_a_concave_front(ray):
    x0 = torch.linspace(-0.3, 0.3, 20, dtype=torch.float64)
    result = ferero.minimize(Exponential(), x0, Preference.ray(ray), method=WCMGDA(), step=0.1, max_iter=300)
    assert float(ferero.ray_error(result.losses, ray)) < 0.5
    assert result.kkt.stationarity < 1e-2


def test_on_the_front_it_stops_within_u_of_the_ray():
    ray, x0 = [1.0, 2.0], torch.full((3,), 0.7, dtype=torch.float64)  # on the front, far from the ray
    errors = []
    for u in (0.03, 0.1):
        result = ferero.minimize(quadratics, x0, Preference.ray(ray), method=WCMGDA(u=u), step=0.02, max_iter=300)
        errors.append(float(ferero.ray_error(result.losses, ray)))
    assert errors[0] < errors[1] < 5.0
