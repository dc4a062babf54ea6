"""All tasks, in every form, in two halves: constants are chosen on the one, the tables of record report the other.

The halves were written down before anything was tuned. They share neither levels nor seeds, and some families are in
one of them only. A form changes the units, the number of steps, the optimizer or one batch.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

import ferero
from ferero_lab.bench.tasks.fairness import fairness
from ferero_lab.bench.tasks.fronts import equality, far_ray, ray, ray_of_three, threshold, thresholds_of_three
from ferero_lab.bench.tasks.pinn import burgers, poisson, with_lbfgs
from ferero_lab.bench.tasks.several import pair_ray, three
from ferero_lab.bench.tasks.sparsity import sparsity
from ferero_lab.bench.tasks.task import OptimizerName, Task
from ferero_lab.bench.tasks.teachers import distillation, entropy, retention
from ferero_lab.bench.tasks.vae import vae, vae_rate
from ferero_lab.bench.tasks.weight_norm import norm_equals, weight_norm

__all__ = [
    "FAMILIES",
    "HALVES",
    "SEEDS",
    "Half",
    "cells",
    "constraint_times",
    "family_of",
    "forms_of",
    "objective_times",
    "with_outlier",
]

Half: TypeAlias = Literal["tune", "report"]
SEEDS: dict[Half, tuple[int, ...]] = {"tune": (0, 1), "report": (2, 3)}
HALVES: dict[Half, tuple[partial[Task], ...]] = {
    "tune": (
        partial(vae, 4.0),
        partial(vae_rate, 2.0),
        partial(sparsity, 0.3),
        partial(poisson, 1e-4),
        partial(weight_norm, 40.0),
        partial(distillation, 0.1),
        partial(retention, 1.0),
        partial(entropy, 0.5),
        partial(threshold, "exponential", 0.6, 0.1),
        partial(threshold, "exponential", 0.3, 0.01),
        partial(threshold, "exponential", 0.8, 0.3),
        partial(threshold, "exponential", 0.6, 0.03, True),
        partial(threshold, "quadratic", 0.6, 0.03),
        partial(threshold, "quadratic", 0.3, 0.1, True),
        partial(thresholds_of_three, 0.5, 0.8, 0.1),
        partial(three, "parity <= 0.46; digit <= 0.4; minimize magnitude"),
        partial(three, "digit - magnitude == 0.15"),
        partial(equality, "quadratic", "a == 3; minimize b", 0.03),
        partial(equality, "quadratic", "b - a == 0.4; minimize a + b", 0.1),
        partial(ray, "exponential", 45.0, 0.1),
        partial(ray, "exponential", 22.5, 0.01),
        partial(ray, "quadratic", 67.5, 0.1),
        partial(far_ray, 45.0, 0.1),
        partial(ray_of_three, (1.0, 1.3, 1.0), 0.1),
        partial(pair_ray, 22.5),
    ),
    "report": (
        partial(vae, 3.0),
        partial(vae, 5.0),
        partial(vae_rate, 1.0),
        partial(sparsity, 0.5),
        partial(sparsity, 0.1),
        partial(poisson, 1e-6),
        partial(burgers, 1e-4),
        partial(burgers, 1e-3),
        partial(weight_norm, 20.0),
        partial(distillation, 0.2),
        partial(fairness, 0.05),
        partial(retention, 2.0),
        partial(entropy, 1.0),
        partial(threshold, "exponential", 0.8, 0.1),
        partial(threshold, "exponential", 0.6, 0.01),
        partial(threshold, "exponential", 0.3, 0.3),
        partial(threshold, "exponential", 0.3, 0.1, True),
        partial(threshold, "quadratic", 0.3, 0.03),
        partial(threshold, "quadratic", 0.6, 0.1, True),
        partial(thresholds_of_three, 0.7, 0.6, 0.03),
        partial(three, "parity <= 0.5; digit <= 0.3; minimize magnitude"),
        partial(three, "parity <= 0.46; digit - magnitude == 0.15"),
        partial(norm_equals, 60.0),
        partial(equality, "exponential", "a == 0.7; minimize b", 0.1),
        partial(equality, "quadratic", "b - a == 2; minimize a", 0.03),
        partial(ray, "exponential", 67.5, 0.3),
        partial(ray, "exponential", 30.0, 0.03, True),
        partial(ray, "quadratic", 22.5, 0.03),
        partial(far_ray, 22.5, 0.1),
        partial(ray_of_three, (1.2, 1.0, 1.1), 0.03),
        partial(pair_ray, 67.5),
    ),
}
WITH_LBFGS: dict[Half, tuple[partial[Task], ...]] = {
    "tune": (partial(poisson, 1e-4),),
    "report": (partial(poisson, 1e-6), partial(burgers, 1e-4)),
}


def cells(half: Half) -> list[Task]:
    """Every task of a half in every form."""
    usual = [form for make in HALVES[half] for form in forms_of(make())]
    return usual + [with_lbfgs(make()) for make in WITH_LBFGS[half]]


FAMILIES = {
    "vae": ("vae",),
    "sparsity": ("sparsity",),
    "pinn": ("poisson", "burgers"),
    "weight norm": ("weight norm", "norm equals"),
    "teachers": ("distillation", "retention", "entropy"),
    "fairness": ("fairness",),
    "three losses": ("parity", "digit"),
    "digit pairs": ("pairs",),
    "front, ray": ("ray", "far ray"),
    "front, threshold": ("a <=",),
    "front, equality": ("a ==", "b -"),
}
"""The beginnings of the names in each family."""


def family_of(task: str) -> str:
    """The family of a task, by its name; the name itself where none fits.

    Example:
        >>> family_of("poisson 0.0001"), family_of("a == 3; minimize b, quadratic, 0.03")
        ('pinn', 'front, equality')
    """
    return next((name for name, starts in FAMILIES.items() if task.startswith(starts)), task)


def forms_of(task: Task) -> list[Task]:
    """The task as it is, and every form that makes sense for it."""
    if task.lbfgs:
        return [task]
    forms = [task, _quarter(task), _dropped(task), with_outlier(task, 1e4)]
    forms += [_with_optimizer(task, name) for name in task.rates if name != task.optimizer]
    if task.optimizer == "adam":
        forms.append(_with_optimizer(task, "adamw"))
    if not bool((_objective(task) & _constrained(task)).any()):
        forms += [objective_times(task, 100.0), constraint_times(task, 100.0)]
    return forms


def objective_times(task: Task, factor: float) -> Task:
    """The objective in other units; rates of SGD are those that suit them."""
    rates = {name: rate if name.startswith("adam") else rate / factor for name, rate in task.rates.items()}
    factors = torch.where(_objective(task), factor, 1.0).double()
    return replace(_in_units(task, factors, f"objective x {factor:g}"), rates=rates)


def constraint_times(task: Task, factor: float) -> Task:
    """The constrained losses, and their bounds, in other units."""
    return _in_units(task, torch.where(_constrained(task), factor, 1.0).double(), f"constraint x {factor:g}")


def _quarter(task: Task) -> Task:
    """A quarter of the steps."""
    return replace(task, steps=task.steps // 4, form="a quarter of the steps")


def _dropped(task: Task) -> Task:
    """A learning rate that drops tenfold halfway."""
    return replace(task, drop=True, form="rate / 10 halfway")


def _with_optimizer(task: Task, name: OptimizerName) -> Task:
    """Another optimizer, at the rate that suits it."""
    rates = {**task.rates}
    if name == "adamw":
        rates["adamw"] = task.rates["adam"]
    return replace(task, optimizer=name, rates=rates, form=name)


def with_outlier(task: Task, factor: float) -> Task:
    """One batch whose losses are read too large by a factor, a third of the way; its gradients are not."""
    when = task.steps // 3

    def losses(model: nn.Module, step: int, seed: int) -> Tensor:
        values = task.losses(model, step, seed)
        return values + (factor - 1) * values.detach() if step == when else values

    return replace(task, losses=losses, form=f"one batch x {factor:g}")


def _in_units(task: Task, factors: Tensor, form: str) -> Task:
    p = task.preference
    rows = [(B, b) for B, b in ((p.B_g, p.b_g), (p.B_h, p.b_h))]
    constants = [b * ((B != 0) * factors).amax(dim=-1) if len(b) else b for B, b in rows]
    preference = ferero.Preference.from_matrices(
        A=p.A,
        B_g=p.B_g if p.m_g else None,
        b_g=constants[0] if p.m_g else None,
        B_h=p.B_h if p.m_h else None,
        b_h=constants[1] if p.m_h else None,
        names=p.names,
    )

    def losses(model: nn.Module, step: int, seed: int) -> Tensor:
        values = task.losses(model, step, seed)
        return values * factors.to(values)

    def evaluate(model: nn.Module) -> Tensor:
        values = task.evaluate(model)
        return values * factors.to(values)

    return replace(task, preference=preference, losses=losses, evaluate=evaluate, form=form)


def _objective(task: Task) -> Tensor:
    return (task.preference.A != 0).any(dim=0)


def _constrained(task: Task) -> Tensor:
    return torch.cat([task.preference.B_g, task.preference.B_h]).ne(0).any(dim=0)
