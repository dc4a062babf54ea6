"""What a task is: a model, its losses, a preference and an optimizer; and the digits that most tasks train on.

Only the weights of the losses are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

import ferero
from ferero_lab.data import batches
from ferero_lab.data.digits import digits
from ferero_lab.data.seeding import seeded

__all__ = ["OptimizerName", "Task", "classifier", "flat_digits", "make_optimizer", "minibatch", "normals"]

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


@lru_cache(maxsize=1)
def flat_digits() -> tuple[Tensor, Tensor]:
    """Images (1797, 64) in [0, 1], and which digit each shows (1797,)."""
    images, labels = digits()
    return images.reshape(-1, 64), labels


def minibatch(count: int, size: int, step: int, seed: int) -> Tensor:
    """Which of ``count`` examples the step sees, (size,)."""
    block = 1000
    return _block(count, size, seed, step // block * block, block)[step % block]


@lru_cache(maxsize=4)
def _block(count: int, size: int, seed: int, first: int, length: int) -> Tensor:
    return torch.stack(list(islice(batches(count, size, seed=seed), first, first + length)))


def classifier(seed: int, hidden: int = 16, outputs: int = 10) -> nn.Module:
    """One hidden layer of tanh units."""
    with seeded(seed):
        return nn.Sequential(nn.Linear(64, hidden), nn.Tanh(), nn.Linear(hidden, outputs))
