"""Single runs and many take the same steps; losses are differentiated alone; steps are not stretched in vain."""

import numpy as np
import torch

import ferero
import ferero.optimize._proposal as proposal
from ferero.optimize._evaluator import UserFunction, _outputs, make_evaluator


def bent(x: torch.Tensor) -> torch.Tensor:
    shift = 1 / x.numel() ** 0.5
    return torch.stack([1 - torch.exp(-(x - shift).square().sum()), 1 - torch.exp(-(x + shift).square().sum())])


def test_many_runs_are_single_ones_to_the_last_bit():
    start = np.array([0.3, -0.2, 0.5])

    def losses(x: np.ndarray) -> np.ndarray:
        return np.array([1 - np.exp(-((x - 0.5) ** 2).sum()), 1 - np.exp(-((x + 0.5) ** 2).sum())])

    preferences = [ferero.Preference.ray([1.0, r]) for r in (0.5, 1.0, 2.0, 4.0)]
    together = ferero.trace(losses, start, preferences)
    for preference, one in zip(preferences, together, strict=True):
        alone = ferero.minimize(losses, start, preference)
        assert (alone.status, alone.evaluations) == (one.status, one.evaluations)
        np.testing.assert_array_equal(alone.x, one.x)
        np.testing.assert_array_equal(alone.history.losses, one.history.losses)


def test_stacked_losses_are_differentiated_one_by_one_with_the_same_gradients():
    x = torch.tensor([0.3, -0.7], dtype=torch.float64, requires_grad=True)
    stacked, sliced = bent(x), bent(x)[:2]
    assert [output is stacked for output, _ in _outputs(stacked)] == [False, False]
    assert all(output is sliced for output, _ in _outputs(sliced))
    found = [
        torch.stack([torch.autograd.grad(output, x, one, retain_graph=True)[0] for output, one in _outputs(values)])
        for values in (stacked, sliced)
    ]
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_a_constant_among_stacked_losses_has_no_gradient():
    def losses(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x.square().sum(), torch.tensor(2.0, dtype=torch.float64)])

    evaluator, starts = make_evaluator(losses, torch.ones(2, dtype=torch.float64), None, 1, UserFunction(losses, None))
    evaluator.losses(starts)
    np.testing.assert_array_equal(evaluator.jacobians(np.zeros(1, dtype=np.int64)), [[[2.0, 2.0], [0.0, 0.0]]])


def test_a_step_that_its_constraints_fix_is_not_stretched(monkeypatch):
    """Once eta grew to 1e16 in search of a longer step, which then was rounding alone."""
    etas = []
    solve = proposal._Subprogram.solve
    monkeypatch.setattr(proposal._Subprogram, "solve", lambda self, eta: etas.append(eta) or solve(self, eta))
    start = torch.full((20,), 0.1, dtype=torch.float64)
    found = ferero.minimize(bent, start, ferero.Preference.ray([1.0, 0.8]))
    assert found.success
    assert max(etas) < 1e6
    assert found.evaluations <= 8
