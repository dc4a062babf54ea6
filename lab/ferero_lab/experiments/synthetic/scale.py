"""The scale-invariance figure: the same run with the second loss in other units, by a fixed step and by ours.

What the paper proves is about the direction ``d / |d|`` at points that meet the constraint, with A = I. Its length is
no part of it, so a fixed step takes other steps in other units.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

import ferero
from ferero.methods import Observation
from ferero.preference import Preference
from ferero_lab.experiments.experiment import Context, Found
from ferero_lab.problems import Exponential

__all__ = ["SCALES", "solve_scales"]

SCALES = (1.0, 2.0, 1e6)
STEP, MOST = 0.05, 100


def solve_scales(column: str, context: Context) -> Found:
    """One run for each of `SCALES`: its path in the first run's units, and its direction at the start.

    Args:
        column: "paper" for the fixed step of Figure 2, "ours" for step="auto".
        context: to tell how far it is.
    """
    start = _start()
    runs: list[dict[str, Any]] = []
    directions = []
    for index, scale in enumerate(SCALES):
        problem = Exponential(scale=(1.0, scale))
        preference = Preference.between(problem(torch.zeros_like(start)), problem(start))
        result = ferero.minimize(problem, start, preference, step=STEP if column == "paper" else "auto", max_iter=MOST)
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
    return {"setting": f"step {STEP:g}" if column == "paper" else "step auto", "runs": runs}


def _start() -> Tensor:
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
