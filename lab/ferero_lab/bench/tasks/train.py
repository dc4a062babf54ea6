"""Trains a task: one model with a loss function of its own, or many side by side whose weights come from their values.

Both see the same batches, start at the same parameters and are measured at the same steps, so that what differs is the
weights alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from ferero_lab.bench.tasks.task import Task, make_optimizer

__all__ = ["Weigh", "look_steps", "train_alone", "train_together"]

Weigh: TypeAlias = Callable[[Tensor], Tensor]
"""From the losses of K models (K, m) to their weights (K, m), once a step; it may remember what it saw."""

LOOKS = 60
"""Measurements before the last tenth of the steps."""


def look_steps(task: Task) -> list[int]:
    """After how many steps the whole data set is measured: now and then, and every ten in the last tenth."""
    total = task.steps + task.lbfgs
    first = total - max(1, total // 10)
    last = range(total, first, -10 if task.lbfgs == 0 else -1)
    return sorted({*range(first, 0, -max(10, total // LOOKS)), *last})


def train_alone(
    task: Task, loss_of: Callable[[Tensor], Tensor], seed: int, after: Callable[[int], bool] | None = None
) -> Tensor:
    """Train one model.

    Args:
        task: what.
        loss_of: from the losses (m,) to the scalar that is differentiated, such as a `ferero.Steer`.
        seed: of parameters, batches and noise.
        after: called with the number of steps taken after each; training ends where it says True.

    Returns:
        The losses of the whole data set, (looks, m), NaN after a divergence or an early end.
    """
    model = task.model(seed)
    optimizer = make_optimizer(task, model.parameters())
    looks = look_steps(task)
    found = torch.full((len(looks), task.preference.m), torch.nan, dtype=torch.float64)
    for step in range(task.steps + task.lbfgs):
        if step == task.steps:
            optimizer = _lbfgs(model)

        def closure(at: int = step, by: torch.optim.Optimizer = optimizer) -> Tensor:
            by.zero_grad(set_to_none=True)
            losses = task.losses(model, at, seed)
            loss = loss_of(losses) if bool(torch.isfinite(losses).all()) else losses.sum()
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        _set_rate(optimizer, task, step)
        value = optimizer.step(closure)  # type: ignore[arg-type]
        if not bool(torch.isfinite(torch.as_tensor(value))):
            return found
        if step + 1 in looks:
            with torch.no_grad():
                found[looks.index(step + 1)] = task.evaluate(model).double()
        if after is not None and after(step + 1):
            return found
    return found


def train_together(task: Task, weigh: Weigh, count: int, seed: int) -> Tensor:
    """Train ``count`` models side by side, each with weights of its own.

    Returns:
        The losses of the whole data set, (count, looks, m), NaN after a divergence.
    """
    structure = task.model(seed)
    task.losses(structure, 0, seed)  # draws the batches, which must not happen inside vmap
    stacked, _ = stack_module_state([task.model(seed) for _ in range(count)])
    parameters = {name: nn.Parameter(tensor.detach().clone()) for name, tensor in stacked.items()}
    optimizer = make_optimizer(task, parameters.values())
    looks = look_steps(task)
    found = torch.full((count, len(looks), task.preference.m), torch.nan, dtype=torch.float64)
    for step in range(task.steps):
        losses = torch.vmap(lambda own, at=step: task.losses(_Member(structure, own), at, seed), randomness="same")(
            parameters
        )
        weights = weigh(losses.detach().double()).to(losses)
        optimizer.zero_grad(set_to_none=True)
        (weights * losses).sum().backward()  # type: ignore[no-untyped-call]
        _set_rate(optimizer, task, step)
        optimizer.step()
        if step + 1 in looks:
            with torch.no_grad():
                values = torch.vmap(lambda own: task.evaluate(_Member(structure, own)), randomness="same")(parameters)
            found[:, looks.index(step + 1)] = values.double()
    if task.lbfgs:
        _finish(task, structure, parameters, weigh, seed, found)
    return found


def _finish(
    task: Task, structure: nn.Module, parameters: dict[str, nn.Parameter], weigh: Weigh, seed: int, found: Tensor
) -> None:
    """The steps of L-BFGS, which mixes all numbers it is given and so gets one model at a time."""
    looks = look_steps(task)
    copies = []
    for k in range(len(found)):
        own = {name: nn.Parameter(stacked[k].detach().clone()) for name, stacked in parameters.items()}
        copies.append((_Member(structure, own), _lbfgs(own.values())))
    for step in range(task.steps, task.steps + task.lbfgs):
        with torch.no_grad():
            values = torch.stack([task.losses(model, step, seed) for model, _ in copies])
        weights = weigh(values.double()).to(values)
        for k, (model, optimizer) in enumerate(copies):
            if not bool(torch.isfinite(values[k]).all()):
                continue

            def closure(one: Any = model, own: Tensor = weights[k], by: Any = optimizer, at: int = step) -> Tensor:
                by.zero_grad()
                loss = (own * task.losses(one, at, seed)).sum()
                loss.backward()  # type: ignore[no-untyped-call]
                return loss

            optimizer.step(closure)  # type: ignore[arg-type]
            if step + 1 in looks:
                with torch.no_grad():
                    found[k, looks.index(step + 1)] = task.evaluate(model).double()


def _lbfgs(of: nn.Module | Sequence[nn.Parameter] | Any) -> torch.optim.Optimizer:
    parameters = of.parameters() if isinstance(of, nn.Module) else of
    return torch.optim.LBFGS(parameters, lr=1.0, max_iter=10, line_search_fn="strong_wolfe")


def _set_rate(optimizer: torch.optim.Optimizer, task: Task, step: int) -> None:
    if task.drop and step < task.steps:
        for group in optimizer.param_groups:
            group["lr"] = task.rate(step)


class _Member(nn.Module):
    """One of many models that share their structure: the structure, with this one's parameters."""

    def __init__(self, structure: nn.Module, parameters: Any) -> None:
        super().__init__()
        self._call = partial(functional_call, structure, parameters)
        self._own = parameters

    def forward(self, *inputs: Tensor) -> Any:
        return self._call(inputs)

    def parameters(self, recurse: bool = True) -> Any:  # noqa: ARG002  # nn.Module's
        """This one's."""
        return iter(self._own.values())
