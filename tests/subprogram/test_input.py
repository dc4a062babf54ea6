"""What goes in: any float type, batches, and what is refused with which words."""

import numpy as np
import pytest
import torch

from ferero.errors import InputError, NonFiniteError
from ferero.preference import Preference
from ferero.subprogram import Program, Programs, Solution, solve_subprogram
from ferero.subprogram._gramian import check_gramian, factor

EYE = [[1.0, 0.0], [0.0, 1.0]]
RAY = Preference.ray([1.0, 2.0])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_any_float_type_is_computed_in_float64(dtype):
    rng = torch.Generator().manual_seed(0)
    J = torch.randn(2, 4, generator=rng).to(dtype)
    F, K = torch.tensor([1.0, 0.5]).to(dtype), J @ J.T
    s = solve_subprogram(RAY, F, K)
    wanted = solve_subprogram(RAY, F.double(), K.double())
    assert s.slopes.dtype == s.weights.dtype == s.psi.dtype == torch.float64
    torch.testing.assert_close(s.slopes, wanted.slopes)
    assert s.residual <= 1e-9


def test_numpy_and_lists_are_taken():
    lists = solve_subprogram(RAY, [1, 2], [[2, 1], [1, 2]])
    arrays = solve_subprogram(RAY, np.float32([1, 2]), np.array([[2.0, 1.0], [1.0, 2.0]]))
    assert lists.slopes.tolist() == arrays.slopes.tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_rounding_that_makes_a_gramian_indefinite_is_undone(dtype):
    J = torch.randn(8, 2, generator=torch.Generator().manual_seed(1))
    K = (J @ J.T).to(dtype)
    assert torch.linalg.eigvalsh(K.double())[0] < 0
    s = solve_subprogram(Preference.pareto(8), torch.ones(8), K, domain="simplex")
    assert s.residual <= 1e-8
    assert float(s.weights @ s.slopes) <= 1e-12


def test_the_factor_gives_the_gramian_back():
    rng = np.random.default_rng(0)
    for rank in (1, 3, 6):
        J = rng.standard_normal((6, rank)) * 10 ** rng.uniform(-6, 6, (6, 1))
        K = J @ J.T
        R = factor(K)
        assert R.shape[1] == rank
        size = np.sqrt(K.diagonal())
        np.testing.assert_allclose(R @ R.T / np.outer(size, size), K / np.outer(size, size), atol=1e-13)
        assert check_gramian(K) is K


def test_inputs_stay_untouched():
    F, K = torch.tensor([1.0, 0.5]), torch.tensor([[2.0, 0.3], [0.3, 1.0]])
    kept = F.clone(), K.clone(), RAY.A.clone(), RAY.B_h.clone()
    for solver in ("exact", "batched", "pgd", "frank-wolfe"):
        s = solve_subprogram(RAY, F, K, solver=solver, bound=4.0)
        s.multipliers.zero_()
    assert all(torch.equal(a, b) for a, b in zip(kept, (F, K, RAY.A, RAY.B_h), strict=True))


def test_gradients_do_not_flow():
    F = torch.tensor([1.0, 0.5], requires_grad=True)
    assert not solve_subprogram(RAY, F, EYE).weights.requires_grad


@pytest.mark.parametrize("solver", ["exact", "batched"])
def test_a_batch_equals_a_loop(solver):
    rng = np.random.default_rng(0)
    members = [
        RAY,
        Preference.pareto(2),
        Preference.parse("f1 <= 0.3; f2 <= 0.2"),
        Preference.ray([3.0, 1.0]),
    ]
    wide = Preference.from_matrices(A=[[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    stack = Preference.stack([*members, wide])
    J, F = rng.standard_normal((2, 5, 2, 3)), rng.uniform(0.5, 1, (2, 5, 2))
    K = J @ J.swapaxes(-1, -2)
    batch = solve_subprogram(stack, F, K, solver=solver)
    assert isinstance(batch, Solution)
    assert batch.weights.shape == batch.slopes.shape == (2, 5, 2)
    assert batch.psi.shape == batch.residual.shape == (2, 5)
    assert len(batch.status) == 10
    for i in range(2):
        for j, member in enumerate(stack):
            one = solve_subprogram(member, F[i, j], K[i, j])
            torch.testing.assert_close(batch.slopes[i, j], one.slopes, rtol=1e-7, atol=1e-8)
            torch.testing.assert_close(batch.psi[i, j], one.psi, rtol=1e-7, atol=1e-8)
            assert batch.status[5 * i + j] == one.status
    padded = batch.lam_f[:, :4, 2]
    assert (padded == 0).all()
    assert (batch.lam_g[:, [0, 1, 3, 4]] == 0).all()


def test_batch_dimensions_broadcast():
    stack = Preference.stack([RAY, Preference.ray([2.0, 1.0]), Preference.ray([1.0, 1.0])])
    assert solve_subprogram(stack, [1.0, 1.0], EYE).weights.shape == (3, 2)
    assert solve_subprogram(RAY, torch.ones(4, 1, 2), torch.eye(2).expand(5, 2, 2)).slopes.shape == (4, 5, 2)
    single = solve_subprogram(RAY, [1.0, 1.0], EYE, solver="batched")
    assert single.status == "optimal"
    assert single.psi.shape == ()


def test_the_certificates_of_one_and_of_many_agree():
    rng = np.random.default_rng(1)
    J, S = rng.standard_normal((3, 5)), np.vstack([np.eye(3), rng.standard_normal((2, 3))])
    q, a = np.concatenate([np.zeros(3), rng.standard_normal(2)]), rng.uniform(0.1, 1, 3)
    one = Program(S, J @ J.T, q, a, 1.0, 1, 2.0)
    many = Programs(*(torch.tensor(x)[None] for x in (S, J @ J.T, q, a, 1.0)), 1, 2.0)
    for lam in rng.standard_normal((10, 5)):
        lam_in = one.feasible(lam)
        np.testing.assert_allclose(many.feasible(torch.tensor(lam)[None])[0], lam_in)
        assert many.residual(torch.tensor(lam)[None]).item() == pytest.approx(one.residual(lam))
        assert many.residual(torch.tensor(lam_in)[None]).item() == pytest.approx(one.residual(lam_in))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"losses": [1.0, 2.0, 3.0]}, r"losses: .* 2\), one number for each of f1, f2, found \(3,\)"),
        ({"losses": 1.0}, r"losses: expected shape"),
        ({"gramian": [1.0, 2.0]}, r"gramian: .* 2, 2\).* found \(2,\); compute it as J @ J\.T"),
        ({"gramian": [[1.0, 2.0], [0.0, 1.0]]}, r"gramian: expected a symmetric .* by 2; compute"),
        ({"gramian": [[1.0, 2.0], [2.0, 1.0]]}, r"gramian: .*semidefinite .* eigenvalue of -1 beside 3"),
        ({"gramian": [[-1.0, 0.0], [0.0, -1.0]]}, r"gramian: expected a positive semidefinite"),
        ({"gramian": [[0.0, 1.0], [1.0, 0.0]]}, r"gramian: expected a positive semidefinite"),
        ({"losses": ["a", "b"]}, r"losses: expected an array of real numbers"),
        ({"gramian": torch.eye(2, dtype=torch.complex64)}, r"gramian: expected real numbers"),
        ({"c_g": 0.0}, r"c_g: expected a positive finite number, found 0\.0; 1\.0 is the usual one"),
        ({"c_h": -1}, r"c_h: expected a positive finite number, found -1"),
        ({"bound": float("inf")}, r"bound: expected a positive finite number, found inf; None for no bound"),
        ({"bound": 0}, r"bound: expected a positive"),
        ({"domain": "box"}, r'domain: expected "adaptive" or "simplex", found \'box\''),
        ({"solver": "osqp"}, r'solver: .* "exact", "pgd", "frank-wolfe", "batched".* found \'osqp\''),
        ({"losses": [-1.0, 2.0]}, r'losses: .* not negative, found -1; .*domain="simplex"'),
        ({"losses": [0.0, 0.0]}, r"losses: the adaptive domain needs a positive sum of A F, found 0"),
        ({"losses": np.ones((3, 2)), "gramian": [EYE, EYE]}, r"expected batch .* \(3,\), \(2,\) and \(\)"),
        ({"losses": np.ones((0, 2))}, r"losses, gramian: expected at least one program"),
    ],
)  # fmt: skip
def test_refusals_name_the_argument(options, words):
    arguments = {"losses": [1.0, 2.0], "gramian": EYE} | options
    losses, gramian = arguments.pop("losses"), arguments.pop("gramian")
    with pytest.raises(InputError, match=words):
        solve_subprogram(RAY, losses, gramian, **arguments)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_is_refused(bad):
    with pytest.raises(NonFiniteError, match=r"losses: expected finite numbers, found (nan|inf) at index \(1,\)"):
        solve_subprogram(RAY, [1.0, bad], EYE)
    with pytest.raises(NonFiniteError, match=r"gramian: expected finite numbers"):
        solve_subprogram(RAY, [1.0, 1.0], [[1.0, bad], [bad, 1.0]])


def test_losses_of_any_sign_are_fine_on_the_simplex():
    assert solve_subprogram(RAY, [-1.0, 2.0], EYE, domain="simplex").status == "optimal"
