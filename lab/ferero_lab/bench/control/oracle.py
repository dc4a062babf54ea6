"""What training could reach: fixed weights, many models side by side, searched for the ray that was asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from ferero_lab.bench.control.tasks import Task

__all__ = ["Oracle", "angle_of", "find_oracles", "train_fixed"]

FIRST = 11
"""Weights tried at first, from 0.02 to 0.98."""
PLACES = (-0.5, -0.15, 0.15, 0.5)
"""And for each ray and further round, between the two that enclose it: around where it is expected."""
ROUNDS = 3


@dataclass(frozen=True, eq=False)
class Oracle:
    """Fixed weights that come closest to a ray.

    Attributes:
        weight: w of (w, 1 - w).
        tail: whole-set losses over the last tenth of the steps, (evaluations, 2).
        off: degrees between the ray and the mean of the tail.
    """

    weight: float
    tail: Tensor
    off: float


class _Member(nn.Module):
    """One of many models that share their structure: the structure, with this one's parameters."""

    def __init__(self, structure: nn.Module, parameters: dict[str, Tensor]) -> None:
        super().__init__()
        self._call = partial(functional_call, structure, parameters)

    def forward(self, *inputs: Tensor) -> Any:
        return self._call(inputs)


def train_fixed(task: Task, weights: Tensor, seed: int = 0) -> Tensor:
    """Train one model for each row of fixed weights, as `train` would with ``(weights[k] * losses).sum()``.

    Args:
        task: with a network that `torch.func.vmap` understands; its ray plays no part.
        weights: (K, m).
        seed: as for `train`.

    Returns:
        Whole-set losses over the last tenth of the steps, (K, evaluations, m).
    """
    structure = task.model(seed)
    task.losses(structure, 0, seed)  # draws the batches, which must not happen inside vmap
    copies = [task.model(seed) for _ in weights]
    stacked, _ = stack_module_state(copies)
    parameters = {name: nn.Parameter(tensor.detach()) for name, tensor in stacked.items()}
    optimizer = task.optimizer(list(parameters.values()))
    first = task.steps - max(1, task.steps // 10)
    tail = []
    for step in range(task.steps):
        losses = torch.vmap(lambda own, at=step: task.losses(_Member(structure, own), at, seed))(parameters)
        optimizer.zero_grad(set_to_none=True)
        (weights.to(losses) * losses).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step >= first and (task.steps - 1 - step) % task.every == 0:
            with torch.no_grad():
                tail.append(torch.vmap(lambda own: task.evaluate(_Member(structure, own)))(parameters))
    return torch.stack(tail, dim=1).detach()


def find_oracles(task: Task, degrees: Sequence[float], seed: int = 0, rounds: int = ROUNDS) -> list[Oracle]:
    """The weights for every ray: a grid of them, then finer ones between the two that enclose each ray.

    Args:
        task: a training of two losses; the weights replace its own ray.
        degrees: the rays.
        seed: as for `train`.
        rounds: how often weights are tried, the grid included.
    """
    tried: dict[float, Tensor] = {}
    grid = torch.linspace(0.02, 0.98, FIRST, dtype=torch.float64).tolist()
    for _ in range(rounds):
        weights = torch.tensor([[w, 1 - w] for w in grid], dtype=torch.float64)
        tried |= dict(zip(grid, train_fixed(task, weights, seed), strict=True))
        grid = sorted({w for ray in degrees for w in _between(tried, ray)} - set(tried))
    return [_closest(tried, ray) for ray in degrees]


def angle_of(losses: Tensor) -> Tensor:
    """Degrees of losses (..., 2) to the first axis."""
    return torch.rad2deg(torch.atan2(losses[..., 1], losses[..., 0]))


def _between(tried: dict[float, Tensor], ray: float) -> list[float]:
    """New weights between the neighbours whose angles enclose the ray, denser where it is expected."""
    known = sorted(tried)
    offs = [float(angle_of(tried[w].mean(dim=0))) - ray for w in known]
    crossings = [k for k in range(len(known) - 1) if offs[k] * offs[k + 1] <= 0]
    if not crossings:
        best = min(range(len(known)), key=lambda k: abs(offs[k]))
        low, high = known[max(best - 1, 0)], known[min(best + 1, len(known) - 1)]
        return torch.linspace(low, high, len(PLACES) + 2, dtype=torch.float64)[1:-1].tolist()
    k = min(crossings, key=lambda k: abs(offs[k]) + abs(offs[k + 1]))
    share = abs(offs[k]) / max(abs(offs[k]) + abs(offs[k + 1]), math.ulp(1.0))
    places = [share + (1 - share if d > 0 else share) * d for d in PLACES]
    return [known[k] + place * (known[k + 1] - known[k]) for place in places]


def _closest(tried: dict[float, Tensor], ray: float) -> Oracle:
    weight = min(tried, key=lambda w: abs(float(angle_of(tried[w].mean(dim=0))) - ray))
    return Oracle(weight, tried[weight], abs(float(angle_of(tried[weight].mean(dim=0))) - ray))
