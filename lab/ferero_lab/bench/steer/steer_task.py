"""What the steering benchmark trains: a task is everything but the rule that weighs the losses, and `train` runs it.

Two synthetic problems of 20 parameters with known fronts, one concave and one convex; pairs of digits; digits with
three losses. Every method trains on the same batches, starts and noise.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

import ferero
from ferero_lab.data import Labelled, PairNet, Splits, ThreeNet, batches, cross_entropies, digit_pairs, digits_three
from ferero_lab.problems import Exponential
from ferero_lab.problems.exponential import draw_exponential_start

__all__ = [
    "DIMENSIONS",
    "OptimizerName",
    "ProblemName",
    "StackedModel",
    "SteerRun",
    "SteerTask",
    "ThetaModel",
    "classify",
    "degrees_off",
    "gradient_noise",
    "indices",
    "make_optimizer",
    "make_problem",
    "pairs",
    "ray_at",
    "starts",
    "synthetic",
    "three",
    "train",
    "train_fixed",
]

ProblemName: TypeAlias = Literal["exponential", "quadratic"]
DIMENSIONS = 20
CONDITIONING = 10.0
FLOOR = 0.05  # without it the ends of the quadratic's front would lie on the axes
OptimizerName: TypeAlias = Literal["sgd", "adam"]
MinibatchLosses: TypeAlias = Callable[[nn.Module, int, int], Tensor]
Evaluate: TypeAlias = Callable[[nn.Module], Tensor]


@dataclass(frozen=True)
class SteerTask:
    """A model, its data and its optimizer: a training that lacks only the map from losses to one scalar.

    Attributes:
        name: what is trained, in a few words.
        preference: that of the run.
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
class SteerRun:
    """The result of a training.

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
    task: SteerTask,
    loss_of: Callable[[Tensor], Tensor],
    seed: int = 0,
    after_step: Callable[[int, nn.Module], None] | None = None,
) -> SteerRun:
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
    return SteerRun(seen[-1], seen, worst, task.error(seen.mean(dim=0)), None, time.perf_counter() - begin)


def _diverged(m: int, jump: float, seconds: float) -> SteerRun:
    nothing = torch.full((1, m), math.nan, dtype=torch.float64)
    return SteerRun(nothing[0], nothing, math.inf, math.inf, jump, seconds)


class StackedModel(nn.Module):
    """One of many models that share their structure: the structure, with this one's parameters."""

    def __init__(self, structure: nn.Module, parameters: Any) -> None:
        super().__init__()
        self._call = partial(functional_call, structure, parameters)
        self._own = parameters

    def forward(self, *inputs: Tensor) -> Any:
        """What the structure gives with these parameters."""
        return self._call(inputs)

    def parameters(self, recurse: bool = True) -> Any:  # noqa: ARG002  # nn.Module's
        """This one's."""
        return iter(self._own.values())


def train_fixed(task: SteerTask, weights: Tensor, seed: int = 0) -> Tensor:
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
        losses = torch.vmap(lambda own, at=step: task.losses(StackedModel(structure, own), at, seed))(parameters)
        optimizer.zero_grad(set_to_none=True)
        (weights.to(losses) * losses).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step >= first and (task.steps - 1 - step) % task.every == 0:
            with torch.no_grad():
                tail.append(torch.vmap(lambda own: task.evaluate(StackedModel(structure, own)))(parameters))
    return torch.stack(tail, dim=1).detach()


# the synthetic problems --------------------------------------------------------------------------------


class ThetaModel(nn.Module):
    """A model that is nothing but its parameters theta (20,), float64, at U[-0.3, 0.3] first."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.theta = nn.Parameter(starts(1, seed)[0])


def starts(count: int, seed: int) -> Tensor:
    """Starting points (count, 20)."""
    return draw_exponential_start("easy", count, DIMENSIONS, torch.Generator().manual_seed(seed))


def make_problem(name: ProblemName) -> Callable[[Tensor], Tensor]:
    """The losses (2,) of theta (20,), or (..., 2) of (..., 20)."""
    return _exponential if name == "exponential" else _quadratic


def _exponential(theta: Tensor) -> Tensor:
    """As `Exponential`, for any leading dimensions."""
    return 1 - torch.exp(-_offsets(theta).square().sum(dim=-1))


def _quadratic(theta: Tensor) -> Tensor:
    """``f = sum_i d_i (theta_i -+ 1/sqrt(q))^2 + 0.05``, d from 0.1 to 1: a convex front with bent optima."""
    d = torch.logspace(-math.log10(CONDITIONING), 0, DIMENSIONS, dtype=theta.dtype)
    return (d * _offsets(theta).square()).sum(dim=-1) + FLOOR


def _offsets(theta: Tensor) -> Tensor:
    """Theta minus each of the two centres, (..., 2, 20)."""
    return theta[..., None, :] - _centres().to(theta)


@lru_cache(maxsize=1)
def _centres() -> Tensor:
    return Exponential(DIMENSIONS).centres


@lru_cache(maxsize=4)
def gradient_noise(size: float, steps: int, dimensions: int, seed: int) -> Tensor:
    """For each step and each of two losses a Gaussian vector of that length (root mean square), (steps, 2, q)."""
    generator = torch.Generator().manual_seed(10_000 + seed)
    noise = torch.randn(steps, 2, dimensions, generator=generator, dtype=torch.float64)
    return noise * size / math.sqrt(dimensions)


# the tasks -----------------------------------------------------------------------------------------------


def synthetic(
    problem: ProblemName,
    degrees: float,
    learning_rate: float,
    noise: float = 0.0,
    steps: int = 3000,
) -> SteerTask:
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

    return SteerTask(
        name=f"{problem}, {degrees:g} degrees, SGD {learning_rate:g}, noise {noise:g}",
        preference=ferero.Preference.ray(ray_at(degrees)),
        model=ThetaModel,
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


def pairs(
    optimizer: OptimizerName, learning_rate: float, degrees: float, steps: int = 5000, batch: int = 128
) -> SteerTask:
    """A ray of the two training losses of ``digit_pairs`` with its ``PairNet``."""
    part = _pair_data().train

    losses, evaluate = classify(part, part, batch, steps)
    return SteerTask(
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


def three(optimizer: OptimizerName, learning_rate: float, steps: int = 6000, batch: int = 64) -> SteerTask:
    """Three losses of ``digits_three``, all minimised: ``parity <= 0.46`` and ``digit - magnitude == 0.15``."""
    part = _three_data().train
    f = ferero.objectives("digit", "parity", "magnitude")
    preference = ferero.Preference(f, [f.parity <= 0.46, f.digit - f.magnitude == 0.15])

    losses, evaluate = classify(part, part, batch, steps)
    return SteerTask(
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


# parts of the tasks ---------------------------------------------------------------------------------------


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
