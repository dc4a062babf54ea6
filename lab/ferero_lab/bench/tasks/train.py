"""Trains a task and scores the run: one model with a loss function of its own, or many side by side.

Both see the same batches, start at the same parameters and are measured at the same steps, so that what differs is the
weights alone. A score has relative violations, the objective, and the step from which on the constraints held.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import stack_module_state

from ferero_lab.bench.steer.steer_task import StackedModel
from ferero_lab.bench.tasks.task import Task, make_optimizer

__all__ = [
    "MEAN",
    "WORST",
    "Score",
    "Weigh",
    "evaluation_steps",
    "relative_violations",
    "score",
    "train_alone",
    "train_together",
]

Weigh: TypeAlias = Callable[[Tensor], Tensor]
"""From the losses of K models (K, m) to their weights (K, m), once a step; it may have state."""

EVALUATIONS = 60
"""Evaluations before the last tenth of the steps."""

MEAN, WORST = 0.01, 0.05
"""Largest relative violation that counts as met: of the last tenth's mean losses, and of each of its evaluations."""


def evaluation_steps(task: Task) -> list[int]:
    """After how many steps the whole data set is measured: now and then, and every ten in the last tenth."""
    total = task.steps + task.lbfgs
    first = total - max(1, total // 10)
    last = range(total, first, -10 if task.lbfgs == 0 else -1)
    return sorted({*range(first, 0, -max(10, total // EVALUATIONS)), *last})


def train_alone(
    task: Task, loss_of: Callable[[Tensor], Tensor], seed: int, after: Callable[[int], bool] | None = None
) -> Tensor:
    """Train one model.

    Args:
        task: the training.
        loss_of: from the losses (m,) to the scalar that is differentiated, such as a `ferero.Steer`.
        seed: of parameters, batches and noise.
        after: called with the number of steps taken after each; training ends where it says True.

    Returns:
        The losses of the whole data set, (evaluations, m), NaN after a divergence or an early end.
    """
    model = task.model(seed)
    optimizer = make_optimizer(task, model.parameters())
    evaluations = evaluation_steps(task)
    found = torch.full((len(evaluations), task.preference.m), torch.nan, dtype=torch.float64)
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
        if step + 1 in evaluations:
            with torch.no_grad():
                found[evaluations.index(step + 1)] = task.evaluate(model).double()
        if after is not None and after(step + 1):
            return found
    return found


def train_together(task: Task, weigh: Weigh, count: int, seed: int) -> Tensor:
    """Train ``count`` models side by side, each with weights of its own.

    Returns:
        The losses of the whole data set, (count, evaluations, m), NaN after a divergence.
    """
    structure = task.model(seed)
    task.losses(structure, 0, seed)  # draws the batches, which must not happen inside vmap
    stacked, _ = stack_module_state([task.model(seed) for _ in range(count)])
    parameters = {name: nn.Parameter(tensor.detach().clone()) for name, tensor in stacked.items()}
    optimizer = make_optimizer(task, parameters.values())
    evaluations = evaluation_steps(task)
    found = torch.full((count, len(evaluations), task.preference.m), torch.nan, dtype=torch.float64)
    for step in range(task.steps):
        losses = torch.vmap(
            lambda own, at=step: task.losses(StackedModel(structure, own), at, seed), randomness="same"
        )(parameters)
        weights = weigh(losses.detach().double()).to(losses)
        optimizer.zero_grad(set_to_none=True)
        (weights * losses).sum().backward()  # type: ignore[no-untyped-call]
        _set_rate(optimizer, task, step)
        optimizer.step()
        if step + 1 in evaluations:
            with torch.no_grad():
                values = torch.vmap(lambda own: task.evaluate(StackedModel(structure, own)), randomness="same")(
                    parameters
                )
            found[:, evaluations.index(step + 1)] = values.double()
    if task.lbfgs:
        _train_lbfgs(task, structure, parameters, weigh, seed, found)
    return found


def _train_lbfgs(
    task: Task, structure: nn.Module, parameters: dict[str, nn.Parameter], weigh: Weigh, seed: int, found: Tensor
) -> None:
    """The steps of L-BFGS, which mixes all numbers it is given and so gets one model at a time."""
    evaluations = evaluation_steps(task)
    copies = []
    for k in range(len(found)):
        own = {name: nn.Parameter(stacked[k].detach().clone()) for name, stacked in parameters.items()}
        copies.append((StackedModel(structure, own), _lbfgs(own.values())))
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
            if step + 1 in evaluations:
                with torch.no_grad():
                    found[k, evaluations.index(step + 1)] = task.evaluate(model).double()


def _lbfgs(of: nn.Module | Sequence[nn.Parameter] | Any) -> torch.optim.Optimizer:
    parameters = of.parameters() if isinstance(of, nn.Module) else of
    return torch.optim.LBFGS(parameters, lr=1.0, max_iter=10, line_search_fn="strong_wolfe")


def _set_rate(optimizer: torch.optim.Optimizer, task: Task, step: int) -> None:
    if task.drop and step < task.steps:
        for group in optimizer.param_groups:
            group["lr"] = task.rate(step)


@dataclass(frozen=True)
class Score:
    """The result of one run.

    Attributes:
        mean: the largest relative violation of the mean losses over the last tenth of the steps; inf if it diverged.
        worst: that of the worst evaluation.
        objective: its mean.
        held: steps after which no evaluation violates a constraint by more than 5 %; inf where the last one does.
    """

    mean: float
    worst: float
    objective: float
    held: float

    @property
    def is_met(self) -> bool:
        """Whether the mean is within 1 % and every evaluation within 5 %."""
        return self.mean <= MEAN and self.worst <= WORST


def relative_violations(task: Task, losses: Tensor) -> Tensor:
    """The largest violation (...) of losses (..., m), over the bound, or over the row's largest term where it is 0."""
    p = task.preference
    B, b = torch.cat([p.B_g, p.B_h]), torch.cat([p.b_g, p.b_h])
    values = losses @ B.T + b
    size = torch.where(b == 0, (B * losses[..., None, :]).abs().amax(dim=-1), b.abs())
    relative = values / torch.where(size == 0, 1.0, size)
    signed = torch.cat([relative[..., : p.m_g].clamp(min=0), relative[..., p.m_g :].abs()], dim=-1)
    return signed.amax(dim=-1)


def score(task: Task, found: Tensor) -> Score:
    """From the losses of the whole data set at the evaluations, (evaluations, m)."""
    steps = torch.tensor(evaluation_steps(task))
    total = task.steps + task.lbfgs
    tail = found[steps > total - max(1, total // 10)]
    if not bool(torch.isfinite(tail).all()):
        return Score(torch.inf, torch.inf, torch.inf, torch.inf)
    violations = relative_violations(task, found)
    objective = task.preference.A.mean(dim=0) if len(task.preference.A) > 1 else task.preference.A[0]
    bad = torch.nonzero(~(violations <= WORST))
    last_bad = int(bad[-1]) if len(bad) else -1
    held = torch.inf if last_bad == len(steps) - 1 else float(steps[last_bad + 1])
    return Score(
        float(relative_violations(task, tail.mean(dim=0))),
        float(violations[steps > total - max(1, total // 10)].max()),
        float((tail @ objective).mean()),
        held,
    )
