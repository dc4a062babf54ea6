"""Runs the synthetic experiments: a panel's directions, other units, and the time of an iteration.

Other units: the paper proves that the direction ``d / |d|`` is invariant where theta meets the constraint, for A = I.
The length of d is not, so a fixed step takes other steps in other units.
"""

from __future__ import annotations

import gc
import time
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

import ferero
from ferero.methods import Method, Observation
from ferero.optimize import Result, minimize_many
from ferero.preference import Preference
from ferero_lab.experiments.experiment import Context, Found
from ferero_lab.experiments.synthetic.plan import (
    ASCENT,
    Choice,
    Direction,
    SyntheticCase,
    draw_starts,
    even_rays,
    make_directions,
)
from ferero_lab.problems import Exponential

__all__ = ["DEGREES", "DISTANCE", "PAPER_TIMES", "solve_case", "solve_scales", "time_methods"]

DEGREES, DISTANCE = 0.1, 0.01  # what counts as on the ray, and on the front
PRACTICE = 1000  # the seed of the starts on which a step is chosen; none that is reported
PATH = 60  # points kept of a trajectory


def solve_case(case: SyntheticCase, seeds: int, context: Context) -> Found:
    """The runs of a panel.

    Args:
        case: which.
        seeds: 0, ..., seeds - 1; trajectories are kept of the first.
        context: to tell how far it is.

    Returns:
        "setting", and "runs" with one dictionary each.
    """
    rounds = len(case.choices) + seeds if len(case.choices) > 1 else seeds
    choice = case.choices[0] if len(case.choices) == 1 else _best(case, context, rounds)
    runs = []
    for seed in range(seeds):
        runs += _solve(case, choice, seed, with_path=seed == 0)
        context.advance(rounds - seeds + seed + 1, rounds)
    return {"setting": choice.words, "runs": runs}


def _best(case: SyntheticCase, context: Context, rounds: int) -> Choice:
    """The choice that reaches most directions from other starts, then the one with the smallest errors."""
    scores = []
    for index, choice in enumerate(case.choices):
        runs = _solve(case, choice, PRACTICE, with_path=False)
        scores.append((-sum(run["reached"] for run in runs), median(run["error"] + run["distance"] for run in runs)))
        context.advance(index + 1, rounds)
    return case.choices[scores.index(min(scores))]


def _solve(case: SyntheticCase, choice: Choice, seed: int, *, with_path: bool) -> list[dict[str, Any]]:
    directions, starts = make_directions(case.preferences, case.count, case.start, seed, case.A)
    preferences = [direction.preference for direction in directions]
    results = minimize_many(
        Exponential(), starts, preferences, method=choice.method, step=choice.step, max_iter=choice.max_iter
    )
    return [
        {
            "seed": seed,
            **_judge(direction, result, has_preference=case.preferences != "nothing"),
            "path": _thinned(result, with_path),
        }
        for direction, result in zip(directions, results, strict=True)
    ]


def _judge(direction: Direction, result: Result, *, has_preference: bool) -> dict[str, Any]:
    losses = torch.as_tensor(result.losses)
    distance = float(Exponential().distance_to_front(losses))
    error = direction.error(losses)
    return {
        "angle": direction.angle,
        "through": direction.through.tolist(),
        "losses": losses.tolist(),
        "weights": torch.as_tensor(result.weights).tolist(),
        "error": error if has_preference else None,
        "violation": direction.violation(losses) if has_preference else None,
        "distance": distance,
        "reached": has_preference and error < DEGREES and distance < DISTANCE,
        "status": result.status,
        "iterations": result.iterations,
        "evaluations": result.evaluations,
    }


def _thinned(result: Result, is_kept: bool) -> list[list[float]]:
    losses = result.history.losses
    if not is_kept:
        return []
    at = np.unique(np.round(np.linspace(0, len(losses) - 1, min(PATH, len(losses)))).astype(int))
    return [[float(f"{value:.6g}") for value in point] for point in losses[at]]


SCALES = (1.0, 2.0, 1e6)
SCALE_STEP, SCALE_ITER = 0.05, 100


def solve_scales(column: str, context: Context) -> Found:
    """One run for each of `SCALES`: its path in the first run's units, and its direction at the start.

    Args:
        column: "paper" for the fixed step of Figure 2, "ours" for step="auto".
        context: to tell how far it is.
    """
    start = _scale_start()
    runs: list[dict[str, Any]] = []
    directions = []
    for index, scale in enumerate(SCALES):
        problem = Exponential(scale=(1.0, scale))
        preference = Preference.between(problem(torch.zeros_like(start)), problem(start))
        result = ferero.minimize(
            problem, start, preference, step=SCALE_STEP if column == "paper" else "auto", max_iter=SCALE_ITER
        )
        direction = _direction(problem, start, preference)
        directions.append(direction / direction.norm())
        runs.append(
            {
                "scale": scale,
                "path": (result.history.losses / np.array([1.0, scale])).tolist(),
                "end": torch.as_tensor(result.x).tolist(),
                "status": result.status,
                "iterations": result.iterations,
                "evaluations": result.evaluations,
                "length": float(direction.norm()),
                "turn": float((directions[index] - directions[0]).norm()),
            }
        )
        context.advance(index + 1, len(SCALES))
    for run in runs:
        run.update(_differences(run, runs[0]))
    return {"setting": f"step {SCALE_STEP:g}" if column == "paper" else "step auto", "runs": runs}


def _scale_start() -> Tensor:
    """The paper's theta_0 (20,): 0.3 in the first half and -0.3 in the second."""
    return torch.cat([torch.full((10,), 0.3), torch.full((10,), -0.3)]).double()


def _direction(problem: Exponential, theta: Tensor, preference: Preference) -> Tensor:
    """``d`` of Algorithm 1 at theta, (20,)."""
    jacobian: Tensor = torch.func.jacrev(problem)(theta)
    method = ferero.Ferero()
    observation = Observation(problem(theta), jacobian @ jacobian.T)
    decision, _ = method.update(preference, observation, method.init(preference))
    return -decision.weights @ jacobian


def _differences(run: dict[str, Any], first: dict[str, Any]) -> dict[str, float]:
    """How far a run is from the first, step by step and at its end, in the first run's units."""
    a, b = np.array(run["path"]), np.array(first["path"])
    steps = min(len(a), len(b))
    return {
        "apart": float(np.linalg.norm(a[:steps] - b[:steps], axis=1).max()),
        "apart_at_the_end": float(np.linalg.norm(a[-1] - b[-1])),
    }


PAPER_TIMES = {  # iterations and seconds per iteration, for the easy and the hard starts of Figure 3
    "ls": ((100, 3.50e-4), (100, 3.10e-4)),
    "pmtl": ((100, 7.67e-4), (200, 7.65e-4)),
    "epo": ((60, 4.93e-3), (80, 4.93e-3)),
    "ferero": ((10, 7.50e-4), (200, 7.30e-4)),
}
BLOCK = 5  # iterations that are timed together: few, so that neighbours share what else the machine does
TIME_STEP = 0.1


def time_methods(quick: bool, context: Context) -> Found:
    """Seconds per iteration (evaluate, differentiate, ask the method, step), the median over blocks.

    The blocks of all methods take turns, and each ratio is that of neighbours.

    Returns:
        "seconds" with "per_iteration" and "over_ls" by method, and "auto", a whole `ferero.minimize` with step="auto";
        and the "evaluations" of that.
    """
    ray = even_rays(4)[1]
    start = draw_starts("easy", 1, 0)[0]
    plain, ascent = Preference.ray(ray), Preference.ray(ray, cone=ferero.Cone(ASCENT))
    settings: dict[str, tuple[Method[Any], Preference]] = {
        "ls": (ferero.LinearScalarization(), plain),
        "pmtl": (ferero.PMTL(vectors=even_rays(4).tolist()), plain),
        "epo": (ferero.EPO(), plain),
        "ferero": (ferero.Ferero(), ascent),
        "ferero-sa": (ferero.FereroSA(gamma=0.1, bound=10.0), ascent),
    }
    rounds = 30 if quick else 300
    times: dict[str, list[float]] = {name: [] for name in (*settings, "auto")}
    for turn in range(rounds + 1):
        for name, (method, preference) in settings.items():
            times[name].append(_time_block(method, preference, start))
        times["auto"].append(_time_auto(plain, start))
        context.advance(turn + 1, rounds + 1)
    times = {name: values[1:] for name, values in times.items()}  # the first turn warms up
    auto = median(times.pop("auto"))
    per_iteration = {name: median(values) for name, values in times.items()}
    over_ls = {name: median(_ratios(values, times["ls"])) for name, values in times.items()}
    return {
        "seconds": {"per_iteration": per_iteration, "over_ls": over_ls, "auto": auto},
        "evaluations": ferero.minimize(Exponential(), start, plain).evaluations,
    }


def _ratios(values: list[float], others: list[float]) -> list[float]:
    return [value / other for value, other in zip(values, others, strict=True)]


def _time_block(method: Method[Any], preference: Preference, start: Tensor) -> float:
    theta, state, slopes = start.clone(), method.init(preference), None
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        begin = time.perf_counter()
        for _ in range(BLOCK):
            theta, state, slopes = _iterate(method, preference, theta, state, slopes)
        return (time.perf_counter() - begin) / BLOCK
    finally:
        if is_enabled:
            gc.enable()


def _iterate(
    method: Method[Any], preference: Preference, theta: Tensor, state: Any, slopes: Tensor | None
) -> tuple[Tensor, Any, Tensor | None]:
    """One step with no more derivatives than the method reads: a gradient per loss, or one of the weighted sum."""
    x = theta.requires_grad_()
    losses = Exponential()(x)
    if "gramian" in method.requires:
        rows = [torch.autograd.grad(loss, x, retain_graph=True)[0] for loss in losses]
        jacobian = torch.stack(rows)
        decision, state = method.update(preference, Observation(losses.detach(), jacobian @ jacobian.T), state)
        return (theta - TIME_STEP * decision.weights @ jacobian).detach(), state, None
    decision, state = method.update(preference, Observation(losses.detach(), slopes=slopes), state)
    (gradient,) = torch.autograd.grad(decision.weights @ losses, x)
    ahead = (theta - TIME_STEP * gradient).detach()
    if "slopes" in method.requires:
        slopes = (Exponential()(ahead) - losses.detach()) / TIME_STEP
    return ahead, state, slopes


def _time_auto(preference: Preference, start: Tensor) -> float:
    begin = time.perf_counter()
    ferero.minimize(Exponential(), start, preference)
    return time.perf_counter() - begin
