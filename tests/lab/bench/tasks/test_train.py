"""Scores, forms, rivals, training alone and side by side: what differs between methods is the weights alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.lab.bench.tasks.made_up import tiny
from torch import Tensor

import ferero
from ferero_lab.bench.tasks.cell import USUAL, Variants, make_variants
from ferero_lab.bench.tasks.pinn import poisson, with_lbfgs
from ferero_lab.bench.tasks.registry import constraint_times, forms_of, objective_times, with_outlier
from ferero_lab.bench.tasks.rivals import Rival, Rivals
from ferero_lab.bench.tasks.train import evaluation_steps, relative_violations, score, train_alone, train_together
from ferero_lab.bench.tasks.vae import vae


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_violations_are_over_the_bound_or_the_largest_term() -> None:
    f = ferero.objectives("a", "b")
    task = replace(tiny(), preference=ferero.Preference(f, [f.a <= 2.0, f.b - f.a == 0.5]))
    assert relative_violations(task, tensor(1.0, 1.5)) == 0
    assert relative_violations(task, tensor(2.2, 2.7)) == pytest.approx(0.1)
    assert relative_violations(task, tensor(1.0, 1.4)) == pytest.approx(0.2)
    level = replace(tiny(), preference=ferero.Preference(f, [f.a <= 2 * f.b], minimize=f.b))
    assert relative_violations(level, tensor(4.0, 1.0)) == pytest.approx(0.5)
    assert relative_violations(level, tensor(0.0, 0.0)) == 0


def test_a_run_that_ends_early_is_not_met_and_a_swing_counts() -> None:
    task = tiny(100)
    steps = evaluation_steps(task)
    assert steps[-1] == 100
    losses = torch.full((len(steps), 2), 0.5, dtype=torch.float64)
    assert score(task, losses).is_met
    assert score(task, losses).held == steps[0]
    swinging = losses.clone()
    swinging[-1, 0] = 0.6
    assert score(task, swinging).held == torch.inf
    diverged = losses.clone()
    diverged[-1] = torch.nan
    assert score(task, diverged).mean == torch.inf


def test_other_units_change_nothing_but_the_units() -> None:
    task = vae(4.0)
    model = task.model(0)
    plain = task.losses(model, 3, 0)
    for made, factors in ((objective_times(task, 100.0), (1, 100)), (constraint_times(task, 100.0), (100, 1))):
        values = made.losses(model, 3, 0)
        assert torch.allclose(values, plain * torch.tensor(factors))
        assert torch.allclose(made.evaluate(model), task.evaluate(model) * torch.tensor(factors))
        again, before = (relative_violations(one, x.detach().double()) for one, x in ((made, values), (task, plain)))
        assert again == pytest.approx(float(before))
    assert objective_times(task, 100.0).rates["momentum"] == pytest.approx(task.rates["momentum"] / 100)
    assert len({form.form for form in forms_of(task)}) == len(forms_of(task)) == 8


def test_an_outlier_is_one_reading_and_leaves_gradients_as_they_are() -> None:
    task = tiny(30)
    odd = with_outlier(task, 1e4)
    for step, factor in ((9, 1.0), (10, 1e4), (11, 1.0)):
        model = task.model(0)
        gradients = []
        for one, times in ((task, 1.0), (odd, factor)):
            losses = one.losses(model, step, 0)
            assert torch.allclose(losses, times * task.losses(model, step, 0))
            gradients.append(torch.autograd.grad(losses.sum(), list(model.parameters()))[0])
        assert torch.allclose(*gradients)


@pytest.mark.parametrize("task", [tiny(40), replace(vae(4.0), steps=25)], ids=["tiny", "vae"])
def test_alone_and_together_are_the_same_for_the_same_weights(task: object) -> None:
    weights = tensor(0.3, 0.7)
    together = train_together(task, lambda losses: weights.expand(len(losses), 2), 3, 1)  # type: ignore[arg-type]
    alone = train_alone(task, lambda losses: (weights.to(losses) * losses).sum(), 1)  # type: ignore[arg-type]
    assert torch.equal(together[0], together[2])
    assert torch.allclose(together[0], alone, rtol=1e-4)


def test_after_the_optimizer_l_bfgs_goes_on() -> None:
    task = with_lbfgs(replace(poisson(1e-4), steps=20), steps=5)
    weights = tensor(0.5, 0.5)
    together = train_together(task, lambda losses: weights.expand(len(losses), 2), 2, 0)
    alone = train_alone(task, lambda losses: (weights.to(losses) * losses).sum(), 0)
    assert torch.isfinite(alone).all()
    assert torch.allclose(together[1, :2], alone[:2], rtol=1e-4)  # from there on rounding decides line searches
    assert (alone[-1] < 0.1 * alone[1]).all()
    assert (together[1, -1] < 0.1 * together[1, 1]).all()


def test_two_steps_of_each_rule_by_hand() -> None:
    """``a <= 2, minimize b`` at a = 3, then at a = 1."""
    f = ferero.objectives("a", "b")
    preference = ferero.Preference(f, [f.a <= 2.0], minimize=f.b)
    rules = (
        Rival("dual, F - b", False, 0.1, 10.0),
        Rival("dual, F / b - 1", True, 0.1, 1.0),
        Rival("nuPI", False, 0.1, 3.0, 0.0),
        Rival("nuPI", False, 2.0, 1.0, 0.5),
        Rival("quadratic penalty", True, 0.0, 100.0),
        Rival("constraint alone", True, 0.0, 1.0, objective=0.0),
    )
    steering = Rivals(preference, rules)
    first = steering(tensor(3.0, 1.0).expand(6, 2))
    assert first[:, 1].tolist() == [1, 1, 1, 1, 1, 0]
    # lam = 0.1 e, and k e on top; relative: e = 0.5, its weight over the bound once more; nuPI: lam alone
    assert first[:, 0].tolist() == pytest.approx([0.1 + 10, (0.05 + 0.5) / 2, 0.1, 2.0, 25.0, 0.25])
    second = steering(tensor(1.0, 1.0).expand(6, 2))
    # e = -1: lam back to 0; nuPI at nu 0.5: 2 - 2 + 1 * (0 - 1) < 0
    assert second[:, 0].tolist() == pytest.approx([0.0, 0.0, 0.0, 0.0, 0.0, 0.0], abs=1e-12)


def test_an_equality_may_push_up() -> None:
    f = ferero.objectives("a", "b")
    steering = Rivals(ferero.Preference(f, [f.a == 2.0], minimize=f.b), (Rival("dual", False, 0.5, 1.0),))
    assert steering(tensor(1.0, 1.0)[None]).tolist() == [[-1.5, 1.0]]


def test_the_usual_variant_is_what_steer_does() -> None:
    task = tiny(50)
    methods = make_variants()
    assert next(iter(methods)) == USUAL
    assert methods[USUAL] == ferero.FereroPI()
    assert len(set(methods.values())) == len(methods)
    together = train_together(task, Variants(task.preference, list(methods.values())[:3]), 3, 0)
    alone = train_alone(task, ferero.Steer(task.preference), 0)
    assert torch.allclose(together[0], alone, rtol=1e-6)
    assert not torch.allclose(together[1], alone, rtol=1e-6)


def test_a_variant_that_diverges_leaves_the_others_alone() -> None:
    steering = Variants(tiny().preference, [ferero.FereroPI()] * 2)
    for values in ((1.0, 1.0), (torch.nan, torch.inf)):
        weights = steering(torch.stack([tensor(1.0, 1.0), tensor(*values)]))
        assert torch.isfinite(weights).all()
