"""Problems of 20 parameters with known fronts, concave and convex: thresholds, equalities and rays, by plain SGD."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import ferero
from ferero_lab.bench.steer.steer_task import DIMENSIONS, ProblemName, ThetaModel, make_problem, ray_at
from ferero_lab.bench.tasks.task import Task, normals
from ferero_lab.problems import ExponentialThree

__all__ = ["equality", "far_ray", "ray", "ray_of_three", "threshold", "thresholds_of_three"]

NOISE = 0.1  # relative, on values; gradients get a vector of that length
STEPS = 3000


def _task(
    name: str,
    preference: ferero.Preference,
    problem: ProblemName,
    rate: float,
    noisy: bool,
    first: Tensor | None = None,
) -> Task:
    function = make_problem(problem)

    def losses(model: nn.Module, step: int, seed: int) -> Tensor:
        (theta,) = model.parameters()
        values: Tensor = function(theta)
        if not noisy:
            return values
        drawn = normals(3000 + seed, STEPS, 2, 1 + DIMENSIONS)[step].to(theta)
        slope: Tensor = NOISE * drawn[:, 1:] @ theta / DIMENSIONS**0.5
        return values + NOISE * values.detach() * drawn[:, 0] + (slope - slope.detach())

    def evaluate(model: nn.Module) -> Tensor:
        (theta,) = model.parameters()
        found: Tensor = function(theta)
        return found

    def model(seed: int) -> nn.Module:
        point = ThetaModel(seed)
        if first is not None:
            point.theta = nn.Parameter(first.clone())
        return point

    rates = {"sgd": rate, "momentum": rate / 10, "adam": 0.3 * rate}
    title = f"{name}, {problem}, {rate:g}{', noise' if noisy else ''}"
    return Task(title, preference, model, losses, evaluate, STEPS, rates, "sgd")  # type: ignore[arg-type]


def threshold(problem: ProblemName, level: float, rate: float, noisy: bool = False) -> Task:
    """``a <= level, minimize b``."""
    f = ferero.objectives("a", "b")
    return _task(f"a <= {level:g}", ferero.Preference(f, [f.a <= level], minimize=f.b), problem, rate, noisy)


def equality(problem: ProblemName, text: str, rate: float, noisy: bool = False) -> Task:
    """Any constraints on a and b, in words, such as "b - a == 0.4; minimize a + b"."""
    return _task(text, ferero.Preference.parse(text, names=["a", "b"]), problem, rate, noisy)


def ray(problem: ProblemName, degrees: float, rate: float, noisy: bool = False) -> Task:
    """Both losses minimised along a ray."""
    preference = ferero.Preference.ray(ray_at(degrees), names=["a", "b"])
    return _task(f"ray {degrees:g}", preference, problem, rate, noisy)


def far_ray(degrees: float, rate: float, ratio: float = 1e6) -> Task:
    """The same from a start at which the losses are 1 : ratio, close to the optimum of the first."""
    centre = torch.full((DIMENSIONS,), DIMENSIONS**-0.5, dtype=torch.float64)
    away = torch.zeros_like(centre)
    away[0] = ratio**-0.5
    preference = ferero.Preference.ray(ray_at(degrees), names=["a", "b"])
    return _task(f"far ray {degrees:g}", preference, "exponential", rate, False, centre + away)


class _Point30(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self.theta = nn.Parameter(0.2 * normals(seed, 30).double())


def _of_three(name: str, preference: ferero.Preference, rate: float) -> Task:
    function = ExponentialThree()

    def evaluate(model: nn.Module) -> Tensor:
        (theta,) = model.parameters()
        return function(theta)

    rates = {"sgd": rate, "momentum": rate / 10, "adam": 0.3 * rate}
    return Task(
        f"{name}, {rate:g}", preference, _Point30, lambda model, _step, _seed: evaluate(model), evaluate, STEPS,
        rates, "sgd",  # type: ignore[arg-type]
    )  # fmt: skip


def thresholds_of_three(first: float, second: float, rate: float) -> Task:
    """``a <= first, b <= second, minimize c`` on a concave front of three losses."""
    f = ferero.objectives("a", "b", "c")
    preference = ferero.Preference(f, [f.a <= first, f.b <= second], minimize=f.c)
    return _of_three(f"a <= {first:g}, b <= {second:g}", preference, rate)


def ray_of_three(vector: tuple[float, float, float], rate: float) -> Task:
    """All three along a ray."""
    preference = ferero.Preference.ray(vector, names=["a", "b", "c"])
    return _of_three(f"ray {', '.join(f'{v:g}' for v in vector)}", preference, rate)
