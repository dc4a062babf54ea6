"""What theory promises of the subprogram's direction."""

import numpy as np
import pytest
import scipy.optimize
import torch

from ferero.geometry import Cone
from ferero.preference import Preference
from ferero.subprogram import solve_subprogram


def gradients(rng, m, n=None):
    return rng.standard_normal((m, n or 2 * m + 1))


def test_the_direction_does_not_depend_on_the_multipliers():
    rng = np.random.default_rng(0)
    for _ in range(20):
        J, F = gradients(rng, 3), rng.uniform(0.5, 2, 3)
        B = rng.standard_normal((1, 3))
        once = Preference.from_matrices(B_g=B, b_g=[0.3])
        twice = Preference.from_matrices(B_g=np.vstack([B, 2 * B]), b_g=[0.3, 0.6])
        first, second = (solve_subprogram(p, F, J @ J.T) for p in (once, twice))
        torch.testing.assert_close(first.slopes, second.slopes, rtol=1e-8, atol=1e-9)
        torch.testing.assert_close(first.weights, second.weights, rtol=1e-6, atol=1e-7)
        assert second.lam_g.shape == (2,)


def test_without_constraints_the_simplex_gives_the_shortest_convex_combination():
    rng = np.random.default_rng(1)
    for m in (2, 3, 5):
        J = gradients(rng, m) + 0.5
        s = solve_subprogram(Preference.pareto(m), rng.standard_normal(m), J @ J.T, domain="simplex")
        shortest = scipy.optimize.minimize(
            lambda w, K=J @ J.T: w @ K @ w / 2,
            np.full(m, 1 / m),
            jac=lambda w, K=J @ J.T: K @ w,
            bounds=[(0, 1)] * m,
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 500},
        )
        np.testing.assert_allclose(J.T @ s.weights.numpy(), J.T @ shortest.x, atol=1e-6)


@pytest.mark.parametrize("factor", [2.0, 1e6])
@pytest.mark.parametrize("m", [2, 3])
def test_the_direction_is_scale_invariant_on_the_line(m, factor):
    rng = np.random.default_rng(2)
    scale = np.ones(m)
    scale[1] = factor
    for _ in range(10):
        J, ray = gradients(rng, m, 20), rng.uniform(0.2, 1, m)
        F = 0.7 * ray
        units = []
        for s in (np.ones(m), scale):
            rows = Preference.ray(ray * s)
            solution = solve_subprogram(rows, F * s, (J * s[:, None]) @ (J * s[:, None]).T)
            d = -(J * s[:, None]).T @ solution.weights.numpy()
            units.append(d / np.linalg.norm(d))
        np.testing.assert_allclose(units[1], units[0], atol=1e-8)


def test_the_adaptive_domain_escapes_weak_optima():
    F, K = [0.0, 1.0, 2.0], np.diag([0.0, 1.0, 4.0])
    adaptive = solve_subprogram(Preference.pareto(3), F, K)
    simplex = solve_subprogram(Preference.pareto(3), F, K, domain="simplex")
    assert (adaptive.slopes[1:] < 0).all()
    assert adaptive.psi < 0
    assert (simplex.slopes == 0).all()
    assert simplex.psi == 0


def test_on_the_constraints_no_loss_rises_to_first_order():
    rng = np.random.default_rng(3)
    for m in (2, 3, 6):
        for _ in range(20):
            J, ray = gradients(rng, m, m + 1), rng.uniform(0.1, 1, m)
            s = solve_subprogram(Preference.ray(ray), ray, J @ J.T)
            assert (s.slopes <= 1e-8 * s.slopes.abs().max()).all()


@pytest.mark.parametrize("domain", ["adaptive", "simplex"])
@pytest.mark.parametrize("m", [2, 3])
def test_the_direction_meets_every_row_of_the_primal(m, domain):
    rng = np.random.default_rng(8)
    cone = Cone.orthant(m).allowing_ascent(np.ones(m), np.linspace(0.2, 1.3, m))
    below = Preference.parse("f1 <= 0.1", names=[f"f{i + 1}" for i in range(m)])
    p = Preference.ray(rng.uniform(0.5, 1, m), cone=cone) & below
    J, F = gradients(rng, m), torch.from_numpy(rng.uniform(0.5, 1, m))
    s = solve_subprogram(p, F, J @ J.T, domain=domain, c_g=0.5, c_h=0.5)
    order = p.A @ F
    a = order / order.sum() if domain == "adaptive" else torch.ones_like(order)
    G, H = p.values(F)
    assert (p.A @ s.slopes <= s.c * a + 1e-8).all()
    assert (p.B_g @ s.slopes + 0.5 * G <= 1e-8).all()
    torch.testing.assert_close(p.B_h @ s.slopes, -0.5 * H, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("violation", "psi"), [(2.0, 0.0), (-1.0, 1.5)])
def test_psi_off_the_constraints_is_no_stopping_test(violation, psi):
    p = Preference.from_matrices(B_h=[[1.0]], b_h=[violation - 3.0])
    s = solve_subprogram(p, [3.0], [[1.0]])
    assert s.psi.item() == pytest.approx(psi, abs=1e-12)
    assert s.slopes.item() == pytest.approx(-violation)


def test_the_constraints_rate_is_what_the_direction_undoes():
    p = Preference.parse("f1 <= 0.5; f2 - f3 == 0.25")
    J = gradients(np.random.default_rng(4), 3)
    s = solve_subprogram(p, [1.0, 1.0, 2.0], J @ J.T, c_g=0.3, c_h=0.7)
    assert s.slopes[0].item() <= -0.3 * 0.5 + 1e-9
    assert (s.slopes[1] - s.slopes[2]).item() == pytest.approx(0.7 * 1.25)


def test_a_bound_prices_violation():
    p = Preference.from_matrices(B_h=[[1.0, -1.0]], b_h=[0.0])
    J = np.array([[1.0, 0.0], [1.0, 1e-3]])
    free, priced = (solve_subprogram(p, [2.0, 1.0], J @ J.T, bound=bound) for bound in (None, 2.0))
    assert free.lam_h.abs().item() > 100
    assert priced.lam_h.abs().item() == 2.0
    assert priced.status == free.status == "optimal"


def test_permuting_the_objectives_permutes_the_answer():
    rng = np.random.default_rng(5)
    for m_h in (0, 2):
        J, F, B = gradients(rng, 4), rng.uniform(0.5, 2, 4), rng.standard_normal((m_h, 4))
        order = rng.permutation(4)
        p = Preference.from_matrices(A=np.eye(4), B_h=B, b_h=np.ones(m_h))
        q = Preference.from_matrices(A=np.eye(4), B_h=B[:, order], b_h=np.ones(m_h))
        first = solve_subprogram(p, F, J @ J.T)
        second = solve_subprogram(q, F[order], J[order] @ J[order].T)
        torch.testing.assert_close(second.slopes, first.slopes[torch.from_numpy(order)], rtol=1e-7, atol=1e-9)
        torch.testing.assert_close(second.psi, first.psi, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("size", [1e-10, 1e10])
def test_the_answer_is_the_same_for_gradients_of_any_size(size):
    rng = np.random.default_rng(6)
    J, F = gradients(rng, 3), rng.uniform(0.5, 2, 3)
    p = Preference.parse("f1 <= 0.2; f2 - f3 == 0")
    one = solve_subprogram(p, F, J @ J.T)
    small = Preference.parse(f"f1 <= {0.2 * size**2}; f2 - f3 == 0")
    other = solve_subprogram(small, F * size**2, J @ J.T * size**2)
    torch.testing.assert_close(other.weights, one.weights, rtol=1e-8, atol=1e-8)


def test_one_loss():
    s = solve_subprogram(Preference.pareto(1), [2.0], [[4.0]])
    assert s.weights.tolist() == [1.0]
    assert s.slopes.tolist() == [-4.0]


def test_forty_losses():
    rng = np.random.default_rng(7)
    J, ray = gradients(rng, 40), rng.uniform(0.5, 1, 40)
    s = solve_subprogram(Preference.ray(ray), ray + 0.1 * rng.random(40), J @ J.T)
    assert s.status == "optimal"
    assert s.residual <= 1e-9


def test_zero_gradients():
    zero = np.zeros((2, 2))
    still = solve_subprogram(Preference.pareto(2), [1.0, 2.0], zero)
    assert still.status == "optimal"
    assert still.psi == 0
    stuck = solve_subprogram(Preference.parse("f1 <= 0.5", names=["f1", "f2"]), [1.0, 2.0], zero)
    assert stuck.status == "unbounded"
    assert (stuck.slopes == 0).all()
