"""All tasks, in two halves: constants are chosen on the one, the tables of record report the other.

The halves were written down before anything was tuned. They share neither levels nor seeds, and some families are in
one of them only.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, TypeAlias

from ferero_lab.bench.tasks.fairness import fairness
from ferero_lab.bench.tasks.forms import forms_of
from ferero_lab.bench.tasks.fronts import equality, far_ray, ray, ray_of_three, threshold, thresholds_of_three
from ferero_lab.bench.tasks.pinn import burgers, poisson, with_lbfgs
from ferero_lab.bench.tasks.several import pair_ray, three
from ferero_lab.bench.tasks.sparsity import sparsity
from ferero_lab.bench.tasks.task import Task
from ferero_lab.bench.tasks.teachers import distillation, entropy, retention
from ferero_lab.bench.tasks.vae import vae, vae_rate
from ferero_lab.bench.tasks.weight_norm import norm_equals, weight_norm

__all__ = ["HALVES", "SEEDS", "Half", "cells"]

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
