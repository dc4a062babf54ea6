import dataclasses

import numpy as np
import pytest
import torch
from scipy.optimize import minimize as scipy_minimize

import ferero
from ferero.errors import InputError, NonFiniteError, UnsupportedError
from ferero.methods import Observation
from ferero.methods._baselines.mgda import MGDA
from ferero.preference import Preference
from ferero_lab.bench.golden import golden
from ferero_lab.problems.exponential import Exponential

NORMALIZATIONS = [None, "l2", "loss", "loss+"]
every_normalization = pytest.mark.parametrize("normalize", NORMALIZATIONS)
every_solver = pytest.mark.parametrize("solver", ["exact", "batched"])
GOLDEN = [
    instance
    for instance in golden("subprograms")
    if instance["domain"] == "simplex"
    and not instance["b_g"]
    and not instance["b_h"]
    and np.array_equal(instance["A"], np.eye(len(instance["losses"])))
]


def draw(m, seed=0, batch=(), n=7):
    rng = np.random.default_rng(seed)
    J = rng.standard_normal((*batch, m, n)) * 10 ** rng.uniform(-1, 1, (*batch, m, 1))
    return rng.uniform(0.1, 2, (*batch, m)), J @ J.swapaxes(-1, -2)


def once(method, F, K, preference=None):
    preference = preference or Preference.pareto(np.shape(F)[-1])
    return method.update(preference, Observation(F, K), method.init(preference))[0]


def test_there_are_golden_ones():
    assert len(GOLDEN) >= 3


@every_solver
def test_golden_slopes(solver):
    for instance in GOLDEN:
        K = np.array(instance["gramian"])
        slopes = -K @ once(MGDA(solver=solver), instance["losses"], K).weights.numpy()
        wanted = np.array(instance["slopes"])
        assert np.linalg.norm(slopes - wanted) <= 1e-7 * np.linalg.norm(wanted)


def test_two_gradients_by_hand():
    F, K = [2.0, 0.5], [[4.0, -1.0], [-1.0, 1.0]]
    assert once(MGDA(), F, K).weights.tolist() == pytest.approx([2 / 7, 5 / 7])
    # unit gradients: half of both; over the losses: squares 1 and 4, product -1; over both: 1/4 and 4, product -1/2
    assert once(MGDA("l2"), F, K).weights.tolist() == pytest.approx([0.25, 0.5])
    assert once(MGDA("loss"), F, K).weights.tolist() == pytest.approx([5 / 7 / 2, 2 / 7 / 0.5])
    assert once(MGDA("loss+"), F, K).weights.tolist() == pytest.approx([6 / 7 / 4, 1 / 7 / 0.5])


@every_solver
@every_normalization
@pytest.mark.parametrize("m", [2, 3, 6])
def test_against_scipy(solver, normalize, m):
    for seed in range(5):
        F, K = draw(m, seed)
        norms = np.sqrt(np.diag(K))
        sizes = {None: np.ones(m), "l2": norms, "loss": F, "loss+": F * norms}[normalize]
        Q = K / np.outer(sizes, sizes)
        found = once(MGDA(normalize, solver), F, K)
        lam = found.weights.numpy() * sizes
        assert lam.sum() == pytest.approx(1)
        assert lam.min() >= -1e-12
        answer = scipy_minimize(
            lambda x, Q=Q: x @ Q @ x / Q.max(),
            np.full(m, 1 / m),
            jac=lambda x, Q=Q: 2 * Q @ x / Q.max(),
            bounds=[(0, 1)] * m,
            constraints={"type": "eq", "fun": lambda x: x.sum() - 1, "jac": np.ones_like},
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert lam @ Q @ lam <= answer.x @ Q @ answer.x * (1 + 1e-7)
        assert (Q @ lam >= lam @ Q @ lam * (1 - 1e-7)).all()  # the optimality conditions


@every_normalization
def test_no_loss_rises(normalize):
    for seed in range(20):
        F, K = draw(4, seed)
        slopes = -K @ once(MGDA(normalize), F, K).weights.numpy()
        assert slopes.max() <= 0


def test_normalised_by_the_norms_the_direction_has_no_units():
    F, K = draw(3)
    units = np.array([1e-6, 1.0, 1e8])
    wanted = once(MGDA("l2"), F, K).weights.numpy()
    found = once(MGDA("l2"), F * units, K * np.outer(units, units)).weights.numpy()
    assert found * units == pytest.approx(wanted, rel=1e-9)


def test_a_cone_combines_its_rows():
    A = np.array([[1.0, 0.5], [0.0, 1.0], [1.0, 0.0]])
    F, K = draw(2)
    found = once(MGDA(), F, K, Preference.from_matrices(A=A))
    lam = found.multipliers.numpy()
    assert found.weights.numpy() == pytest.approx(A.T @ lam)
    Q = A @ K @ A.T
    assert (Q @ lam >= lam @ Q @ lam * (1 - 1e-9)).all()


@every_solver
@every_normalization
def test_a_batch_equals_a_loop(solver, normalize):
    F, K = draw(3, batch=(4, 2))
    stack = Preference.stack([Preference.pareto(3)] * 2)
    together = once(MGDA(normalize, solver), F, K, stack).weights
    assert together.shape == (4, 2, 3)
    for i in np.ndindex(4, 2):
        alone = once(MGDA(normalize, solver), F[i], K[i]).weights
        torch.testing.assert_close(together[i], alone, rtol=1e-7, atol=1e-10)


@every_normalization
def test_permuted_losses_have_permuted_weights(normalize):
    F, K = draw(4)
    order = [2, 0, 3, 1]
    wanted = once(MGDA(normalize), F, K).weights.numpy()
    found = once(MGDA(normalize), F[order], K[np.ix_(order, order)]).weights.numpy()
    assert found == pytest.approx(wanted[order], rel=1e-7)


@every_solver
@every_normalization
def test_zeros_stay_finite(solver, normalize):
    method = MGDA(normalize, solver)
    zero = once(method, [1.0, 2.0], np.zeros((2, 2)))
    assert zero.weights.isfinite().all()
    assert zero.weights.sum() > 0
    K = np.diag([4.0, 0.0, 1.0])
    resting = once(method, [1.0, 0.0, 2.0], K).weights
    assert resting.isfinite().all()
    assert np.abs(K @ resting.numpy()).max() <= 1e-9
    for losses in ([0.0, 1.0], [0.0, 0.0]):
        weights = once(method, losses, [[1.0, -0.5], [-0.5, 2.0]]).weights
        assert weights.isfinite().all()
        assert (weights >= 0).all()


def test_a_loss_of_zero_is_kept_from_rising_by_its_limit():
    K = np.array([[1.0, -0.5], [-0.5, 2.0]])
    at_zero = once(MGDA("loss"), [0.0, 1.0], K).weights.numpy()
    near_zero = once(MGDA("loss"), [1e-7, 1.0], K).weights.numpy()
    assert at_zero == pytest.approx(near_zero, rel=1e-5)
    assert (-K @ at_zero)[0] == pytest.approx(0.0, abs=1e-6)


@every_normalization
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_weights_have_the_losses_type(normalize, dtype):
    F, K = (torch.tensor(x).to(dtype) for x in draw(3))
    decision = once(MGDA(normalize), F, K)
    assert decision.weights.dtype == dtype
    assert decision.multipliers.dtype == torch.float64


def test_nearly_singular_gramians_in_single_precision():
    J = torch.randn(4, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([[1e-3], [1.0], [10.0], [1e3]])
    F, K = torch.rand(4), J @ J.T
    for normalize in NORMALIZATIONS:
        assert once(MGDA(normalize), F, K).weights.isfinite().all()


@every_normalization
def test_inputs_are_untouched(normalize):
    F, K = (torch.tensor(x) for x in draw(3))
    kept = F.clone(), K.clone()
    method = MGDA(normalize)
    state = method.init(Preference.pareto(3))
    first, after = method.update(Preference.pareto(3), Observation(F, K), state)
    second, _ = method.update(Preference.pareto(3), Observation(F, K), state)
    assert torch.equal(first.weights, second.weights)
    assert torch.equal(F, kept[0])
    assert torch.equal(K, kept[1])
    assert (int(state.steps), int(after.steps)) == (0, 1)


@every_normalization
def test_one_loss(normalize):
    weights = once(MGDA(normalize), [2.0], [[9.0]]).weights
    assert weights.tolist() == pytest.approx([{None: 1, "l2": 1 / 3, "loss": 1 / 2, "loss+": 1 / 6}[normalize]])


def test_changes_are_those_of_the_worst_row():
    before, after = [[1.0, 2.0], [1.0, 2.0]], [[0.5, 1.75], [0.5, 2.25]]
    assert MGDA().change(Preference.pareto(2), before, after).tolist() == [-0.25, 0.25]
    cone = Preference.from_matrices(A=[[1.0, 1.0]])
    assert MGDA().change(cone, before, after).tolist() == [-0.75, -0.25]
    stack = Preference.stack([Preference.pareto(2), cone])  # the cone's second row is padding
    assert MGDA().change(stack, before, after).tolist() == [-0.25, -0.25]


def test_it_declares_itself():
    method = MGDA()
    assert method.requires == {"losses", "gramian"}
    assert method.has_merit
    cone = Preference.pareto(2, cone=ferero.Cone([[1.0, 0.5], [0.0, 1.0]]))
    assert method.understands(Preference.pareto(2)) is method.understands(cone) is None
    assert MGDA("l2").understands(Preference.from_matrices(A=np.eye(2))) is None
    assert "would change the cone" in MGDA("l2").understands(cone)
    assert "knows no constraints" in method.understands(Preference.ray([1.0, 1.0]))
    with pytest.raises(UnsupportedError, match="knows no constraints"):
        method.init(Preference.ray([1.0, 1.0]))
    with pytest.raises(dataclasses.FrozenInstanceError):
        method.normalize = "l2"
    assert hash(MGDA("l2")) == hash(MGDA("l2"))


def test_bad_input_is_refused():
    with pytest.raises(InputError, match=r'normalize: expected None, "l2", "loss" or "loss\+", found \'l1\''):
        MGDA("l1")
    with pytest.raises(InputError, match="solver: expected one of"):
        MGDA(solver="simplex")
    with pytest.raises(InputError, match="MGDA reads gramian, found None"):
        once(MGDA(), [1.0, 2.0], None)
    with pytest.raises(InputError, match=r'losses: normalize="loss" divides by the losses, .* found -2'):
        once(MGDA("loss"), [1.0, -2.0], np.eye(2))
    with pytest.raises(NonFiniteError, match="gramian: expected finite numbers"):
        once(MGDA("l2"), [1.0, 2.0], [[np.inf, 0.0], [0.0, 1.0]])


@every_normalization
def test_it_ends_pareto_stationary(normalize):
    centres = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.5]], dtype=torch.float64)
    x0 = torch.tensor([2.0, 2.0, -1.0], dtype=torch.float64)
    r = ferero.minimize(
        lambda x: (x - centres).square().sum(dim=-1), x0, Preference.pareto(3), method=MGDA(normalize), step=0.1
    )
    assert r.status == "converged"
    assert r.kkt.stationarity <= 1e-6
    problem = Exponential()
    x0 = problem.starts("easy", 1, torch.Generator().manual_seed(0))[0]
    r = ferero.minimize(problem, x0, Preference.pareto(2), method=MGDA(normalize), step=0.05, max_iter=2000)
    assert r.status == "converged"
    assert float(problem.distance_to_front(r.losses[None])) <= 1e-4
