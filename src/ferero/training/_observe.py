"""Gramian and slopes of any model: the only place, with the stepper, that sees parameters.

A parameter that a loss does not depend on has the gradient 0 there: one head's, a frozen one's, one that is never used.

| | passes | what it gives |
|---|---|---|
| `jacobian` | m backward | the rows of J, from which the gramian ``J J^T`` and any slopes follow |
| `forward_slopes` | one forward-mode | ``J d`` for the infinitesimal step d, whatever m is |
| `realized_slopes` | two plain forward | (losses after the step - losses before it) / step size |
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.autograd import forward_ad

from ferero.errors import UnsupportedError
from ferero.training._joint import ranks_of

__all__ = [
    "Rows",
    "add_to_gradients",
    "average_rows",
    "forward_slopes",
    "gramian",
    "in_forward_mode",
    "jacobian",
    "jacobian_slopes",
    "realized_slopes",
]

Rows: TypeAlias = list[Tensor | None]
T = TypeVar("T")
_NO_FORWARD_MODE = re.compile(r"forward[ -](mode )?(AD|differentiation)", re.IGNORECASE)
_OPERATOR = re.compile(r"forward AD with (\S+)")


# m backward passes ----------------------------------------------------------------------------------------


def jacobian(losses: Tensor, parameters: Sequence[Tensor], chunk: int = 1) -> Rows:
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
    rows: Rows = [None] * len(parameters)
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


def gramian(rows: Rows, like: Tensor) -> Tensor:
    """``K = sum_p J_p J_p^T``, (m, m), float64, on the device of ``like`` (m,)."""
    m = len(like)
    K = torch.zeros(m, m, dtype=torch.float64, device=like.device)
    for row in rows:
        if row is not None:
            flat = row.reshape(len(row), -1).double()
            K += (flat @ flat.mT).to(K.device)
    return K


def average_rows(rows: Rows, parameters: Sequence[Tensor], m: int, group: distributed.ProcessGroup | None) -> Rows:
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
    averaged: Rows = []
    for parameter, row, count in zip(parameters, rows, used.tolist(), strict=True):
        if count == 0:
            averaged.append(None)
            continue
        whole = parameter.new_zeros(m, *parameter.shape) if row is None else row
        distributed.all_reduce(whole, group=group)
        averaged.append(whole.div_(ranks))
    return averaged


def add_to_gradients(parameters: Sequence[Tensor], rows: Rows, weights: Tensor) -> None:
    """``p.grad += J_p^T w``, as one backward pass on the weighted sum would; weights (m,)."""
    for parameter, row in zip(parameters, rows, strict=True):
        if row is not None:
            gradient = torch.tensordot(weights.to(row), row, dims=1).to(parameter.dtype)
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient


# slopes ---------------------------------------------------------------------------------------------------


def jacobian_slopes(losses: Tensor, parameters: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> Tensor:
    """``-J g`` along minus the gradient g, by m backward passes of which one is kept at a time.

    Args:
        losses: (m,), with the graph, which is freed.
        parameters: What is trained.
        gradients: g, one for each; None for 0.

    Returns:
        (m,), float64.
    """
    slopes = torch.zeros(len(losses), dtype=torch.float64, device=losses.device)
    moved = [(p, g) for p, g in zip(parameters, gradients, strict=True) if g is not None]
    if not losses.requires_grad or not moved:
        return slopes
    inputs, along = zip(*moved, strict=True)
    for i in range(len(losses)):
        found = torch.autograd.grad(losses[i], inputs, retain_graph=i < len(losses) - 1, allow_unused=True)
        for row, g in zip(found, along, strict=True):
            if row is not None:
                slopes[i] -= (row * g).sum(dtype=torch.float64).to(slopes.device)
    return slopes


def forward_slopes(
    model: nn.Module,
    evaluate: Callable[[nn.Module], tuple[Tensor, T]],
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
) -> tuple[Tensor, T]:
    """``-J g`` along minus the gradient g, by one forward-mode pass.

    Args:
        model: The bare module.
        evaluate: Gives sums of losses, (m,), and anything else, and may do anything with the model.
        parameters: What is trained; all of it must be the model's.
        gradients: g, one for each; None for 0.

    Returns:
        The slopes of the sums, (m,), and the anything else.

    Raises:
        UnsupportedError: An operator without forward mode, or a parameter that is not the model's.
    """
    with torch.no_grad(), forward_ad.dual_level(), _exchanged(model, _duals(parameters, gradients)):
        with in_forward_mode():
            sums, rest = evaluate(model)
        tangent = forward_ad.unpack_dual(sums).tangent  # type: ignore[no-untyped-call]
        return (torch.zeros_like(sums) if tangent is None else -tangent), rest


@contextmanager
def in_forward_mode() -> Iterator[None]:
    """Whatever runs inside in forward mode says so where an operator has none.

    Raises:
        UnsupportedError: Naming the operator.
    """
    try:
        yield
    except (NotImplementedError, RuntimeError) as error:
        if _NO_FORWARD_MODE.search(str(error)) is None:
            raise
        raise UnsupportedError(_without_forward_mode(str(error))) from error


def _duals(parameters: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> dict[int, Tensor]:
    """Each parameter with its tangent, by the parameter's id."""
    with warnings.catch_warnings():  # torch's own set-up of forward mode, at the first call, uses what it deprecates
        warnings.simplefilter("ignore", DeprecationWarning)
        return {
            id(p): forward_ad.make_dual(p.detach(), g.detach())  # type: ignore[no-untyped-call]
            for p, g in zip(parameters, gradients, strict=True)
            if g is not None
        }


@contextmanager
def _exchanged(model: nn.Module, duals: Mapping[int, Tensor]) -> Iterator[None]:
    """Others in the places of the parameters, in all of them where one is tied; cheaper than `functional_call`."""
    places = [
        (module._parameters, name, parameter)
        for module in model.modules()
        for name, parameter in module._parameters.items()
        if id(parameter) in duals
    ]
    if len({id(parameter) for _, _, parameter in places}) < len(duals):
        raise UnsupportedError(
            'slopes="forward": the optimizer has a parameter that is not among the model\'s, so forward mode cannot '
            'reach it; make it one (a submodule of model), or take slopes="realized".'
        )
    try:
        for slots, name, parameter in places:
            slots[name] = duals[id(parameter)]  # type: ignore[assignment]  # as functional_call does
        yield
    finally:
        for slots, name, parameter in places:
            slots[name] = parameter


def realized_slopes(before: Tensor, after: Tensor, step_size: float | Tensor) -> Tensor:
    """``(after - before) / step_size``, (m,), float64; 0 where that is not finite, or the step size is 0."""
    change = after.double() - before.double()
    if isinstance(step_size, Tensor):
        slopes = change / step_size.to(change)  # of a step of 0: not finite
    else:
        slopes = change / step_size if step_size else torch.zeros_like(change)
    return torch.nan_to_num(slopes, nan=0.0, posinf=0.0, neginf=0.0)


def _without_forward_mode(message: str) -> str:
    found: Any = _OPERATOR.search(message)
    operator = found.group(1) if found else message.splitlines()[0]
    return (
        f'slopes="forward": torch has no forward mode for {operator} (it is missing for CTC, LSTM and fused attention '
        'among others); take slopes="realized", which needs none.'
    )
