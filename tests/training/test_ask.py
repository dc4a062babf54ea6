"""`Steer.ask`: another preference in the middle of training."""

import copy

import pytest
import torch

import ferero
from ferero import Preference
from ferero.errors import InputError, UnsupportedError

f = ferero.objectives("a", "b")
FIRST = Preference(f, [f.a <= 0.5, f.a - f.b == 0.25])


def train(steer, theta, steps, noise=None):
    for _ in range(steps):
        losses = theta.square() + (0 if noise is None else 0.01 * torch.randn(2, generator=noise))
        (grad,) = torch.autograd.grad(steer(losses), theta)
        theta = (theta - 0.01 * grad).detach().requires_grad_()
    return theta


def start():
    return torch.tensor([2.0, 1.5], dtype=torch.float64, requires_grad=True)


def same(one, other):
    return all(torch.equal(x, y) for x, y in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


def test_asking_for_the_same_changes_nothing():
    one, other = ferero.Steer(FIRST), ferero.Steer(FIRST)
    x, y = train(one, start(), 20), train(other, start(), 20)
    other.ask(Preference(f, [f.a <= 0.5, f.a - f.b == 0.25]))
    assert same(one, other)
    assert torch.equal(train(one, x, 20), train(other, y, 20))
    assert same(one, other)


def test_matching_constraints_keep_their_logits_and_others_start_anew():
    steer = ferero.Steer(Preference(f, [f.a <= 0.5, f.b <= 0.1]))
    train(steer, start(), 20)
    before, mean = steer.state.method.logits.clone(), steer.record.mean.clone()
    steer.ask(Preference(f, [f.b <= 0.2, f.a + f.b <= 1]))
    assert steer.state.method.logits.tolist() == [float(before[1]), 0.0]
    assert float(steer.record.mean[0]) == pytest.approx(float(mean[1]) - 0.1)
    assert [row.label for row in steer.report().constraints] == ["b <= 0.2", "a + b <= 1"]


@pytest.mark.slow
def test_the_new_preference_is_met():
    steer = ferero.Steer(Preference(f, [f.a >= 1.0], minimize=f.a + f.b))
    theta = train(steer, start(), 600)
    steer.ask(Preference(f, [f.b >= 0.5], minimize=f.a + f.b))
    a, b = train(steer, theta, 3000).square().tolist()
    assert a < 0.1
    assert b == pytest.approx(0.5, abs=0.05)


def test_resume_is_exact_after_asking():
    steer, noise = ferero.Steer(FIRST), torch.Generator().manual_seed(0)
    theta = train(steer, start(), 20, noise)
    asked = Preference(f, [f.b <= 0.3, f.a <= 0.4])
    steer.ask(asked)
    theta = train(steer, theta, 5, noise)
    resumed, other = ferero.Steer(asked), torch.Generator()
    resumed.load_state_dict(copy.deepcopy(steer.state_dict()))
    other.set_state(noise.get_state())
    assert torch.equal(train(steer, theta, 20, noise), train(resumed, theta, 20, other))
    assert same(steer, resumed)


def test_refused_calls_change_nothing():
    steer = ferero.Steer(FIRST)
    train(steer, start(), 5)
    before = copy.deepcopy(steer)
    g = ferero.objectives("b", "a")
    with pytest.raises(InputError, match="ask: expected a preference over the same losses, a, b, found b, a; name"):
        steer.ask(Preference(g, [g.a <= 1]))
    with pytest.raises(InputError, match="expected a single one, found a stack"):
        steer.ask(Preference.stack([FIRST]))
    with pytest.raises(InputError, match=r"it cannot be assigned; call steer\.ask\(preference\)"):
        steer.preference = FIRST
    assert same(steer, before)
    assert steer.preference is FIRST


def test_other_methods_are_refused():
    steer = ferero.Steer(Preference.ray([1.0, 1.0], names=f), ferero.Tchebycheff())
    with pytest.raises(UnsupportedError, match="ask: expected FereroPI, found Tchebycheff"):
        steer.ask(Preference.ray([1.0, 2.0], names=f))
