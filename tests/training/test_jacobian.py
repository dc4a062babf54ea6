"""The jacobian and its gramian of any model, whatever its parameters are."""

from __future__ import annotations

import pytest
import torch
from tests.training.zoo import batch, dense, gradients_at, losses_of, make, trained

from ferero.training._jacobian import add_to_gradients, gramian, jacobian


@pytest.mark.parametrize("chunk", [1, 2, 3, 7])
def test_rows_are_the_gradients_of_each_loss(chunk):
    model, x = make(), batch()
    parameters = trained(model)
    rows = jacobian(losses_of(model, x), parameters, chunk)
    for i in range(3):
        model.zero_grad()
        losses_of(model, x)[i].backward()
        for row, parameter in zip(rows, parameters, strict=True):
            expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            torch.testing.assert_close(torch.zeros_like(parameter) if row is None else row[i], expected)
    unused = {id(p) for p in model.unused.parameters()}
    assert {id(p) for p, row in zip(parameters, rows, strict=True) if row is None} == unused
    private = rows[[id(p) for p in parameters].index(id(model.heads[0].weight))]
    assert bool((private[1:] == 0).all())


def test_the_gramian_is_that_of_the_whole_jacobian():
    model, x = make(), batch()
    losses = losses_of(model, x)
    rows = jacobian(losses, trained(model))
    J = dense(rows, trained(model))
    torch.testing.assert_close(gramian(rows, losses), J @ J.mT, rtol=1e-12, atol=0)


def test_the_gramian_is_in_float64_whatever_the_model_is():
    model, x = make().float(), batch().float()
    losses = losses_of(model, x)
    K = gramian(jacobian(losses, trained(model)), losses)
    assert K.dtype == torch.float64
    assert torch.linalg.eigvalsh(K).min() > 0


def test_weighted_rows_are_the_gradient_of_the_weighted_loss():
    model, x = make(), batch()
    parameters, expected = gradients_at(model, x)
    expected = [None if g is None else g.clone() for g in expected]
    model.zero_grad()
    add_to_gradients(
        parameters, jacobian(losses_of(model, x), parameters), torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64)
    )
    for parameter, g in zip(parameters, expected, strict=True):
        assert (parameter.grad is None) == (g is None)
        if g is not None:
            torch.testing.assert_close(parameter.grad, g)
