"""What single wrong signs, factors and masks in the small programs would change; each test names one."""

import numpy as np
import pytest
import torch

from ferero.subprogram import without_asymmetry
from ferero.subprogram._conic import maximize_gain, maximize_gain_batched
from ferero.subprogram._linear_program import _leaving, _Tableau

either = pytest.mark.parametrize("maximize", [maximize_gain, maximize_gain_batched])


def solve(maximize, q, K, u, counts=None):
    counts = np.ones(len(q), dtype=bool) if counts is None else counts
    q, K, counts = (torch.from_numpy(np.asarray(part))[None] for part in (q, K, counts))
    return maximize(q, K, torch.tensor([u], dtype=torch.float64), counts)[0].numpy()


def value_by_clarabel(q, J, u):
    """The least of the largest ``q + J d`` over steps d no longer than u, which is the gain's dual."""
    import clarabel
    from scipy import sparse

    m, n = J.shape
    largest = np.hstack([J, -np.ones((m, 1))])
    length = np.vstack([np.zeros(n + 1), -np.eye(n, n + 1)])
    matrix = sparse.csc_matrix(np.vstack([largest, length]))
    right = np.concatenate([-q, [u], np.zeros(n)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.NonnegativeConeT(m), clarabel.SecondOrderConeT(n + 1)]
    nothing = sparse.csc_matrix((n + 1, n + 1))
    return clarabel.DefaultSolver(nothing, np.eye(n + 1)[n], matrix, right, cones, settings).solve().x[n]


@pytest.mark.parametrize(
    ("m", "rank", "maximize"), [(5, 1, maximize_gain), (5, 1, maximize_gain_batched), (15, 2, maximize_gain_batched)]
)
def test_gradients_in_a_line_or_a_plane(m, rank, maximize):
    for seed in range(25):
        rng = np.random.default_rng([seed, m])
        J = rng.standard_normal((m, rank))
        q = rng.uniform(0.1, 1, m)
        q, J = q / q.max(), J / np.linalg.norm(J, axis=1).max()
        for u in (0.03, 0.3, 1.0, 10.0):
            alpha = solve(maximize, q, J @ J.T, u)
            assert alpha @ q - u * np.linalg.norm(alpha @ J) == pytest.approx(value_by_clarabel(q, J, u), abs=1e-6)


@either
def test_what_does_not_count_has_no_share_however_large_its_gain(maximize):
    rng = np.random.default_rng(0)
    J, counts = rng.standard_normal((4, 5)), np.array([True, False, True, True])
    q, K = np.array([0.5, 1.0, 0.9, 0.2]), J @ J.T / 10
    alpha = solve(maximize, q, K, 0.3, counts)
    assert alpha[1] == 0
    np.testing.assert_allclose(alpha[counts], solve(maximize, q[counts], K[np.ix_(counts, counts)], 0.3), atol=1e-9)


def test_of_tied_rows_the_lowest_index_leaves_where_cycles_must_end():
    entries = torch.zeros(1, 5, 6, dtype=torch.float64)  # three rows, two of costs; the right side is last
    entries[0, :3, 1], entries[0, :3, -1] = torch.tensor([1.0, 3.0, 1.0]), torch.tensor([0.0, 0.0, 1.0])
    tableau, first = _Tableau(entries, torch.tensor([[3, 2, 0]])), torch.tensor([False])
    column = torch.tensor([1])
    assert int(_leaving(tableau, column, first, by_index=True)) == 1  # index 2 before 3
    tableau = _Tableau(entries, torch.tensor([[2, 3, 0]]))
    assert int(_leaving(tableau, column, first, by_index=True)) == 0
    assert int(_leaving(tableau, column, first, by_index=False)) == 1  # else the largest entry


def test_a_gramian_that_is_not_symmetric_is_made_so():
    K = torch.tensor([[2.0, 0.5], [0.7, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(without_asymmetry(K), torch.tensor([[2.0, 0.6], [0.6, 1.0]]).double())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("m", [2, 12, 40])
def test_rounding_leaves_no_negative_curvature(m, dtype):
    for seed in range(5):
        J = torch.randn(m, 2, generator=torch.Generator().manual_seed(seed)).double()
        J = J * 10.0 ** torch.linspace(-3, 3, m).double()[:, None]
        K = without_asymmetry((J @ J.T).to(dtype))
        unit = K.diagonal().rsqrt()
        assert float(torch.linalg.eigvalsh(K * unit[:, None] * unit)[0]) >= 0
