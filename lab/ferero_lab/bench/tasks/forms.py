"""The forms in which each task is tried: other units, less time, other optimizers, a batch that is off."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

import ferero
from ferero_lab.bench.tasks.task import OptimizerName, Task

__all__ = ["constraint_times", "dropped", "forms_of", "objective_times", "quarter", "with_optimizer", "with_outlier"]


def forms_of(task: Task) -> list[Task]:
    """The task as it is, and every form that makes sense for it."""
    if task.lbfgs:
        return [task]
    forms = [task, quarter(task), dropped(task), with_outlier(task, 1e4)]
    forms += [with_optimizer(task, name) for name in task.rates if name != task.optimizer]
    if task.optimizer == "adam":
        forms.append(with_optimizer(task, "adamw"))
    if not bool((_objective(task) & _constrained(task)).any()):
        forms += [objective_times(task, 100.0), constraint_times(task, 100.0)]
    return forms


def objective_times(task: Task, factor: float) -> Task:
    """What is minimised, in other units; rates of SGD are those that suit them."""
    rates = {name: rate if name.startswith("adam") else rate / factor for name, rate in task.rates.items()}
    factors = torch.where(_objective(task), factor, 1.0).double()
    return replace(_in_units(task, factors, f"objective x {factor:g}"), rates=rates)


def constraint_times(task: Task, factor: float) -> Task:
    """What is constrained, and the bound with it, in other units."""
    return _in_units(task, torch.where(_constrained(task), factor, 1.0).double(), f"constraint x {factor:g}")


def quarter(task: Task) -> Task:
    """A quarter of the steps."""
    return replace(task, steps=task.steps // 4, form="a quarter of the steps")


def dropped(task: Task) -> Task:
    """A learning rate that drops tenfold halfway."""
    return replace(task, drop=True, form="rate / 10 halfway")


def with_optimizer(task: Task, name: OptimizerName) -> Task:
    """Another optimizer, at the rate that suits it."""
    rates = {**task.rates}
    if name == "adamw":
        rates["adamw"] = task.rates["adam"]
    return replace(task, optimizer=name, rates=rates, form=name)


def with_outlier(task: Task, factor: float) -> Task:
    """One batch whose losses are read too large by a factor, a third of the way; its gradients are as ever."""
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
