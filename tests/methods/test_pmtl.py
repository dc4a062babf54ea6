import dataclasses
import io

import numpy as np
import pytest
import torch
from scipy.optimize import minimize as scipy_minimize

import ferero
from ferero.errors import InputError, NonFiniteError, UnsupportedError
from ferero.methods import Observation
from ferero.methods._baselines.pmtl import PMTL, PMTLState
from ferero.preference import Preference, spread
from ferero_lab.bench.golden import golden
from ferero_lab.problems.exponential import Exponential

AXES = ((1.0, 0.0), (0.0, 1.0))
every_solver = pytest.mark.parametrize("solver", ["exact", "batched"])


def draw(m, seed=0, batch=(), n=8):
    rng = np.random.default_rng(seed)
    J = rng.standard_normal((*batch, m, n))
    return rng.uniform(0.1, 2, (*batch, m)), J @ J.swapaxes(-1, -2)


def once(method, preference, F, K, state=None):
    decision, state = method.update(preference, Observation(F, K), state or method.init(preference))
    return decision.weights, state


def arrived(*batch):
    """The state of the second phase."""
    return PMTLState(torch.zeros(batch, dtype=torch.float64), torch.ones(batch, dtype=torch.float64))


def faces_of(vectors, ray):
    """Row by row as the paper has them, without the ray's own."""
    vectors, ray = np.asarray(vectors, dtype=float), np.asarray(ray, dtype=float)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True) - ray / np.linalg.norm(ray)
    return unit[np.linalg.norm(unit, axis=1) > 1e-6]


def shortest(Q):
    """The least ``lam.Q lam`` over the simplex, by SciPy."""
    k = len(Q)
    answer = scipy_minimize(
        lambda x: x @ Q @ x,
        np.full(k, 1 / k),
        jac=lambda x: 2 * Q @ x,
        bounds=[(0, 1)] * k,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return answer.x


@every_solver
def test_golden_first_phases(solver):
    reached = 0
    for instance in golden("pmtl"):
        preference = Preference.ray(instance["reference_vectors"][instance["index"]])
        method = PMTL(instance["reference_vectors"], solver=solver)
        weights, state = once(method, preference, instance["losses"], instance["gramian"])
        assert bool(state.arrived) is (instance["active"] == 0)
        if instance["active"]:
            assert weights.numpy() == pytest.approx(np.array(instance["phase1_weights"]), abs=1e-6)
            reached += 1
    assert reached >= 15


@every_solver
@pytest.mark.parametrize("m", [2, 3, 6])
def test_the_first_phase_against_scipy(solver, m):
    several = 0
    for seed in range(12):
        F, K = draw(m, seed)
        vectors, ray = spread(m, 9).numpy(), np.roll(np.sort(F), seed)  # far from F as a rule
        S = faces_of(vectors, ray)
        S = S[S @ F > 0]
        weights, state = once(PMTL(vectors, solver=solver), Preference.ray(ray), F, K)
        assert bool(state.arrived) is (len(S) == 0)
        if len(S) == 1:
            assert weights.numpy() == pytest.approx(S[0], abs=1e-14)
        elif len(S) > 1:
            several += 1
            check_shortest(weights.numpy(), S, K)
    assert several >= 3


@every_solver
@pytest.mark.parametrize("m", [2, 3, 6])
def test_the_second_phase_against_scipy(solver, m):
    held = 0
    for seed in range(12):
        F, K = draw(m, seed)
        vectors, ray = spread(m, 9).numpy(), np.roll(np.sort(F), seed) if seed % 2 else F
        S = faces_of(vectors, ray)
        of_ray = S @ ray * np.linalg.norm(F) / np.linalg.norm(ray)
        S = S[of_ray / 20 <= S @ F]
        held += len(S) > 0
        weights, _ = once(PMTL(vectors, solver=solver), Preference.ray(ray), F, K, arrived())
        check_shortest(weights.numpy(), np.vstack([np.eye(m), S]), K)
    assert held >= 3


def check_shortest(weights, S, K):
    """The direction is the shortest of the rows' convex combinations."""
    lam = shortest(S @ K @ S.T)
    wanted = S.T @ lam
    gap = weights - wanted
    assert np.sqrt(gap @ K @ gap) <= 1e-5 * np.sqrt(np.trace(K))
    assert weights @ K @ weights <= wanted @ K @ wanted * (1 + 1e-7) + 1e-14 * np.trace(K)
    assert (S @ K @ weights >= weights @ K @ weights - 1e-8 * np.trace(K)).all()  # the optimality conditions


def test_the_faces_hold_back_only_what_is_at_them():
    K = np.eye(2)
    preference, method = Preference.ray([1.0, 1.0]), PMTL(AXES)
    # the face towards the second axis has the direction (1, 1 + sqrt(2)) in it
    face, row = np.array([1.0, 1 + 2**0.5]), np.array([-(2**-0.5), 1 - 2**-0.5])
    assert face @ row == pytest.approx(0, abs=1e-15)
    inside, _ = once(method, preference, face - [0.0, 0.3], K)
    assert inside.tolist() == pytest.approx([0.5, 0.5])
    at, _ = once(method, preference, face * (1 - 1e-5 * np.array([-1.0, 1.0])), K)
    check_shortest(at.numpy(), np.vstack([np.eye(2), row]), K)
    assert float(row @ at.numpy()) > 0  # away from the face
    assert at.tolist() != pytest.approx([0.5, 0.5])


def test_the_first_phase_ends_for_good_in_the_sector():
    preference, method = Preference.ray([1.0, 0.0]), PMTL(AXES)
    outside, inside = Observation([1.0, 2.0], np.eye(2)), Observation([2.0, 1.0], np.eye(2))
    first, state = method.update(preference, outside, method.init(preference))
    assert first.weights.tolist() == [-1.0, 1.0]
    assert (float(state.steps), float(state.arrived)) == (1.0, 0.0)
    second, state = method.update(preference, inside, state)
    assert second.weights.tolist() == pytest.approx([0.5, 0.5])
    third, state = method.update(preference, outside, state)
    assert (float(state.steps), float(state.arrived)) == (3.0, 1.0)
    # outside again: (0, 1), which is half of the row and half of the first loss's, is as short as they get
    check_shortest(third.weights.numpy(), np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 1.0]]), np.eye(2))


@pytest.mark.parametrize("warmup", [0, 1, 3])
def test_the_first_phase_ends_after_the_warmup(warmup):
    preference, method = Preference.ray([1.0, 0.0]), PMTL(AXES, warmup=warmup)
    state = method.init(preference)
    phases = []
    for _ in range(5):
        _, state = once(method, preference, [1.0, 2.0], np.eye(2), state)
        phases.append(bool(state.arrived))
    assert phases == [step >= warmup for step in range(5)]


def test_the_ray_itself_is_no_face():
    F, K = draw(3)
    vectors, ray = spread(3, 6), spread(3, 6)[2]
    without = torch.cat([vectors[:2], vectors[3:]])
    for own in (vectors, vectors.float(), 7.0 * vectors):
        weights, _ = once(PMTL(own), Preference.ray(ray), F, K)
        torch.testing.assert_close(weights, once(PMTL(without), Preference.ray(ray), F, K)[0], rtol=1e-5, atol=1e-6)
    nothing_else, state = once(PMTL(ray[None]), Preference.ray(ray), F, K)
    assert bool(state.arrived)
    check_shortest(nothing_else.numpy(), np.eye(3), K)


def test_without_vectors_they_are_spread():
    F, K = draw(3, 1)
    preference = Preference.ray([1.0, 5.0, 2.0])
    assert torch.equal(once(PMTL(count=7), preference, F, K)[0], once(PMTL(spread(3, 7).tolist()), preference, F, K)[0])


def test_without_a_ray_the_sector_is_that_of_the_diagonal():
    F, K = draw(2, 3)
    a, _ = once(PMTL(), Preference.pareto(2), F, K)
    b, _ = once(PMTL(), Preference.ray([1.0, 1.0]), F, K)
    torch.testing.assert_close(a, b)


@every_solver
@pytest.mark.parametrize("m", [2, 3])
def test_a_stack_equals_a_loop(solver, m):
    rays = spread(m, 4).tolist()
    members = [Preference.ray(ray) for ray in rays]
    stack, method = Preference.stack(members), PMTL(count=6, warmup=2, solver=solver)
    together = method.init(stack)
    alone = {(j, i): method.init(member) for i, member in enumerate(members) for j in range(3)}
    for step in range(4):
        F, K = draw(m, step, batch=(3, 4))
        weights, together = once(method, stack, F, K, together)
        assert weights.shape == (3, 4, m)
        for (j, i), state in alone.items():
            one, alone[j, i] = once(method, members[i], F[j, i], K[j, i], state)
            slopes = K[j, i] @ weights[j, i].numpy()
            assert slopes == pytest.approx(K[j, i] @ one.numpy(), rel=1e-6, abs=1e-8)
            assert together.arrived[j, i] == alone[j, i].arrived
            assert together.steps[j, i] == alone[j, i].steps


def test_the_solvers_agree():
    F, K = draw(4, 2, batch=(20,))
    preference = Preference.ray([1.0, 2.0, 3.0, 4.0])
    exact, _ = once(PMTL(count=12), preference, F, K)
    batched, _ = once(PMTL(count=12, solver="batched"), preference, F, K)
    np.testing.assert_allclose(
        (K @ exact[..., None].numpy())[..., 0], (K @ batched[..., None].numpy())[..., 0], rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize("state", [None, arrived()], ids=["first", "second"])
def test_permuted_losses_have_permuted_weights(state):
    order = [2, 0, 3, 1]
    for seed in range(5):
        F, K = draw(4, seed)
        vectors, ray = spread(4, 8).numpy(), F[::-1].copy()
        wanted, _ = once(PMTL(vectors), Preference.ray(ray), F, K, state)
        found, _ = once(PMTL(vectors[:, order]), Preference.ray(ray[order]), F[order], K[np.ix_(order, order)], state)
        assert found.numpy() == pytest.approx(wanted.numpy()[order], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("factor", [1e-10, 1e10])
@pytest.mark.parametrize("state", [None, arrived()], ids=["first", "second"])
def test_a_common_unit_does_not_matter(factor, state):
    F, K = draw(3, 4)
    preference = Preference.ray(F[::-1].copy())
    wanted, _ = once(PMTL(), preference, F, K, state)
    found, _ = once(PMTL(), preference, F * factor, K * factor**2, state)
    assert found.numpy() == pytest.approx(wanted.numpy(), rel=1e-6, abs=1e-9)


@every_solver
@pytest.mark.parametrize("state", [None, arrived()], ids=["first", "second"])
def test_zeros_stay_finite(solver, state):
    method, preference = PMTL(count=8, solver=solver), Preference.ray([3.0, 1.0, 0.0])
    for F in ([1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, 0.5, 2.0]):
        for K in (np.zeros((3, 3)), np.diag([1.0, 0.0, 2.0]), np.ones((3, 3))):
            assert once(method, preference, F, K, state)[0].isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_weights_have_the_losses_type(dtype):
    F, K = (torch.tensor(x).to(dtype) for x in draw(3))
    weights, state = once(PMTL(), Preference.ray([3.0, 1.0, 2.0]), F, K)
    assert weights.dtype == dtype
    assert state.steps.dtype == state.arrived.dtype == torch.float64


def test_inputs_are_untouched():
    F, K = (torch.tensor(x) for x in draw(3))
    kept = F.clone(), K.clone()
    preference, method = Preference.ray([3.0, 1.0, 2.0]), PMTL()
    state = method.init(preference)
    a, _ = once(method, preference, F, K, state)
    b, _ = once(method, preference, F, K, state)
    assert torch.equal(a, b)
    assert torch.equal(F, kept[0])
    assert torch.equal(K, kept[1])
    assert (float(state.steps), float(state.arrived)) == (0.0, 0.0)


def test_the_state_survives_saving():
    F, K = draw(2)
    preference, method = Preference.ray([1.0, 9.0]), PMTL()
    _, state = once(method, preference, F, K)
    buffer = io.BytesIO()
    torch.save(dataclasses.asdict(state), buffer)
    buffer.seek(0)
    loaded = PMTLState(**torch.load(buffer, weights_only=True))
    assert torch.equal(once(method, preference, F, K, state)[0], once(method, preference, F, K, loaded)[0])


def test_a_gramian_for_many_losses():
    F, K = draw(3, batch=(4,))
    preference, method = Preference.ray([3.0, 1.0, 2.0]), PMTL()
    weights, state = once(method, preference, F, K[0])
    assert weights.shape == (4, 3)
    assert state.steps.shape == (4,)
    for i in range(4):
        torch.testing.assert_close(weights[i], once(method, preference, F[i], K[0])[0])


def test_one_loss():
    weights, state = once(PMTL(), Preference.pareto(1), [2.0], [[9.0]])
    assert weights.tolist() == [1.0]
    assert bool(state.arrived)


def test_it_declares_itself():
    method = PMTL(np.array(AXES))
    assert method.requires == {"losses", "gramian"}
    assert not method.has_merit
    assert method.understands(Preference.ray([1.0, 2.0])) is method.understands(Preference.pareto(2)) is None
    assert "rays from the origin only" in method.understands(Preference.ray([1.0, 2.0], through=[1.0, 1.0]))
    with pytest.raises(UnsupportedError, match="knows no constraint but"):
        method.init(Preference.parse("f1 <= 1", names=["f1", "f2"]))
    assert method == PMTL(AXES) == dataclasses.replace(method)
    assert hash(method) == hash(PMTL([list(row) for row in AXES]))


def test_bad_settings_are_refused():
    with pytest.raises(InputError, match=r"vectors: expected shape \(K, m\), one row for each, found \(2,\)"):
        PMTL([1.0, 2.0])
    with pytest.raises(InputError, match=r"vectors: expected rows of numbers >= 0, .* found \[0.0, 0.0\] in row 1"):
        PMTL([[1.0, 2.0], [0.0, 0.0]])
    with pytest.raises(InputError, match=r"vectors: .* found \[-1.0, 2.0\] in row 0"):
        PMTL([[-1.0, 2.0]])
    with pytest.raises(InputError, match="vectors: expected finite numbers"):
        PMTL([[np.nan, 2.0]])
    with pytest.raises(InputError, match=r"vectors: expected rows of 3 numbers, one for each of f1, f2, f3, found 2"):
        PMTL(AXES).init(Preference.pareto(3))
    with pytest.raises(InputError, match="count: expected a whole number of at least 1, found 0"):
        PMTL(count=0)
    with pytest.raises(InputError, match=r"warmup: expected a whole number of at least 0, found 0\.5"):
        PMTL(warmup=0.5)
    with pytest.raises(InputError, match=r'solver: expected "exact" or "batched", found \'pgd\''):
        PMTL(solver="pgd")


def test_bad_observations_are_refused():
    preference = Preference.ray([1.0, 2.0])
    with pytest.raises(InputError, match="PMTL reads gramian, found None"):
        once(PMTL(), preference, [1.0, 2.0], None)
    with pytest.raises(NonFiniteError, match="gramian: expected finite numbers"):
        once(PMTL(), preference, [1.0, 2.0], [[np.inf, 0.0], [0.0, 1.0]])
    with pytest.raises(InputError, match="gramian: expected a positive semidefinite matrix"):
        once(PMTL(), preference, [1.0, 2.0], [[1.0, 2.0], [2.0, 1.0]])


@pytest.mark.parametrize("index", range(5))
def test_it_ends_in_its_sector_of_a_concave_front(index):
    problem, vectors = Exponential(), spread(2, 5)
    x0 = problem.starts("easy", 1, torch.Generator().manual_seed(index))[0]
    preference = Preference.ray(vectors[index])
    r = ferero.minimize(problem, x0, preference, method=PMTL(vectors), step=0.1, max_iter=300)
    F = r.losses / r.losses.norm()
    assert float((vectors @ F - vectors[index] @ F).max()) <= 1e-12
    assert float(problem.distance_to_front(r.losses[None])) <= 1e-6


@pytest.mark.slow
def test_it_ends_in_its_sector_of_three_losses():
    centres, vectors = torch.eye(3, dtype=torch.float64), spread(3, 6)
    fun = lambda x: (x - centres).square().sum(dim=-1)  # noqa: E731
    x0, on_the_front = torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64), 0
    for u in vectors:
        preference, method = Preference.ray(u), PMTL(vectors)
        r = ferero.minimize(fun, x0, preference, method=method, step=0.05, max_iter=400)
        F, J = r.losses / r.losses.norm(), 2 * (r.x - centres)
        assert float((vectors @ F - u @ F).max()) <= 1e-12
        weights, _ = once(method, preference, r.losses, J @ J.T, arrived())
        assert float((weights @ J).norm()) <= 1e-3
        on_the_front += bool(r.x.min() >= 0)  # inside the triangle of the centres; the others rest at a face
    assert on_the_front >= 3
