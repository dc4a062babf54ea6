"""Everything a training run needs but the steering, so that every method trains on exactly the same."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

import ferero
from ferero_lab.bench.control.synthetic import Point, gradient_noise, make_problem
from ferero_lab.data import Labelled, PairNet, Splits, ThreeNet, batches, cross_entropies, digit_pairs, digits_three

__all__ = [
    "Run",
    "Task",
    "classify",
    "degrees_off",
    "indices",
    "make_optimizer",
    "pairs",
    "ray_at",
    "synthetic",
    "three",
    "train",
]

OptimizerName: TypeAlias = Literal["sgd", "adam"]
MinibatchLosses: TypeAlias = Callable[[nn.Module, int, int], Tensor]
Evaluate: TypeAlias = Callable[[nn.Module], Tensor]


@dataclass(frozen=True)
class Task:
    """A model, its data and its optimizer; only the way from losses to one scalar is missing.

    Attributes:
        name: what is trained, in a few words.
        preference: what is wanted.
        model: ``model(seed)``, a fresh one.
        losses: ``losses(model, step, seed)``, (m,) with the graph, on the minibatch of that step; a function of its
            arguments alone.
        evaluate: ``evaluate(model)``, (m,) in float64, on the whole set and without noise.
        optimizer: ``optimizer(parameters)``.
        steps: how many.
        error: ``error(losses)``: degrees off the ray, or the largest violation.
        every: steps between two evaluations in the last tenth.
    """

    name: str
    preference: ferero.Preference
    model: Callable[[int], nn.Module]
    losses: MinibatchLosses
    evaluate: Evaluate
    optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer]
    steps: int
    error: Callable[[Tensor], float]
    every: int = 1


@dataclass(frozen=True, eq=False)
class Run:
    """What came of a training.

    Attributes:
        losses: the last whole-set losses, (m,); NaN after a divergence.
        tail: the whole-set losses over the last tenth of the steps, (evaluations, m).
        worst: the largest error in the tail; inf after a divergence.
        mean: the error of the tail's mean losses; inf after a divergence.
        jump: None, or after a divergence the largest change of a minibatch's loss from one step to the next before it.
        seconds: the wall time, evaluations included.
    """

    losses: Tensor
    tail: Tensor
    worst: float
    mean: float
    jump: float | None
    seconds: float


def train(
    task: Task,
    loss_of: Callable[[Tensor], Tensor],
    seed: int = 0,
    after_step: Callable[[int, nn.Module], None] | None = None,
) -> Run:
    """Train once.

    Args:
        task: what.
        loss_of: from the losses (m,) to the scalar that is differentiated: a `ferero.Steer`, or a weighted sum.
        seed: of the first parameters, the batches and the noise.
        after_step: called with the number of steps taken and the model, after each of them.
    """
    begin = time.perf_counter()
    model = task.model(seed)
    optimizer = task.optimizer(list(model.parameters()))
    first = task.steps - max(1, task.steps // 10)
    tail: list[Tensor] = []
    jump, last = 0.0, None
    for step in range(task.steps):
        losses = task.losses(model, step, seed)
        values = losses.detach()
        if not bool(torch.isfinite(values).all()):
            return _diverged(len(values), jump, time.perf_counter() - begin)
        if last is not None:
            jump = max(jump, float((values - last).abs().max()))
        last = values
        optimizer.zero_grad(set_to_none=True)
        loss_of(losses).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if after_step is not None:
            after_step(step + 1, model)
        if step >= first and (task.steps - 1 - step) % task.every == 0:
            tail.append(task.evaluate(model))
    seen = torch.stack(tail)
    if not bool(torch.isfinite(seen).all()):
        return _diverged(seen.shape[1], jump, time.perf_counter() - begin)
    worst = max(task.error(row) for row in seen)
    return Run(seen[-1], seen, worst, task.error(seen.mean(dim=0)), None, time.perf_counter() - begin)


def _diverged(m: int, jump: float, seconds: float) -> Run:
    nothing = torch.full((1, m), math.nan, dtype=torch.float64)
    return Run(nothing[0], nothing, math.inf, math.inf, jump, seconds)


# the tasks -----------------------------------------------------------------------------------------------


def synthetic(
    problem: Literal["exponential", "quadratic"],
    degrees: float,
    learning_rate: float,
    noise: float = 0.0,
    steps: int = 3000,
) -> Task:
    """A ray on a problem with a concave or a convex front, by SGD without momentum, in float64.

    Starts are U[-0.3, 0.3] in 20 dimensions. The noise is added to the gradient of each loss: independent Gaussian
    vectors of that length (root mean square), where the gradients themselves have a length of about 0.7 near the
    front. Values stay exact.

    Args:
        problem: "exponential" (concave front) or "quadratic" (convex).
        degrees: the angle of the ray.
        learning_rate: of SGD.
        noise: length of the noise in each gradient.
        steps: how many.
    """
    function = make_problem(problem)

    def losses(model: nn.Module, step: int, seed: int) -> Tensor:
        (theta,) = model.parameters()
        values: Tensor = function(theta)
        if noise == 0:
            return values
        slope = gradient_noise(noise, steps, len(theta), seed)[step] @ theta
        return values + (slope - slope.detach())

    def evaluate(model: nn.Module) -> Tensor:
        with torch.no_grad():
            (theta,) = model.parameters()
            return function(theta)

    return Task(
        name=f"{problem}, {degrees:g} degrees, SGD {learning_rate:g}, noise {noise:g}",
        preference=ferero.Preference.ray(ray_at(degrees)),
        model=Point,
        losses=losses,
        evaluate=evaluate,
        optimizer=make_optimizer("sgd", learning_rate),
        steps=steps,
        error=partial(degrees_off, ray=ray_at(degrees)),
    )


def classify(train: Labelled, whole: Labelled, batch: int, steps: int) -> tuple[MinibatchLosses, Evaluate]:
    """Cross-entropies on the minibatch of a step of one set, and on the whole of another (or the same)."""

    def losses(model: nn.Module, step: int, seed: int) -> Tensor:
        chosen = indices(len(train), batch, steps, seed)[step]
        return cross_entropies(model(train.images[chosen]), train.labels[chosen])

    def evaluate(model: nn.Module) -> Tensor:
        with torch.no_grad():
            return cross_entropies(model(whole.images), whole.labels).double()

    return losses, evaluate


def pairs(optimizer: OptimizerName, learning_rate: float, degrees: float, steps: int = 5000, batch: int = 128) -> Task:
    """A ray of the two training losses of ``digit_pairs`` with its ``PairNet``."""
    part = _pair_data().train

    losses, evaluate = classify(part, part, batch, steps)
    return Task(
        name=f"digit pairs, {degrees:g} degrees, {optimizer} {learning_rate:g}",
        preference=ferero.Preference.ray(ray_at(degrees)),
        model=lambda seed: PairNet(seed=seed),
        losses=losses,
        evaluate=evaluate,
        optimizer=make_optimizer(optimizer, learning_rate),
        steps=steps,
        error=partial(degrees_off, ray=ray_at(degrees)),
        every=20,
    )


def three(optimizer: OptimizerName, learning_rate: float, steps: int = 6000, batch: int = 64) -> Task:
    """Three losses of ``digits_three``, all minimised: ``parity <= 0.46`` and ``digit - magnitude == 0.15``."""
    part = _three_data().train
    f = ferero.objectives("digit", "parity", "magnitude")
    preference = ferero.Preference(f, [f.parity <= 0.46, f.digit - f.magnitude == 0.15])

    losses, evaluate = classify(part, part, batch, steps)
    return Task(
        name=f"digits, three losses, {optimizer} {learning_rate:g}",
        preference=preference,
        model=lambda seed: ThreeNet(seed=seed),
        losses=losses,
        evaluate=evaluate,
        optimizer=make_optimizer(optimizer, learning_rate),
        steps=steps,
        error=lambda values: float(preference.violation(values).max()),
        every=20,
    )


# what they are made of -----------------------------------------------------------------------------------


def ray_at(degrees: float) -> Tensor:
    """The unit vector (2,) at that angle to the first axis, float64."""
    angle = math.radians(degrees)
    return torch.tensor([math.cos(angle), math.sin(angle)], dtype=torch.float64)


def degrees_off(losses: Tensor, ray: Tensor) -> float:
    """The angle between losses and ray."""
    return float(ferero.ray_error(losses.double(), ray))


def make_optimizer(name: OptimizerName, learning_rate: float) -> Callable[[list[nn.Parameter]], torch.optim.Optimizer]:
    """SGD without momentum, or Adam with its defaults."""
    if name == "sgd":
        return lambda parameters: torch.optim.SGD(parameters, lr=learning_rate)
    return lambda parameters: torch.optim.Adam(parameters, lr=learning_rate)


@lru_cache(maxsize=4)
def indices(count: int, batch: int, steps: int, seed: int) -> Tensor:
    """Which examples each step sees, (steps, batch)."""
    return torch.stack(list(islice(batches(count, batch, seed=seed), steps)))


@lru_cache(maxsize=1)
def _pair_data() -> Splits:
    return digit_pairs()


@lru_cache(maxsize=1)
def _three_data() -> Splits:
    return digits_three()
