"""Projections: what characterises them, an independent solver, and extreme scales."""

from __future__ import annotations

import clarabel
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from ferero.geometry import project_box, project_multipliers, project_simplex, project_weighted_simplex


def tensor(array):
    return torch.as_tensor(array, dtype=torch.float64)


def instance(seed, k, decades):
    """x of any sign and a with zeros, both spread over the given number of decades either side of one."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=k) * 10 ** rng.uniform(-decades, decades, size=k)
    a = 10 ** rng.uniform(-decades, decades, size=k) * (rng.random(k) < 0.8)
    a[rng.integers(k)] = 10 ** rng.uniform(-decades, decades)
    return tensor(x), tensor(a), tensor(10 ** rng.uniform(-decades, decades))


def solve_by_clarabel(x, a, b):
    k = len(x)
    settings_ = clarabel.DefaultSettings()
    settings_.verbose = False
    settings_.tol_gap_abs = settings_.tol_gap_rel = settings_.tol_feas = 1e-12
    constraints = sparse.csc_matrix(np.vstack([a, -np.eye(k)]))
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(k)]
    P = sparse.csc_matrix(np.eye(k))
    solver = clarabel.DefaultSolver(P, -x, constraints, np.append(b, np.zeros(k)), cones, settings_)
    return np.array(solver.solve().x)


def check_optimality(x, a, b, z):
    """KKT: z >= 0, a.z = b, and z = [x - t a]_+ for one t, recovered from the largest contribution to a.z."""
    assert (z >= 0).all()
    assert abs(a @ z - b) <= 1e-13 * b
    leader = (a * z).argmax()
    t = (x[leader] - z[leader]) / a[leader]
    t_error = 1e-14 * (x[leader].abs() + z[leader]) / a[leader]
    error = (z - (x - t * a).clamp(min=0)).abs()
    assert (error <= 1e-13 * (x.abs() + z) + 10 * t_error * a).all()


@settings(deadline=None, derandomize=True, max_examples=200)
@given(seed=st.integers(0, 2**31), k=st.integers(1, 12), decades=st.sampled_from([0, 2, 6]))
def test_weighted_simplex_satisfies_kkt_at_any_scale(seed, k, decades):
    x, a, b = instance(seed, k, decades)
    check_optimality(x, a, b, project_weighted_simplex(x, a, b))


@pytest.mark.parametrize("seed", range(40))
def test_weighted_simplex_agrees_with_clarabel(seed):
    x, a, b = instance(seed, 1 + seed % 8, 0.7)
    expected = solve_by_clarabel(x.numpy(), a.numpy(), b.item())
    np.testing.assert_allclose(project_weighted_simplex(x, a, b), expected, atol=1e-6 * max(1, x.abs().max()))


@settings(deadline=None, derandomize=True, max_examples=50)
@given(seed=st.integers(0, 2**31), k=st.integers(1, 9))
def test_weighted_simplex_invariances(seed, k):
    x, a, b = instance(seed, k, 1)
    z = project_weighted_simplex(x, a, b)
    scale = x.abs().max() + z.abs().max()

    def same(y):
        return ((y - z).abs() <= 1e-12 * scale).all()

    order = torch.from_numpy(np.random.default_rng(seed).permutation(k))
    assert same(project_weighted_simplex(z, a, b))
    assert same(project_weighted_simplex(x + 3 * a, a, b))
    assert same(project_weighted_simplex(x, 1e100 * a, 1e100 * b))
    assert same(project_weighted_simplex(x * 1e-50, a, b * 1e-50) * 1e50)
    assert torch.equal(project_weighted_simplex(x[order], a[order], b), z[order])


def test_weighted_simplex_by_hand():
    assert torch.equal(project_weighted_simplex(tensor([0.5, 0.5]), torch.ones(2), 2.0), tensor([1.0, 1.0]))
    assert torch.equal(
        project_weighted_simplex(tensor([3.0, -9.0, -1.0]), tensor([1.0, 0.0, 1.0]), 1.0), tensor([1.0, 0, 0])
    )
    assert torch.equal(project_weighted_simplex(tensor([-4.0, 7.0]), tensor([2.0, 0.0]), 1.0), tensor([0.5, 7.0]))
    assert torch.equal(project_weighted_simplex(tensor([-4.0]), tensor([4.0]), 1.0), tensor([0.25]))


def test_weighted_simplex_keeps_the_constraint_from_far_away():
    x = tensor([1e12, 1e12 - 0.25, -1e12])
    z = project_weighted_simplex(x, torch.ones(3), 1.0)
    np.testing.assert_allclose(z, [0.625, 0.375, 0.0], rtol=1e-15)


def test_weighted_simplex_with_equal_entries():
    z = project_weighted_simplex(torch.full((5,), -3.0), torch.full((5,), 2.0), 1.0)
    np.testing.assert_allclose(z, np.full(5, 0.1), rtol=1e-7)


def test_batches_and_broadcasting_agree_with_a_loop():
    rng = np.random.default_rng(0)
    x, a, b = tensor(rng.normal(size=(4, 1, 6))), tensor(rng.random((3, 6))), tensor(rng.random((4, 3)) + 0.1)
    a[1, :3] = 0.0
    z = project_weighted_simplex(x, a, b)
    assert z.shape == (4, 3, 6)
    for i in range(4):
        for j in range(3):
            np.testing.assert_allclose(z[i, j], project_weighted_simplex(x[i, 0], a[j], b[i, j]), rtol=1e-14)
    vectorised = torch.vmap(lambda row: project_weighted_simplex(row, a[0], 1.0))(x[:, 0])
    np.testing.assert_allclose(vectorised, project_weighted_simplex(x[:, 0], a[0], 1.0), rtol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtype_is_kept_and_inputs_are_untouched(dtype):
    x, a = torch.tensor([0.3, -2.0, 1.5], dtype=dtype), torch.tensor([1.0, 0.0, 2.0], dtype=dtype)
    before = x.clone(), a.clone()
    z = project_weighted_simplex(x, a, 1.0)
    lam = project_multipliers(x, a[:1], 1.0, 1, bound=1.0)
    assert z.dtype == lam.dtype == project_box(x, 0.0, 1.0).dtype == dtype
    assert abs((a.double() @ z.double()).item() - 1) <= 4 * torch.finfo(dtype).eps
    assert torch.equal(x, before[0])
    assert torch.equal(a, before[1])


def test_box():
    x = tensor([[-2.0, 0.5, 3.0], [0.0, -1.0, 9.0]])
    assert torch.equal(project_box(x, 0.0, 1.0), tensor([[0.0, 0.5, 1.0], [0.0, 0.0, 1.0]]))
    assert torch.equal(project_box(x, None, None), x)
    assert torch.equal(project_box(x, None, tensor([[1.0], [2.0]]))[:, 2], tensor([1.0, 2.0]))
    assert torch.equal(project_box(x, tensor([0.0, 1.0, -torch.inf]), None)[0], tensor([0.0, 1.0, 3.0]))


def test_product_projects_each_block():
    lam = tensor([[0.9, 0.9, -1.0, 5.0, -7.0, 7.0], [0.2, 0.1, 0.5, -0.5, 0.3, -0.3]])
    a = tensor([1.0, 1.0])
    bounded = project_multipliers(lam, a, 1.0, 2, bound=3.0)
    assert torch.equal(bounded[0], tensor([0.5, 0.5, 0.0, 3.0, -3.0, 3.0]))
    free = project_multipliers(lam, a, 1.0, 2)
    assert torch.equal(free[:, 2:], torch.cat([lam[:, 2:4].clamp(min=0), lam[:, 4:]], dim=1))
    each = project_multipliers(lam, a, 1.0, 2, bound=tensor([1.0, 0.1]))
    assert torch.equal(each[1, 2:], tensor([0.1, 0.0, 0.1, -0.1]))
    assert torch.equal(each[0, 2:], tensor([0.0, 1.0, -1.0, 1.0]))


def test_product_broadcasts_and_allows_empty_blocks():
    lam = tensor([0.9, 0.1, 2.0])
    many = project_multipliers(lam, torch.rand(5, 2, dtype=torch.float64) + 0.1, 1.0, 1, bound=1.0)
    assert many.shape == (5, 3)
    assert (many[:, 2] == 1.0).all()
    assert project_multipliers(lam, torch.ones(3), 1.0, 0, bound=1.0).sum().item() == pytest.approx(1.0, abs=1e-15)


def test_projection_is_nonexpansive_in_the_first_argument():
    rng = np.random.default_rng(9)
    x, y, a = (tensor(rng.normal(size=(200, 7))) for _ in range(3))
    a = a.abs()
    distance = project_weighted_simplex(x, a, 1.0) - project_weighted_simplex(y, a, 1.0)
    assert (distance.norm(dim=1) <= (x - y).norm(dim=1) * (1 + 1e-12)).all()


@pytest.mark.parametrize("k", [1, 2, 5, 40])
@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_the_plain_simplex_is_the_weighted_one_with_ones(k, size):
    x = size * torch.randn(30, k, generator=torch.Generator().manual_seed(k), dtype=torch.float64)
    z = project_simplex(x)
    expected = project_weighted_simplex(x, torch.ones(k, dtype=torch.float64), 1.0)
    torch.testing.assert_close(z, expected, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(z.sum(dim=-1), torch.ones(30).double(), rtol=1e-14, atol=0)
    assert project_simplex(x.float()).dtype == torch.float32
