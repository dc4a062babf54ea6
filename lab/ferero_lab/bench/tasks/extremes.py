"""Situations out of the ordinary, for ferero and for a dual ascent of five lines.

A start far off a ray, one batch that is read too large by a factor up to 1e12, and bounds that cannot be had.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

import ferero
from ferero_lab.bench.tasks.fronts import equality, far_ray, ray, threshold
from ferero_lab.bench.tasks.registry import with_outlier
from ferero_lab.bench.tasks.rivals import Rival, Rivals
from ferero_lab.bench.tasks.sparsity import sparsity
from ferero_lab.bench.tasks.task import Task
from ferero_lab.bench.tasks.train import MEAN, WORST, relative_violations, train_alone
from ferero_lab.bench.tasks.vae import vae

__all__ = ["BARS", "EXTREMES", "QUICK", "Extreme", "Kind", "five_lines", "measure"]

Kind: TypeAlias = Literal["far start", "outlier", "unattainable"]
EVERY = 25
"""Steps from one evaluation to the next."""

BARS: dict[Kind, float] = {"far start": 0.1, "outlier": 500, "unattainable": 500}
"""Degrees off the ray at the end; steps until back; steps until the verdict is "saturated" for good."""

SEED = 0


@dataclass(frozen=True)
class Extreme:
    """One such situation.

    Attributes:
        kind: which.
        make: the task.
        factor: of the outlier.
    """

    kind: Kind
    make: Callable[[], Task]
    factor: float = 1.0

    def task(self) -> Task:
        """The task in the form that is out of the ordinary."""
        return with_outlier(self.make(), self.factor) if self.kind == "outlier" else self.make()


def _impossible(make: Callable[[], Task], text: str, steps: int = 1500) -> Task:
    """A task with constraints that it cannot meet."""
    task = make()
    preference = ferero.Preference.parse(text, names=task.preference.names)
    return replace(task, name=text, preference=preference, steps=steps, form="unattainable")


def _brief(make: Callable[[], Task], steps: int) -> Task:
    task = make()
    return replace(task, name=f"{task.name}, {steps} steps", steps=steps)


FRONT = partial(threshold, "exponential", 0.6, 0.1)
FAR = Extreme("far start", partial(far_ray, 45.0, 0.1))
CONFLICT = Extreme("unattainable", partial(_impossible, FRONT, "a <= 0.2; b <= 0.2; minimize a + b"))
EXTREMES = (
    FAR,
    Extreme("far start", partial(far_ray, 22.5, 0.1)),
    *(
        Extreme("outlier", make, factor)
        for make in (partial(vae, 4.0), FRONT, partial(ray, "exponential", 45.0, 0.1))
        for factor in (1.0, 1e2, 1e4, 1e8, 1e12)
    ),
    Extreme("unattainable", partial(_impossible, partial(vae, 4.0), "rec <= 0.5; minimize kl")),
    Extreme("unattainable", partial(_impossible, partial(sparsity, 0.3), "open <= 0.05; ce <= 0.05; minimize ce")),
    CONFLICT,
    Extreme("unattainable", partial(_impossible, FRONT, "a <= -0.1; minimize b")),
    Extreme(
        "unattainable", partial(_impossible, partial(equality, "quadratic", "a == 3", 0.03), "a == -1; minimize b")
    ),
)
"""An outlier of factor 1 is none; the others are compared with it."""

QUICK = (
    Extreme("far start", partial(_brief, FAR.make, 1500)),
    Extreme("outlier", partial(_brief, FRONT, 1500), 1e12),
    CONFLICT,
)


def five_lines(preference: ferero.Preference) -> Callable[[Tensor], Tensor]:
    """Dual ascent on relative violations, at the setting that people try first: rate 0.01, k 1."""
    rivals = Rivals(preference, (Rival("dual, F / b - 1", True, 0.01, 1.0),))

    def loss_of(losses: Tensor) -> Tensor:
        weights = rivals(losses.detach().double()[None])[0]
        return (weights.to(losses) * losses).sum()

    return loss_of


def measure(extreme: Extreme) -> dict[str, Any]:
    """Ferero's default and the five lines in one situation, as plain data; None where it is never reached.

    Returns:
        ``extreme`` (the kind), ``task``, ``form``, ``ours`` and ``theirs``, each with its ``value`` (degrees at the
        end, or steps), the mean ``objective`` over the last tenth, whether the losses were ``finite`` to the end, and
        the last verdict, ``status``, which only ferero has.
    """
    torch.set_num_threads(1)
    task = extreme.task()
    steer = ferero.Steer(task.preference)
    runs = {"ours": _follow(task, steer, steer), "theirs": _follow(task, five_lines(task.preference), None)}
    return {"extreme": extreme.kind, "task": task.name, "form": task.form} | {
        who: {
            "value": _JUDGES[extreme.kind](task, run) if run.is_complete else None,
            "objective": _objective(task, run) if run.is_complete else None,
            "finite": run.is_complete,
            "status": run.statuses[-1] if run.statuses else "",
        }
        for who, run in runs.items()
    }


@dataclass
class ExtremeRun:
    """Every evaluation of a run of ``total`` steps: after which step, losses of the whole data set, the verdict."""

    total: int
    steps: list[int] = field(default_factory=list)
    losses: list[Tensor] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether it went on to the end, with finite losses."""
        went_on = bool(self.steps) and self.steps[-1] + EVERY > self.total
        return went_on and bool(torch.isfinite(torch.stack(self.losses)).all())

    @property
    def tail(self) -> Tensor:
        """The losses over the last tenth of the steps, (evaluations, m)."""
        return torch.stack([one for one, step in zip(self.losses, self.steps, strict=True) if step > 0.9 * self.total])


def _follow(task: Task, loss_of: Callable[[Tensor], Tensor], steer: ferero.Steer | None) -> ExtremeRun:
    models: list[nn.Module] = []

    def model(seed: int) -> nn.Module:
        models.append(task.model(seed))
        return models[-1]

    run = ExtremeRun(task.steps)

    def after(step: int) -> bool:
        if step % EVERY == 0:
            with torch.no_grad():
                run.losses.append(task.evaluate(models[-1]).double())
            run.steps.append(step)
            run.statuses.append("" if steer is None else steer.report().status)
        return False

    train_alone(replace(task, model=model), loss_of, SEED, after)
    return run


def _degrees(task: Task, run: ExtremeRun) -> float:
    """The largest angle to the ray over the last tenth of the steps."""
    direction, tail = task.preference.ray, run.tail
    assert direction is not None
    across = torch.linalg.vector_norm(tail - (tail @ direction)[:, None] * direction, dim=-1)
    return _short(float(torch.atan2(across, tail @ direction).rad2deg().max()))


def _steps_until_back(task: Task, run: ExtremeRun) -> float | None:
    """Steps after the outlier from which on the mean violation is within 1 % and that of each evaluation within 5 %."""
    when = task.steps // 3 + 1
    losses = torch.stack(run.losses)
    each = relative_violations(task, losses) <= WORST
    for i, step in enumerate(run.steps):
        if step >= when and bool(each[i:].all()) and float(relative_violations(task, losses[i:].mean(dim=0))) <= MEAN:
            return step - when
    return None


def _steps_until_said(_: Task, run: ExtremeRun) -> float | None:
    """Steps from which on the verdict is "saturated"; there is none without a report."""
    others = [step for step, status in zip(run.steps, run.statuses, strict=True) if status != "saturated"]
    first = max(others, default=0) + EVERY
    return first if first <= run.total else None


_JUDGES: dict[Kind, Callable[[Task, ExtremeRun], float | None]] = {
    "far start": _degrees,
    "outlier": _steps_until_back,
    "unattainable": _steps_until_said,
}


def _objective(task: Task, run: ExtremeRun) -> float:
    return _short(float((run.tail @ task.preference.A.mean(dim=0)).mean()))


def _short(value: float) -> float:
    return float(f"{value:.4g}")
