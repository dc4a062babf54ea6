"""Gradients of single losses: the jacobian by m backward passes, its gramian, and weighted sums of its rows.

A parameter that a loss does not depend on has the gradient 0 there: one head's, a frozen one's, one that is never used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor, distributed

from ferero.training._distributed import ranks_of

JacobianRows: TypeAlias = list[Tensor | None]


def jacobian(losses: Tensor, parameters: Sequence[Tensor], chunk: int = 1) -> JacobianRows:
    """The gradients of all losses, ``J_p[i] = d losses[i] / d p``.

    Args:
        losses: (m,), with the graph, which is freed.
        parameters: Leaves of the graph, or not in it.
        chunk: Losses per backward pass: above 1 they are vmapped, which is faster for small models and needs the
            memory of that many passes at once.

    Returns:
        For each parameter p (m, ...) with the shape of p; None where no loss depends on it.
    """
    m = len(losses)
    rows: JacobianRows = [None] * len(parameters)
    unit = torch.eye(m, dtype=losses.dtype, device=losses.device)
    for begin in range(0, m, chunk):
        end = min(begin + chunk, m)
        found = torch.autograd.grad(
            losses,
            parameters,
            unit[begin:end] if chunk > 1 else unit[begin],
            retain_graph=end < m,
            allow_unused=True,
            is_grads_batched=chunk > 1,
        )
        for j, (parameter, gradient) in enumerate(zip(parameters, found, strict=True)):
            if gradient is not None:
                row = rows[j]
                if row is None:
                    row = rows[j] = torch.zeros(m, *parameter.shape, dtype=gradient.dtype, device=gradient.device)
                row[begin:end] = gradient
    return rows


def gramian(rows: JacobianRows, like: Tensor) -> Tensor:
    """``K = sum_p J_p J_p^T``, (m, m), float64, on the device of ``like`` (m,)."""
    m = len(like)
    K = torch.zeros(m, m, dtype=torch.float64, device=like.device)
    for row in rows:
        if row is not None:
            flat = row.reshape(len(row), -1).double()
            K += (flat @ flat.mT).to(K.device)
    return K


def average_rows(
    rows: JacobianRows, parameters: Sequence[Tensor], m: int, group: distributed.ProcessGroup | None
) -> JacobianRows:
    """The rows of the joint batch: means over all ranks; None only where no rank has any.

    Args:
        rows: This rank's.
        parameters: The parameters they belong to, the same on all ranks.
        m: The number of losses.
        group: The processes that train together.
    """
    ranks = ranks_of(group)
    if ranks == 1 or not parameters:
        return rows
    used = torch.tensor([row is not None for row in rows], dtype=torch.int32, device=parameters[0].device)
    distributed.all_reduce(used, group=group)
    averaged: JacobianRows = []
    for parameter, row, count in zip(parameters, rows, used.tolist(), strict=True):
        if count == 0:
            averaged.append(None)
            continue
        whole = parameter.new_zeros(m, *parameter.shape) if row is None else row
        distributed.all_reduce(whole, group=group)
        averaged.append(whole.div_(ranks))
    return averaged


def add_to_gradients(parameters: Sequence[Tensor], rows: JacobianRows, weights: Tensor) -> None:
    """``p.grad += J_p^T w``, as one backward pass on the weighted sum would; weights (m,)."""
    for parameter, row in zip(parameters, rows, strict=True):
        if row is not None:
            gradient = torch.tensordot(weights.to(row), row, dims=1).to(parameter.dtype)
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
