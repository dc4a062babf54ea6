"""The subprogram without a look at any value: the same answers, and nothing waits."""

import pytest
import torch

import ferero
from ferero.methods import Observation
from ferero.preference import Preference
from ferero.subprogram import solve_on_device, solve_subprogram, without_asymmetry
from ferero.subprogram._solve import LARGE
from ferero_lab.bench.golden import golden

SOLVERS = {
    "Ferero": ferero.Ferero(bound=10.0, solver="batched"),
    "MGDA": ferero.MGDA(solver="batched"),
    "PMTL": ferero.PMTL(solver="batched"),
    "EPO": ferero.EPO(solver="batched"),
    "WCMGDA": ferero.WCMGDA(solver="batched"),
    "XWCMGDA": ferero.XWCMGDA(solver="batched"),
}


def random_losses(m, count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    J = torch.randn(count, m, m + 1, generator=generator, dtype=torch.float64)
    return torch.rand(count, m, generator=generator, dtype=torch.float64) + 0.1, J @ J.mT


@pytest.mark.parametrize("domain", ["adaptive", "simplex"])
@pytest.mark.parametrize("m", [1, 2, 3, 6])
def test_it_is_the_batched_solver(m, domain):
    F, K = random_losses(m, 7)
    f = ferero.objectives(*(f"f{i}" for i in range(m)))
    preference = Preference(f, [f[0] <= 0.3, *([f[0] - f[1] == 0.1] if m > 1 else [])])
    options = {"c_g": 0.5, "c_h": 2.0, "domain": domain, "bound": 10.0}
    expected = solve_subprogram(preference, F, K, solver="batched", **options)
    found = solve_on_device(preference, F, K, **options)
    for name in ("weights", "multipliers", "slopes", "c", "psi", "residual"):
        size = float(getattr(expected, name).abs().max())
        torch.testing.assert_close(
            getattr(found, name), getattr(expected, name), rtol=1e-6, atol=1e-6 * max(size, 1e-3)
        )
    assert found.status == expected.status
    assert found.sizes == expected.sizes


def test_a_stack_of_preferences_and_leading_dimensions():
    stack = Preference.stack([Preference.ray([1.0, 2.0]), Preference.pareto(2)])
    F, K = (part.reshape(3, 2, *part.shape[1:]) for part in random_losses(2, 6))
    options = {"c_g": 1.0, "c_h": 1.0, "domain": "adaptive", "bound": 10.0}
    found = solve_on_device(stack, F, K, **options)
    assert found.weights.shape == (3, 2, 2)
    torch.testing.assert_close(found.weights, solve_subprogram(stack, F, K, solver="batched", bound=10.0).weights)


def test_golden_slopes():
    for instance in golden("subprograms"):
        m = len(instance["losses"])
        if m > 6:
            continue
        A, B_g, B_h, K = (
            torch.tensor(instance[name], dtype=torch.float64).reshape(-1, m) for name in ("A", "B_g", "B_h", "gramian")
        )
        preference = Preference.from_matrices(A, B_g, instance["b_g"], B_h, instance["b_h"])
        F = torch.tensor(instance["losses"], dtype=torch.float64)
        options = {name: instance[name] for name in ("c_g", "c_h", "domain")}
        slopes = solve_on_device(preference, F, K, bound=LARGE, **options).slopes
        wanted = torch.tensor(instance["slopes"], dtype=torch.float64)
        assert float((slopes - wanted).norm() / wanted.norm()) <= 1e-6


def test_rounding_is_taken_out_of_a_gramian():
    J = torch.randn(3, 1, generator=torch.Generator().manual_seed(0))
    K = (J @ J.T).half().float()
    K[0, 1] += 1e-4
    mended = without_asymmetry(K.half())
    assert torch.equal(mended, mended.mT)
    assert float(torch.linalg.eigvalsh(mended).min()) >= 0
    torch.testing.assert_close(mended.float(), K, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("method", SOLVERS.values(), ids=SOLVERS.keys())
@pytest.mark.parametrize("m", [2, 3, 6])
def test_no_value_is_looked_at_away_from_the_cpu(method, m):
    """A meta tensor has none to look at."""
    stack = Preference.stack(
        [Preference.pareto(m) if isinstance(method, ferero.MGDA) else Preference.ray(range(1, m + 1))] * 4
    )
    seen = Observation(torch.ones(4, m, device="meta"), torch.ones(4, m, m, device="meta"))
    decision, _ = method.update(stack, seen, method.init(stack))
    assert decision.weights.shape == (4, m)
    assert decision.weights.device.type == "meta"
