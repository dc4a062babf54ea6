"""How well a run met its preference: relative violations, the objective, and when the constraints held for good."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ferero_lab.bench.tasks.task import Task
from ferero_lab.bench.tasks.train import look_steps

__all__ = ["MEAN", "WORST", "Score", "relative_violations", "score"]

MEAN, WORST = 0.01, 0.05
"""Largest relative violation that counts as met: of the mean losses of the last tenth, and of any of its looks."""


@dataclass(frozen=True)
class Score:
    """What came of one run.

    Attributes:
        mean: the largest relative violation of the mean losses over the last tenth of the steps; inf if it diverged.
        worst: that of the worst look.
        objective: its mean.
        held: steps after which no look violates a constraint by more than 5 %; inf where the last one does.
    """

    mean: float
    worst: float
    objective: float
    held: float

    @property
    def is_met(self) -> bool:
        """Whether the mean is within 1 % and every look within 5 %."""
        return self.mean <= MEAN and self.worst <= WORST


def relative_violations(task: Task, losses: Tensor) -> Tensor:
    """The largest violation (...) of losses (..., m), over the bound, or over the row's largest term where it is 0."""
    p = task.preference
    B, b = torch.cat([p.B_g, p.B_h]), torch.cat([p.b_g, p.b_h])
    values = losses @ B.T + b
    size = torch.where(b == 0, (B * losses[..., None, :]).abs().amax(dim=-1), b.abs())
    relative = values / torch.where(size == 0, 1.0, size)
    signed = torch.cat([relative[..., : p.m_g].clamp(min=0), relative[..., p.m_g :].abs()], dim=-1)
    return signed.amax(dim=-1)


def score(task: Task, found: Tensor) -> Score:
    """From the losses of the whole data set at the looks, (looks, m)."""
    steps = torch.tensor(look_steps(task))
    total = task.steps + task.lbfgs
    tail = found[steps > total - max(1, total // 10)]
    if not bool(torch.isfinite(tail).all()):
        return Score(torch.inf, torch.inf, torch.inf, torch.inf)
    violations = relative_violations(task, found)
    objective = task.preference.A.mean(dim=0) if len(task.preference.A) > 1 else task.preference.A[0]
    bad = torch.nonzero(~(violations <= WORST))
    last_bad = int(bad[-1]) if len(bad) else -1
    held = torch.inf if last_bad == len(steps) - 1 else float(steps[last_bad + 1])
    return Score(
        float(relative_violations(task, tail.mean(dim=0))),
        float(violations[steps > total - max(1, total // 10)].max()),
        float((tail @ objective).mean()),
        held,
    )
