"""The benchmark of steering measures what it says: the same runs for every method, and every row comes out."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
import torch
from rich.console import Console

import ferero
from ferero_lab.bench import steer
from ferero_lab.bench.measure import Row, rows_to_json
from ferero_lab.bench.steer import group_rates, held_out, learning_rates
from ferero_lab.bench.steer.steer_task import (
    SteerTask,
    degrees_off,
    make_problem,
    pairs,
    ray_at,
    starts,
    synthetic,
    three,
    train,
    train_fixed,
)
from ferero_lab.problems import Exponential


def weighted(*weights: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda losses: (losses.new_tensor(weights) * losses).sum()


@pytest.mark.parametrize(
    "task",
    [synthetic("exponential", 30.0, 0.1, 0.3, 20), pairs("adam", 1e-3, 45.0, 20), three("sgd", 0.1, 20)],
    ids=lambda task: task.name,
)
def test_a_run_depends_on_its_seed_alone(task: SteerTask) -> None:
    m = task.preference.m
    torch.manual_seed(1)
    one = train(task, weighted(*[1.0] * m), seed=3)
    torch.manual_seed(2)
    again = train(task, weighted(*[1.0] * m), seed=3)
    other = train(task, weighted(*[1.0] * m), seed=4)
    assert torch.equal(one.tail, again.tail)
    assert not torch.equal(one.tail, other.tail)


def test_the_noise_is_in_the_gradients_only() -> None:
    task = synthetic("quadratic", 45.0, 0.1, 0.3, 2000)
    model = task.model(0)
    (theta,) = model.parameters()
    assert torch.equal(task.losses(model, 0, 0).detach(), task.evaluate(model))
    exact = torch.autograd.functional.jacobian(make_problem("quadratic"), theta.detach())
    lengths = []
    for step in range(2000):
        losses = task.losses(model, step, 0)
        rows = [torch.autograd.grad(f, theta, retain_graph=True)[0] for f in losses]
        lengths.append((torch.stack(rows) - exact).square().sum(dim=1))
    assert torch.stack(lengths).mean().sqrt() == pytest.approx(0.3, rel=0.02)


def test_the_batched_exponential_is_the_labs_own() -> None:
    theta = starts(5, 0)
    expected = torch.stack([Exponential()(one) for one in theta])
    torch.testing.assert_close(make_problem("exponential")(theta), expected)


def test_the_tail_is_the_last_tenth_and_ends_with_the_last_step() -> None:
    run = train(pairs("sgd", 0.1, 45.0, 400), weighted(0.5, 0.5))
    assert run.tail.shape == (2, 2)
    assert torch.equal(run.tail[-1], run.losses)
    assert run.worst == max(degrees_off(row, ray_at(45.0)) for row in run.tail)
    assert run.jump is None


def test_a_divergence_is_infinitely_far_off() -> None:
    run = train(synthetic("quadratic", 45.0, 10.0, steps=2000), weighted(1.0, 1.0))
    assert run.worst == float("inf") == run.mean
    assert run.jump is not None
    assert run.jump > 1


@pytest.mark.parametrize("problem", ["exponential", "quadratic"])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_many_at_once_are_what_one_steer_each_does(problem: str, noise: float) -> None:
    settings = [learning_rates.RaySetting(20.0, 0.1, noise, 0), learning_rates.RaySetting(70.0, 0.03, noise, 1)]
    many = learning_rates.steer_many(problem, settings, 200)
    for one, tail in zip(settings, many, strict=True):
        task = synthetic(problem, one.degrees, one.learning_rate, one.noise, 200)
        run = train(task, ferero.Steer(task.preference), one.seed)
        torch.testing.assert_close(tail, run.tail, rtol=1e-9, atol=1e-9)


def test_models_side_by_side_are_what_each_is_alone() -> None:
    task = pairs("adam", 1e-3, 45.0, 60)
    many = train_fixed(task, torch.tensor([[0.3, 0.7], [0.5, 0.5]]))
    alone = train(task, weighted(0.3, 0.7))
    torch.testing.assert_close(many[0], alone.tail, rtol=1e-4, atol=1e-5)


def test_an_oracle_comes_closer_in_every_round() -> None:
    task = pairs("adam", 5e-3, 45.0, 150)
    (coarse,) = learning_rates.find_oracles(task, [45.0], rounds=1)
    (fine,) = learning_rates.find_oracles(task, [45.0], rounds=3)
    assert abs(fine.angle - 45.0) <= abs(coarse.angle - 45.0)
    assert abs(fine.angle - 45.0) < 0.5


def test_a_missing_group_is_no_reading() -> None:
    logits = torch.tensor([0.0, 2.0])
    assert set(group_rates._rates(logits, torch.tensor([False, False]))) == {"rate_a"}
    people = group_rates.draw_people(0, minority=0.02, count=400)
    assert group_rates.train_fairly(people, 1e-3, True, steps=100).absent > 0


def test_observations_count() -> None:
    never = held_out.observe_synthetic("exponential", 30.0, 0.1, None, 600)
    often = held_out.observe_synthetic("exponential", 30.0, 0.1, 50, 600)
    assert often["worst"] < 2
    assert never["worst"] > 5
    run = held_out.observe_network(held_out.few_pairs("sgd", 0.1, 30.0, 60), 20)
    assert run["worst"] >= 0


@pytest.mark.slow
def test_every_part_gives_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)
    ticks: list[str] = []
    result = steer.run(True, lambda title: lambda: ticks.append(title))
    assert set(result["seconds"]) == set(steer.PARTS)
    assert {row["group"] for row in result["rows"]}
    assert set(ticks) >= {"digit pairs", "three losses", "validation", "fairness"}
    assert result["runs"]


def shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty steps for every network."""
    monkeypatch.setattr(learning_rates, "pairs", lambda name, rate, degrees, steps: pairs(name, rate, degrees, 40))
    monkeypatch.setattr(learning_rates, "three", lambda name, rate, steps: three(name, rate, 40))
    few, many, fair = held_out.few_pairs, learning_rates.steer_many, group_rates.train_fairly
    monkeypatch.setattr(held_out, "few_pairs", lambda *setting: few(*setting[:3], 40))
    monkeypatch.setattr(
        learning_rates, "steer_many", lambda problem, settings, steps, tick: many(problem, settings, 40, tick)
    )
    monkeypatch.setattr(group_rates, "train_fairly", lambda *setting: fair(*setting[:3], 40, setting[-1]))


def test_the_table_says_what_missed() -> None:
    rows = rows_to_json([Row("a group", "a measure", 2.0, 1.0, note="why"), Row("a group", "another", 0.5, 1.0)])
    console = Console(file=io.StringIO(), width=120)
    steer.show({"name": "steer", "quick": True, "rows": rows, "seconds": {"part": 3.0}}, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "ferero bench steer --quick" in text
    assert "no" in text
    assert "yes" in text


def test_on_minibatches_of_digits_violations_are_smoothed() -> None:
    """Over some twenty steps; exact values are taken as they are."""
    exact, noisy = synthetic("quadratic", 30.0, 0.01, 0.0, steps=300), pairs("adam", 1.5e-3, 45.0, steps=400)
    for task, low, high in ((exact, 0.9, 1.0), (noisy, 0.01, 0.2)):
        steering = ferero.Steer(task.preference)
        train(task, steering)
        rate = steering.get_buffer("method_rate").exp()
        assert low <= float(rate.min()) <= float(rate.max()) <= high
