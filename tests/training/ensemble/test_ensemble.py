"""One step of K models, part by part: gradients, gramians, clipping, slopes, and what is left alone."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.training.ensemble.alone import CPU, ORDER, OTHER_RAY, RAY, Net, data, squares
from torch import nn

import ferero
from ferero.errors import InputError
from ferero.training._ensemble import ELEMENTWISE, Ensemble
from ferero.training._members import Members

K = 3


def models(**how):
    made = []
    for seed in range(K):
        torch.manual_seed(seed)
        made.append(Net(**how).double())
    return made


def make(preferences=(RAY, OTHER_RAY, RAY), method=None, lr=0.1, net=None, **how):
    members = Members(models(**(net or {})), 1, CPU)
    how = {"optimizer": lambda p: torch.optim.SGD(p, lr=lr)} | how
    return Ensemble(members, squares, list(preferences), method=method or ferero.FereroPI(), **how)


def flat(members, k, of=lambda tensor: tensor):
    return torch.cat([of(parameter)[k].detach().flatten() for parameter in members.parameters])


def gradient_alone(model, weights, batch):
    losses = torch.stack(list(squares(model, batch).values()))
    found = torch.autograd.grad((weights * losses).sum(), list(model.parameters()))
    return torch.cat([part.flatten() for part in found])


@pytest.mark.parametrize("method", [ferero.FereroPI(), ferero.Ferero(), ferero.EPO()], ids=lambda m: type(m).__name__)
def test_the_gradient_is_that_of_the_weighted_losses(method):
    ensemble, batch = make(method=method), data(8)
    ensemble.step(batch)
    for k, model in enumerate(models()):
        wanted = gradient_alone(model, ensemble.controller.weights[k], batch)
        torch.testing.assert_close(flat(ensemble.members, k, lambda p: p.grad), wanted)


def test_gradients_are_clipped_one_by_one():
    plain, clipped = make(), make(clip_norm=0.5)
    plain.step(data(8))
    clipped.step(data(8))
    norms = [flat(plain.members, k, lambda p: p.grad).norm() for k in range(K)]
    assert min(norms) > 0.5
    for k, norm in enumerate(norms):
        found = flat(clipped.members, k, lambda p: p.grad)
        torch.testing.assert_close(found, flat(plain.members, k, lambda p: p.grad) * 0.5 / norm)
    loose = make(clip_norm=1e6)
    loose.step(data(8))
    assert torch.equal(flat(loose.members, 0), flat(plain.members, 0))


@pytest.mark.parametrize("double_sampling", [True, False])
@pytest.mark.parametrize("clip_norm", [None, 0.01])
def test_slopes_are_those_of_the_second_half_along_the_gradient_before_clipping(double_sampling, clip_norm):
    """By differences, of a step so short that the losses are straight."""
    x, y = data(9)
    first, second = ((x[:5], y[:5]), (x[5:], y[5:])) if double_sampling else ((x, y), (x, y))
    found = {}
    for slopes in ("realized", "forward", "jacobian"):
        ensemble = make(
            method=ferero.FereroSA(gamma=0.1),
            lr=1e-6,
            slopes=slopes,
            double_sampling=double_sampling,
            clip_norm=clip_norm,
        )
        ensemble.step((x, y))
        found[slopes] = ensemble.controller.slopes.clone()
    torch.testing.assert_close(found["forward"], found["jacobian"])
    for k, model in enumerate(models()):
        gradient = gradient_alone(model, ensemble.controller.weights[k], first)
        step = 1e-6 * gradient
        before = torch.stack(list(squares(model, second).values()))
        nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(model.parameters()) - step, model.parameters())
        after = torch.stack(list(squares(model, second).values()))
        wanted = (after - before).detach() / 1e-6
        torch.testing.assert_close(found["jacobian"][k], wanted, rtol=1e-3, atol=1e-4)
        factor = 1.0 if clip_norm is None else min(1.0, clip_norm / float(gradient.norm()))
        torch.testing.assert_close(found["realized"][k], factor * wanted, rtol=1e-3, atol=1e-4)


def test_one_models_losses_have_no_part_in_anothers_gramian():
    ensemble, batch = make(method=ferero.Ferero(), preferences=[ORDER] * K), data(8)
    seen = {}
    step = ensemble.controller.step

    def spy(losses, gramian):
        seen["gramian"] = gramian
        return step(losses, gramian=gramian)

    ensemble.controller.step = spy
    ensemble.step(batch)
    for k, model in enumerate(models()):
        losses = torch.stack(list(squares(model, batch).values()))
        rows = [torch.autograd.grad(loss, list(model.parameters()), retain_graph=True) for loss in losses]
        J = torch.stack([torch.cat([part.flatten() for part in row]) for row in rows])
        torch.testing.assert_close(seen["gramian"][k], J @ J.T)


def test_a_parameter_that_no_loss_uses_stays():
    class Idle(Net):
        def __init__(self):
            super().__init__()
            self.idle = nn.Parameter(torch.ones(2))

    for method in (ferero.FereroPI(), ferero.Ferero(), ferero.FereroSA(gamma=0.01)):
        for slopes in ("realized", "forward", "jacobian"):
            members = Members([Idle().double()], 2, CPU)
            ensemble = Ensemble(
                members,
                squares,
                [RAY, RAY],
                method=method,
                optimizer=lambda p: torch.optim.SGD(p, lr=0.1),
                slopes=slopes,
            )
            ensemble.step(data(8))
            assert members.stacked["idle"].tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_looking_at_slopes_draws_no_random_numbers_and_moves_no_buffer():
    plain = make(method=ferero.Ferero(), net={"norm": True, "dropout": 0.5})
    torch.manual_seed(3)
    plain.step(data(8))
    wanted = torch.random.get_rng_state()
    for slopes in ("realized", "forward", "jacobian"):
        ensemble = make(
            method=ferero.FereroSA(gamma=0.01), net={"norm": True, "dropout": 0.5}, slopes=slopes, double_sampling=False
        )
        torch.manual_seed(3)
        ensemble.step(data(8))
        assert torch.equal(torch.random.get_rng_state(), wanted)
        for name, tensor in ensemble.members.stacked.items():
            if "running" in name or "tracked" in name:
                assert torch.equal(tensor, plain.members.stacked[name]), name


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_optimizers_that_are_allowed_do_not_mix_the_models(name):
    """One model trains on the same numbers, whatever the others are."""

    def run(scale):
        members = Members(models(), 1, CPU)
        for parameter in members.parameters:
            parameter.data[1:] *= scale
        ensemble = Ensemble(
            members,
            squares,
            [RAY] * K,
            method=ferero.FereroPI(),
            optimizer=lambda p: getattr(torch.optim, name)(p, lr=0.01),
        )
        for _ in range(4):
            ensemble.step(data(8))
        return flat(members, 0)

    assert torch.equal(run(1.0), run(3.0))


def test_it_goes_on_where_another_was():
    def adam(parameters):
        return torch.optim.Adam(parameters, lr=0.01)

    one, other = (
        make(optimizer=adam, method=ferero.FereroSA(gamma=0.1)),
        make(optimizer=adam, method=ferero.FereroSA(gamma=0.1)),
    )
    for step in range(3):
        one.step(data(8, seed=step))
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    for ensemble in (one, other):
        ensemble.step(data(8, seed=7))
    assert all(torch.equal(flat(one.members, k), flat(other.members, k)) for k in range(K))


def test_losses_without_a_graph():
    members = Members(models(), 1, CPU)
    ensemble = Ensemble(
        members,
        lambda model, batch: torch.ones(3),
        [RAY] * K,
        method=ferero.FereroPI(),
        optimizer=lambda p: torch.optim.SGD(p, lr=0.1),
    )
    with pytest.raises(InputError, match="loss_fn: expected losses attached to the graph"):
        ensemble.step(data(8))
