import dataclasses
from functools import partial

import numpy as np
import pytest
import torch

from ferero.methods import Ferero, Observation
from ferero.preference import Preference
from ferero.subprogram import pgd, solve_subprogram

RAY = Preference.ray([1.0, 2.0])


def observe(seed=0, batch=(), dtype=torch.float64, m=2):
    generator = torch.Generator().manual_seed(seed)
    J = torch.randn(*batch, m, 5, generator=generator, dtype=torch.float64)
    F = torch.rand(*batch, m, generator=generator, dtype=torch.float64) + 0.1
    return Observation(F.to(dtype), (J @ J.mT).to(dtype))


def test_it_is_the_subprogram():
    observation = observe()
    decision, state = Ferero(c_h=0.5).update(RAY, observation, Ferero().init(RAY))
    wanted = solve_subprogram(RAY, observation.losses, observation.gramian, c_h=0.5)
    assert torch.equal(decision.weights, wanted.weights)
    assert torch.equal(decision.multipliers, wanted.multipliers)
    assert decision.solution.residual <= 1e-10
    assert int(state.steps) == 1


def test_it_declares_itself():
    method = Ferero()
    assert method.requires == {"losses", "gramian"}
    assert method.has_merit
    assert method.understands(RAY) is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        method.c_g = 2.0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_weights_have_the_losses_type(dtype):
    decision, _ = Ferero().update(RAY, observe(dtype=dtype), Ferero().init(RAY))
    assert decision.weights.dtype == dtype
    assert decision.multipliers.dtype == torch.float64


@pytest.mark.parametrize("solver", ["exact", "batched", partial(pgd, max_iter=500)])
def test_a_stack_equals_a_loop(solver):
    members = [RAY, Preference.pareto(2), Preference.parse("f1 <= 0.1", names=["f1", "f2"])]
    observation = observe(batch=(3,))
    method = Ferero(solver=solver)
    together, _ = method.update(Preference.stack(members), observation, method.init(RAY))
    for i, member in enumerate(members):
        one = Observation(observation.losses[i], observation.gramian[i])
        alone, _ = Ferero().update(member, one, Ferero().init(RAY))
        torch.testing.assert_close(together.weights[i], alone.weights, rtol=1e-5, atol=1e-6)


def test_descent_along_its_weights_reaches_the_ray_and_the_front():
    centres = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], dtype=torch.float64)
    theta = torch.tensor([0.5, 2.0, -1.0], dtype=torch.float64)
    method, state = Ferero(), Ferero().init(RAY)
    for _ in range(300):
        F, J = (theta - centres).square().sum(dim=-1), 2 * (theta - centres)
        decision, state = method.update(RAY, Observation(F, J @ J.T), state)
        theta = theta - 0.1 * J.T @ decision.weights
    assert RAY.violation(F).max() <= 1e-6
    s = decision.solution
    assert np.sqrt(-float(s.weights @ s.slopes)) <= 1e-5
    assert state.steps == 300
