"""A steer inside a checkpoint: what the backward pass recomputes moves nothing twice, and gradients stay right."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import ferero
from ferero.training import Steer
from ferero.training import _repeats as repeats

f = ferero.objectives("a", "b")
PREFERENCE = ferero.Preference(f, [f.a <= 0.5])


class Net(nn.Module):
    def __init__(self, **how):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.drop = nn.Linear(3, 2).double(), nn.Dropout(0.5)
        self.steer = Steer(PREFERENCE, **how)

    def forward(self, x):
        return self.steer(self.drop(torch.tanh(self.layer(x))).square().mean(dim=0) + 0.1).exp()


def batches(count):
    return torch.randn(count, 16, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def run(net, x, how):
    if how is None:
        return net(x)
    if how == "nested":
        return checkpoint(lambda y: checkpoint(net, y, use_reentrant=False), x, use_reentrant=False)
    return checkpoint(net, x.clone().requires_grad_(), use_reentrant=how == "reentrant")


def trained(how, every=1, at_once=1, steps=6):
    """Gradients, and the steer, after some steps of so many batches before each backward pass."""
    net, found = Net(every=every), []
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    torch.manual_seed(2)
    for group in batches(steps * at_once).split(at_once):
        optimizer.zero_grad()
        torch.stack([run(net, x, how) for x in group]).sum().backward()
        optimizer.step()
        found.append(net.layer.weight.grad.clone())
    return found, net.steer


@pytest.mark.parametrize("how", ["kept apart", "nested", "reentrant"])
@pytest.mark.parametrize("every", [1, 2])
def test_as_without_a_checkpoint(how, every):
    plain, steer = trained(None, every)
    found, other = trained(how, every)
    torch.testing.assert_close(found, plain, rtol=1e-12, atol=0)
    assert other.record_arrived.tolist() == steer.record_arrived.tolist()
    assert torch.equal(other.calls, steer.calls)
    torch.testing.assert_close(other.weights, steer.weights, rtol=1e-12, atol=0)


class Bare(Net):
    """What the steer returns is not changed any more."""

    def forward(self, x):
        return self.steer(torch.tanh(self.layer(x)).square().mean(dim=0) + 0.1)


def test_every_batch_keeps_its_own_weights():
    """Two batches are weighted, differently, before one backward pass recomputes both."""
    nets = Bare(), Bare()
    for net, is_kept in zip(nets, (True, False), strict=True):
        losses = [net(x) if is_kept else checkpoint(net, x, use_reentrant=False) for x in batches(2)]
        torch.stack(losses).sum().backward()
        assert int(net.steer.record_arrived.max()) == 2
    torch.testing.assert_close(nets[1].layer.weight.grad, nets[0].layer.weight.grad, rtol=1e-12, atol=0)


def test_reentrant_checkpoints_move_once_for_every_batch_on_the_way():
    _, steer = trained("reentrant", at_once=3, steps=2)
    assert int(steer.record_arrived.max()) == 6


def test_reentrant_checkpoints_hold_in_closures_that_are_repeated():
    net, evaluations = Net(), []
    optimizer = torch.optim.LBFGS(net.layer.parameters(), lr=0.1, max_iter=4)
    (x,) = batches(1)

    def closure():
        optimizer.zero_grad()
        torch.manual_seed(0)
        loss = run(net, x, "reentrant")
        loss.backward()
        evaluations.append(net.steer.weights.clone())
        return loss

    optimizer.step(closure)
    assert len(evaluations) > 2
    assert int(net.steer.record_arrived.max()) == 1


def test_a_step_after_evaluation_moves():
    net = Net()
    net.eval()
    with torch.no_grad():
        net(batches(1)[0])
    net.train()
    for count, x in enumerate(batches(3), start=1):
        run(net, x, "kept apart").backward()
        assert int(net.steer.record_arrived.max()) == count


def test_a_skipped_batch_inside_a_checkpoint_leaves_no_gradient():
    net = Net(on_nonfinite="skip")
    run(net, batches(1)[0] * torch.nan, "kept apart").backward()
    assert net.layer.weight.grad is None
    assert net.steer.record_skipped == 1


def test_torch_still_tells_what_is_asked_of_it():
    """Both have no public name, and without them a recomputation could not be told from a call."""
    assert not repeats.is_in_backward()
    found, x = [], torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda _: found.append(repeats.is_in_backward()))
    y.sum().backward()
    assert found == [True]
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        assert repeats._top_hooks(False) is not None
    assert repeats._top_hooks(False) is None
