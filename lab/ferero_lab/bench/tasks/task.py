"""What a task is: a model, its losses, a preference and an optimizer. Only the weights of the losses are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

import ferero

__all__ = ["Evaluate", "Losses", "OptimizerName", "Task", "make_optimizer", "normals"]

OptimizerName: TypeAlias = Literal["sgd", "momentum", "adam", "adamw"]
Losses: TypeAlias = Callable[[nn.Module, int, int], Tensor]
Evaluate: TypeAlias = Callable[[nn.Module], Tensor]


@dataclass(frozen=True)
class Task:
    """One ordinary training under constraints.

    Attributes:
        name: such as "vae 4": the family, then the level.
        preference: constraints, and what is minimised.
        model: ``model(seed)``, a fresh one.
        losses: ``losses(model, step, seed)``, (m,), on the minibatch of that step; a function of its arguments alone,
            so that every method trains on the same batches.
        evaluate: ``evaluate(model)``, (m,), on the whole data set and without noise.
        steps: how many.
        rates: the learning rate of each optimizer that suits the task; the first is the usual one.
        optimizer: which of them.
        drop: whether the rate drops tenfold halfway.
        lbfgs: steps of L-BFGS that follow.
        form: how this differs from the task as it usually is, such as "a quarter of the steps".
    """

    name: str
    preference: ferero.Preference
    model: Callable[[int], nn.Module]
    losses: Losses
    evaluate: Evaluate
    steps: int
    rates: Mapping[OptimizerName, float]
    optimizer: OptimizerName
    drop: bool = False
    lbfgs: int = 0
    form: str = "as it is"

    def rate(self, step: int) -> float:
        """The learning rate at a step."""
        return self.rates[self.optimizer] * (0.1 if self.drop and step >= self.steps // 2 else 1.0)


def make_optimizer(task: Task, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """The optimizer at its first rate."""
    rate = task.rate(0)
    if task.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=rate)
    if task.optimizer == "adamw":
        return torch.optim.AdamW(parameters, lr=rate, weight_decay=1e-2)
    return torch.optim.SGD(parameters, lr=rate, momentum=0.9 if task.optimizer == "momentum" else 0.0)


@lru_cache(maxsize=8)
def normals(seed: int, *shape: int) -> Tensor:
    """Standard normal numbers that depend on seed and shape alone; kept, since steps ask for them one by one."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
