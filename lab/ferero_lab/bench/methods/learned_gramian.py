"""What a learned gramian is worth: errors of the ray beside those of the exact gramian and of the plain single loop.

All start at the same points, see the same noise, and take the same fixed steps. Noise is the length of what a
half-batch adds to the gradient of each loss; the loss values are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import jacrev, vmap

from ferero.errors import NonFiniteError
from ferero.methods import Ferero, FereroQG, FereroSA, Method, Observation
from ferero.preference import Preference
from ferero_lab.bench.measure import Row
from ferero_lab.problems.exponential import Exponential
from ferero_lab.problems.problem import Problem
from ferero_lab.problems.quadratics import ConvexQuadratics

__all__ = ["CASES", "Errors", "NoiseCase", "bench_learned_gramian", "contenders", "measure_errors"]

GROUP = "learned gramian"
STEPS, TAIL = 300, 50
SETTLED = 1.0  # degrees
VANISHED = 1e-100  # gradients on the plateau, whose squares are no normal numbers any more
EXACT, LEARNED = "exact gramian", "learned gramian"


@dataclass(frozen=True)
class NoiseCase:
    """One problem with one noise and one step.

    Attributes:
        problem: What is minimised.
        noise: The mean length of the gradients' noise, for each loss and half-batch.
        step: The model's step.
    """

    problem: Problem
    noise: float
    step: float

    @property
    def name(self) -> str:
        """For a row."""
        return f"{self.problem.name}, m = {self.problem.m}, noise {self.noise:g}, step {self.step:g}"


CASES = (
    *(NoiseCase(Exponential(), noise, step) for noise in (0.0, 0.3, 1.0) for step in (0.1, 0.3)),
    *(NoiseCase(ConvexQuadratics(m=3, n=10), noise, 0.5) for noise in (0.0, 0.3, 1.0)),
    *(NoiseCase(ConvexQuadratics(m=6, n=20), noise, 1.0) for noise in (0.0, 0.3, 1.0)),
)


class Errors(NamedTuple):
    """Degrees between the losses and the ray over the last steps, and when they came to rest.

    Attributes:
        median: Over rays and the last steps; infinite if the run diverged.
        tail: Their 90 % quantile.
        settled: The median over rays of the step after which the error stays below one degree.
    """

    median: float
    tail: float
    settled: float


def contenders() -> dict[str, Method[Any]]:
    """All methods by name."""
    loops: dict[str, Method[Any]] = {
        f"single loop, gamma {gamma:g}": FereroSA(gamma=gamma, domain="simplex") for gamma in (0.01, 0.1, 1.0)
    }
    fixed: dict[str, Method[Any]] = {f"{LEARNED}, damping {beta:g}": FereroQG(damping=beta) for beta in (1.0, 0.3)}
    return {EXACT: Ferero(domain="simplex", bound=10.0)} | loops | {LEARNED: FereroQG()} | fixed


def bench_learned_gramian(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], list[dict[str, Any]]]:
    """One row per case and method; the learned gramian's note says who wins."""
    rows = []
    for case in CASES[: 6 if quick else None]:
        found = {}
        for name, method in contenders().items():
            found[name] = measure_errors(case, method, rays=20 if quick else 60)
            tick()
        for name, errors in found.items():
            note = f"90 % within {errors.tail:.2g}, within {SETTLED:g} degree after {errors.settled:.0f} steps"
            note += f"; {_verdict(found)}" if name == LEARNED else ""
            rows.append(Row(GROUP, f"{case.name}: {name}, degrees", errors.median, note=note))
    return rows, []


def measure_errors(case: NoiseCase, method: Method[Any], rays: int, seed: int = 0) -> Errors:
    """Run one method on all rays at once."""
    generator = torch.Generator().manual_seed(seed)
    problem = case.problem
    directions = problem.rays(rays, generator)
    theta = problem.starts(problem.start_kinds[0], rays, generator)
    try:
        angles = _angles(case, method, directions, theta, generator)
    except NonFiniteError:
        return Errors(math.inf, math.inf, STEPS)
    steps = torch.arange(1, len(angles) + 1)[:, None]
    settled = (steps * (angles > SETTLED)).amax(dim=0).double().median()
    last = angles[-TAIL:].flatten()
    return Errors(float(last.median()), float(last.quantile(0.9)), float(settled))


def _angles(case: NoiseCase, method: Method[Any], rays: Tensor, theta: Tensor, generator: torch.Generator) -> Tensor:
    """Degrees off the ray before each step, (STEPS, rays)."""
    preference = Preference.stack([Preference.ray(ray) for ray in rays])
    losses, jacobian = vmap(case.problem), vmap(jacrev(case.problem))
    size = case.noise / math.sqrt(case.problem.n)
    state, slopes, angles = method.init(preference), None, []
    for _ in range(STEPS):
        F, J = losses(theta), jacobian(theta)
        J = torch.where(J.abs() < VANISHED, 0.0, J)
        noise = size * torch.randn(2, *J.shape, generator=generator, dtype=J.dtype)
        observation = Observation(F, J @ J.mT if "gramian" in method.requires else None, slopes)
        decision, state = method.update(preference, observation, state)
        d = -((J + noise[0]).mT @ decision.weights[..., None])
        slopes = ((J + noise[1]) @ d)[..., 0]
        theta = theta + case.step * d[..., 0]
        cosine = (torch.nn.functional.normalize(F, dim=-1) * rays).sum(dim=-1)
        angles.append(torch.rad2deg(torch.arccos(cosine.clamp(-1, 1))))
    return torch.stack(angles)


def _verdict(found: dict[str, Errors]) -> str:
    """Who has the smallest error without a gramian; where that is none for both, who settled first."""
    learned = found[LEARNED]
    loops = {name: errors for name, errors in found.items() if name.startswith("single loop")}
    best = min(loops, key=lambda name: (round(loops[name].median, 2), loops[name].settled))
    ours, theirs = ((round(e.median, 2), e.settled) for e in (learned, loops[best]))
    word = "wins against" if ours < theirs else "equals" if ours == theirs else "loses to"
    exact = "smaller" if learned.median < found[EXACT].median else "not smaller"
    return f"{word} the best {best} ({theirs[0]:.2f}, {theirs[1]:.0f} steps); {exact} than with the exact gramian"
