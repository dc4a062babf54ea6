"""The solvers in torch against the exact one: where multipliers are not unique, slopes are compared."""

from functools import partial

import numpy as np
import pytest
import torch

from ferero.errors import UnsupportedError
from ferero.preference import Preference
from ferero.subprogram import Programs, frank_wolfe, pgd, solve_batched, solve_subprogram

SHAPES = [
    (1, 0, 0),
    (2, 0, 0),
    (2, 0, 1),
    (2, 1, 1),
    (3, 0, 2),
    (4, 0, 0),
    (4, 2, 0),
    (6, 0, 5),
    (6, 2, 2),
    (12, 3, 4),
]


def draw(rng, m, m_g, m_h, count=12):
    """A stack of P preferences with losses (P, m) and gramians (P, m, m), all of about one size."""
    J = rng.standard_normal((count, m, 3 * m))
    F = rng.uniform(0.1, 2.0, (count, m))
    preferences = [
        Preference.from_matrices(
            np.eye(m),
            rng.standard_normal((m_g, m)),
            rng.standard_normal(m_g),
            rng.standard_normal((m_h, m)),
            rng.standard_normal(m_h),
        )
        for _ in range(count)
    ]
    return Preference.stack(preferences), torch.tensor(F), torch.tensor(J @ J.transpose(0, 2, 1))


def slope_error(found, wanted):
    return ((found - wanted).norm(dim=-1) / wanted.norm(dim=-1)).max().item()


@pytest.mark.parametrize("bound", [None, 5.0])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("domain", ["adaptive", "simplex"])
def test_batched_is_exact(shape, bound, domain):
    problem = draw(np.random.default_rng(sum(shape)), *shape)
    exact = solve_subprogram(*problem, bound=bound, domain=domain)
    batched = solve_subprogram(*problem, bound=bound, domain=domain, solver="batched")
    assert batched.status == exact.status
    assert batched.residual.max() <= 1e-9
    assert slope_error(batched.slopes, exact.slopes) <= 1e-6
    torch.testing.assert_close(batched.psi, exact.psi, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("shape", [(2, 0, 0), (2, 0, 1), (4, 2, 0), (6, 2, 2)])
@pytest.mark.parametrize("solver", ["pgd", "frank-wolfe"])
def test_first_order_solvers_converge(shape, solver):
    problem = draw(np.random.default_rng(sum(shape)), *shape)
    exact = solve_subprogram(*problem, bound=5.0)
    found = solve_subprogram(*problem, bound=5.0, solver=solver)
    assert found.residual.max() <= 1e-5
    assert slope_error(found.slopes, exact.slopes) <= 1e-3
    assert (found.lam_f >= 0).all()
    assert (found.multipliers[..., shape[0] :].abs() <= 5.0).all()


def test_the_papers_gradient_stops_by_its_rule_and_is_worse():
    problem = draw(np.random.default_rng(0), 3, 0, 2)
    paper = solve_subprogram(*problem, bound=5.0, solver=partial(pgd, accelerated=False))
    ours = solve_subprogram(*problem, bound=5.0, solver="pgd")
    assert paper.residual.median() > 100 * ours.residual.median()
    J = torch.eye(2, dtype=torch.float64)[None]
    easy = Programs(J, J, torch.zeros(1, 2).double(), torch.ones(1, 2).double(), torch.ones(1).double())
    torch.testing.assert_close(pgd(easy, accelerated=False, max_iter=1), pgd(easy, accelerated=False))


def test_a_tolerance_ends_the_loops_early():
    p, F, K = draw(np.random.default_rng(1), 3, 0, 0)
    for solver in (partial(pgd, tol=1e-9), partial(frank_wolfe, tol=1e-14)):
        found = solve_subprogram(p, F, K, solver=solver)
        assert found.residual.max() <= 1e-6


@pytest.mark.parametrize("m", [2, 3, 6])
@pytest.mark.parametrize("wild", [False, True])
def test_the_core_takes_linear_terms_on_the_orders_rows(m, wild):
    rng = np.random.default_rng(m)
    J = rng.standard_normal((50, m, 2 * m)) * (10 ** rng.uniform(-3, 3, (50, m, 1)) if wild else 1.0)
    rows = torch.eye(m).double().expand(50, m, m)
    a, q = torch.tensor(rng.uniform(0.1, 1, (50, m))), torch.tensor(rng.standard_normal((50, m)))
    lam, residual = solve_batched(rows, torch.tensor(J @ J.transpose(0, 2, 1)), q, a, a.sum(dim=-1))
    assert residual.max() <= 1e-9
    torch.testing.assert_close((lam * a).sum(dim=-1), a.sum(dim=-1))


@pytest.mark.parametrize("m", [2, 6])
@pytest.mark.parametrize("bound", [torch.inf, 3.0, torch.linspace(0.0, 3.0, 20).double()])
def test_padding_keeps_multiplier_zero(m, bound):
    rng = np.random.default_rng(m)
    J = rng.standard_normal((20, m, 3 * m))
    rows = torch.zeros(20, m + 3, m).double()
    rows[:, :m], rows[:, m + 1] = torch.eye(m), torch.tensor(rng.standard_normal((20, m)))
    q = torch.tensor(rng.standard_normal((20, m + 3)))
    q[:, :m], q[:, m], q[:, m + 2] = 0.0, -1.0, 0.0  # rows m and m + 2 are padding: one of each kind
    a = torch.ones(20, m).double()
    lam, residual = solve_batched(rows, torch.tensor(J @ J.transpose(0, 2, 1)), q, a, a.sum(-1), 2, bound)
    assert residual.max() <= 1e-8
    assert (lam[:, [m, m + 2]] == 0).all()


def test_padding_of_the_order_keeps_multiplier_zero():
    K = torch.eye(2).double()[None]
    rows = torch.tensor([[[1.0, 0.0], [0.0, 0.0]]]).double()
    lam, residual = solve_batched(
        rows, K, torch.zeros(1, 2).double(), torch.tensor([[1.0, 0.0]]).double(), torch.ones(1).double()
    )
    assert lam.tolist() == [[1.0, 0.0]]
    assert residual.item() == 0


def test_frank_wolfe_says_what_it_needs():
    p, F, K = draw(np.random.default_rng(0), 2, 1, 0)
    with pytest.raises(UnsupportedError, match=r'bound: solver="frank-wolfe" .* pass bound='):
        solve_subprogram(p, F, K, solver="frank-wolfe")
    F = F.clone()
    F[0, 0] = 0.0
    with pytest.raises(UnsupportedError, match=r'losses: .* needs A F > 0 .* domain="simplex"'):
        solve_subprogram(p, F, K, solver="frank-wolfe", bound=1.0)
    assert solve_subprogram(p, F, K, solver="frank-wolfe", bound=1.0, domain="simplex").residual.max() <= 1e-6


@pytest.mark.parametrize("solver", ["exact", "batched", "pgd"])
def test_inconsistent_members_of_a_batch_are_named(solver):
    p = Preference.from_matrices(B_h=[[1.0, -1.0]], b_h=[0.2])
    K = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]])
    s = solve_subprogram(p, [[1.0, 1.0], [1.0, 1.0]], K, solver=solver)
    assert s.status == ("optimal", "unbounded")
    assert s.multipliers.isfinite().all()
