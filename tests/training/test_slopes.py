"""Slopes of any model: three ways to the same numbers, whatever the parameters are."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from tests.training.zoo import batch, dense, gradients_at, losses_of, make, relative
from torch import nn
from torch.nn import functional

from ferero.errors import UnsupportedError
from ferero.training._jacobian import gramian, jacobian
from ferero.training._slopes import forward_slopes, jacobian_slopes, realized_slopes


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_forward_mode_agrees_with_the_jacobian(mode):
    model, other = make(), batch(10, seed=2)
    getattr(model, mode)()
    parameters, gradients = gradients_at(model, batch())
    backward = jacobian_slopes(losses_of(model, other), parameters, gradients)
    J = dense(jacobian(losses_of(model, other), parameters), parameters)
    g = torch.cat(
        [
            torch.zeros(p.numel()).double() if q is None else q.flatten()
            for p, q in zip(parameters, gradients, strict=True)
        ]
    )
    assert relative(backward, -J @ g) <= 1e-12
    forward, counts = forward_slopes(model, lambda m: (losses_of(m, other), torch.ones(3)), parameters, gradients)
    assert relative(forward, backward) <= 1e-10
    assert counts.tolist() == [1, 1, 1]


def test_slopes_on_the_same_batch_are_minus_the_gramian_times_the_weights():
    model, x, w = make(), batch(), torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64)
    parameters, gradients = gradients_at(model, x)
    losses = losses_of(model, x)
    K = gramian(jacobian(losses, parameters), losses)
    assert relative(jacobian_slopes(losses_of(model, x), parameters, gradients), -K @ w) <= 1e-12


def test_realized_slopes_become_infinitesimal_ones():
    model, other = make("plain"), batch(10, seed=2)
    parameters, gradients = gradients_at(model, batch())
    exact = jacobian_slopes(losses_of(model, other), parameters, gradients)
    before, errors = losses_of(model, other).detach(), []
    start = [p.detach().clone() for p in parameters]
    for lr in (1e-2, 1e-3, 1e-4, 1e-5):
        with torch.no_grad():
            for p, p0, g in zip(parameters, start, gradients, strict=True):
                p.copy_(p0 if g is None else p0 - lr * g)
            errors.append(relative(realized_slopes(before, losses_of(model, other), lr), exact))
    assert errors[-1] < 1e-4
    assert all(late < 0.2 * early for early, late in pairwise(errors))


@pytest.mark.parametrize("lr", [0.0, torch.tensor(0.0)])
def test_no_step_has_no_slope(lr):
    assert realized_slopes(torch.ones(2), torch.ones(2), lr).tolist() == [0, 0]


@pytest.mark.parametrize("lr", [0.5, torch.tensor(0.5)])
def test_what_is_not_finite_after_the_step_says_nothing(lr):
    found = realized_slopes(torch.ones(2), torch.tensor([torch.inf, 0.5]), lr)
    assert found.tolist() == [0, -1]


# what forward mode cannot do ---------------------------------------------------------------------------------


class Ctc(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 5)

    def forward(self, x):
        scores = self.layer(x).log_softmax(dim=-1)
        lengths = torch.tensor([x.shape[0]] * x.shape[1])
        return functional.ctc_loss(scores, torch.ones(x.shape[1], 2, dtype=torch.long), lengths, lengths * 0 + 2)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(3, 4)

    def forward(self, x):
        return self.layer(x)[0].square().mean()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, x):
        q = self.layer(x)[:, None]
        return functional.scaled_dot_product_attention(q, q, q).square().mean()


class OwnOperator(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Own(Attention):
    def forward(self, x):
        return OwnOperator.apply(self.layer(x)).mean()


@pytest.mark.parametrize(
    ("kind", "operator"),
    [(Ctc, "ctc_loss"), (Lstm, "rnn|lstm"), (Attention, "scaled_dot_product.*attention"), (Own, "jvp")],
)
def test_an_operator_without_forward_mode_is_named_and_the_way_out(kind, operator):
    model, x = kind(), torch.randn(6, 2, 3)
    gradients = [torch.ones_like(p) for p in model.parameters()]
    with pytest.raises(UnsupportedError, match=f'(?s)slopes="forward".*({operator}).*slopes="realized"'):
        forward_slopes(model, lambda m: (m(x)[None], torch.ones(1)), list(model.parameters()), gradients)


def test_a_parameter_that_is_not_the_models():
    model, extra = nn.Linear(2, 1), torch.zeros(1, requires_grad=True)
    with pytest.raises(UnsupportedError, match="not among the model's"):
        forward_slopes(model, lambda m: (m.weight[0], torch.ones(2)), [extra], [torch.ones(1)])


def test_another_error_of_the_model_is_its_own():
    model = nn.Linear(2, 1)
    with pytest.raises(RuntimeError, match="shapes"):
        forward_slopes(model, lambda m: (m(torch.ones(3, 5)), torch.ones(1)), [model.weight], [torch.ones(1, 2)])
