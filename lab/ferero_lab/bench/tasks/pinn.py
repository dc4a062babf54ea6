"""Physics-informed networks: the least residual of an equation with bounded boundary and initial errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from math import pi

import torch
from torch import Tensor, nn

import ferero
from ferero_lab.bench.tasks.task import Task
from ferero_lab.data.seeding import seeded

__all__ = ["burgers", "poisson", "with_lbfgs"]

POINTS, VISCOSITY = 64, 0.05


class Field(nn.Module):
    """A network u of one or two coordinates, with the derivatives that an equation asks for.

    Two hidden layers of 16 tanh units; values, first and second derivatives are carried along together, which is
    forward differentiation by hand and can be asked of many networks at once.
    """

    def __init__(self, inputs: int, seed: int) -> None:
        super().__init__()
        with seeded(seed):
            sizes = (inputs, 16, 16, 1)
            self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``u`` (n,), its gradient (n, d), and the second derivatives along each axis (n, d), at points (n, d)."""
        n, d = points.shape
        value, first = points, torch.eye(d, dtype=points.dtype).expand(n, d, d)
        second = torch.zeros_like(first)
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, nn.Linear)
            value, first, second = layer(value), first @ layer.weight.T, second @ layer.weight.T
            if i < len(self.layers) - 1:
                value = torch.tanh(value)
                slope = (1 - value.square())[:, None]
                first, second = slope * first, slope * second - 2 * value[:, None] * slope * first.square()
        return value[:, 0], first[..., 0], second[..., 0]


def poisson(level: float) -> Task:
    """``u'' = -pi^2 sin(pi x)`` on [0, 1], ``u = 0`` at both ends: ``boundary <= level, minimize residual``."""
    f = ferero.objectives("residual", "boundary")
    ends = torch.tensor([[0.0], [1.0]])

    def both(model: nn.Module, x: Tensor) -> Tensor:
        _, _, second = model(x)
        residual = second[:, 0] / pi**2 + torch.sin(pi * x[:, 0])
        return torch.stack([residual.square().mean(), model(ends)[0].square().mean()])

    def losses(model: nn.Module, step: int, seed: int) -> Tensor:
        return both(model, _points(step, seed, 1))

    preference = ferero.Preference(f, [f.boundary <= level], minimize=f.residual)
    return _task(f"poisson {level:g}", preference, 1, losses, lambda model: both(model, _grid(1)))


def burgers(level: float) -> Task:
    """``u_t + u u_x = 0.05 u_xx`` on [-1, 1] x [0, 1], ``u(x, 0) = -sin(pi x)``, ``u(+-1, t) = 0``, both bounded."""
    f = ferero.objectives("residual", "initial", "boundary")
    line = torch.linspace(-1, 1, 33)[:, None]
    times = torch.linspace(0, 1, 17)[:, None]
    start = torch.cat([line, torch.zeros_like(line)], dim=1)
    walls = torch.cat([torch.cat([torch.full_like(times, x), times], dim=1) for x in (-1.0, 1.0)])

    def all_three(model: nn.Module, points: Tensor) -> Tensor:
        u, first, second = model(points)
        residual = first[:, 1] + u * first[:, 0] - VISCOSITY * second[:, 0]
        initial = model(start)[0] + torch.sin(pi * start[:, 0])
        return torch.stack([part.square().mean() for part in (residual, initial, model(walls)[0])])

    def losses(model: nn.Module, step: int, seed: int) -> Tensor:
        return all_three(model, _points(step, seed, 2) * torch.tensor([2.0, 1.0]) - torch.tensor([1.0, 0.0]))

    preference = ferero.Preference(f, [f.initial <= level, f.boundary <= level], minimize=f.residual)
    return _task(f"burgers {level:g}", preference, 2, losses, lambda model: all_three(model, _grid(2)))


def with_lbfgs(task: Task, steps: int = 50) -> Task:
    """The same, followed by L-BFGS on the points of the grid."""

    def losses(model: nn.Module, step: int, seed: int) -> Tensor:
        return task.losses(model, step, seed) if step < task.steps else task.evaluate(model)

    return replace(task, losses=losses, lbfgs=steps, form="then L-BFGS")


def _task(
    name: str,
    preference: ferero.Preference,
    inputs: int,
    losses: Callable[[nn.Module, int, int], Tensor],
    evaluate: Callable[[nn.Module], Tensor],
) -> Task:
    rates = {"adam": 3e-3, "momentum": 1e-2}
    return Task(name, preference, lambda seed: Field(inputs, seed), losses, evaluate, 3000, rates, "adam")  # type: ignore[arg-type]


def _points(step: int, seed: int, d: int) -> Tensor:
    """Fresh collocation points in the unit box, (64, d)."""
    return torch.rand(POINTS, d, generator=torch.Generator().manual_seed(100_000 * seed + step))


def _grid(d: int) -> Tensor:
    if d == 1:
        return torch.linspace(0, 1, 101)[:, None]
    return torch.cartesian_prod(torch.linspace(-1, 1, 33), torch.linspace(0, 1, 17))
