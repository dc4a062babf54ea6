"""Oscillations are seen and calmed; noise, drift and swings that die out are left alone."""

from __future__ import annotations

import math

import pytest
import torch

from ferero.methods import windows
from ferero.methods.rows import rows_of
from ferero.methods.swings import ENOUGH, Swings, advance_swings
from ferero.preference import Preference

STEPS, SERIES = 1500, 100
ROW = Preference.from_matrices(B_g=[[1.0]])
TIME = torch.arange(STEPS, dtype=torch.float64)[:, None].expand(STEPS, SERIES)
PHASES = torch.linspace(0, 2 * math.pi, SERIES, dtype=torch.float64)


def normal(seed=0):
    return torch.randn(STEPS, SERIES, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def autoregressive(likeness, seed=0):
    noise, found = normal(seed), [torch.zeros(SERIES, dtype=torch.float64)]
    for value in noise[1:]:
        found.append(likeness * found[-1] + math.sqrt(1 - likeness**2) * value)
    return torch.stack(found)


def watch(values, metric_size=1.0):
    """Which of the series (STEPS, SERIES) were ever called oscillating, and what is known of them at the end.

    The path of the values is that of the controller: levels over windows, the best one, its noise.
    """
    ones = torch.ones(SERIES, 1, dtype=torch.float64)
    metric = rows_of(ROW, ones.device, ones.dtype).metric(metric_size * ones, ones)
    levels = torch.zeros(SERIES, windows.COUNT, 1, dtype=torch.float64)
    errors = torch.zeros_like(levels)
    swings, alarms = Swings(0 * ones, 0 * ones, 0 * ones, ones), torch.zeros(SERIES, dtype=torch.bool)
    for t, value in enumerate(values):
        levels, misses = windows.advance_levels(levels, value[:, None] * metric_size, (t + 1) * ones, ones)
        errors = windows.advance_errors(errors, metric.squares(misses), (t + 1) * ones, ones)
        noise, window = errors.min(dim=-2)
        swings = advance_swings(swings, windows.best_level(levels, window), noise, metric)
        alarms |= swings.count[:, 0] >= ENOUGH
    return alarms.double().mean().item(), swings


@pytest.mark.parametrize("period", [10, 60, 200])
def test_a_swing_that_goes_on_is_seen_and_calmed(period):
    alarms, swings = watch(0.3 * torch.sin(2 * math.pi * TIME / period + PHASES))
    assert alarms == 1
    assert (swings.count >= ENOUGH).all()
    assert float(swings.calm.max()) <= 0.7
    assert float(swings.calm.min()) >= 0.05


@pytest.mark.parametrize("period", [20, 100])
def test_a_swing_is_seen_through_noise(period):
    alarms, _ = watch(0.3 * torch.sin(2 * math.pi * TIME / period + PHASES) + 0.1 * normal())
    assert alarms > 0.9


@pytest.mark.parametrize(
    "values",
    [0.5 * normal(), 0.02 * normal(), *(0.3 * autoregressive(rho) for rho in (0.5, 0.8, 0.95, 0.99))],
    ids=["white", "small", "0.5", "0.8", "0.95", "0.99"],
)
def test_noise_raises_no_false_alarm(values):
    alarms, swings = watch(values)
    assert alarms <= 0.05
    assert float(swings.calm.mean()) > 0.98


@pytest.mark.parametrize("ratio", [0.5, 0.75])
def test_a_swing_that_dies_out_is_left_alone(ratio):
    alarms, swings = watch(0.5 * torch.sin(2 * math.pi * TIME / 60 + PHASES) * ratio ** (TIME / 30))
    assert alarms == 0
    assert (swings.calm == 1).all()


@pytest.mark.parametrize("size", [0.019, 1e-6])
def test_what_nobody_would_see_is_left_alone(size):
    alarms, _ = watch(size * torch.sin(2 * math.pi * TIME / 60 + PHASES))
    assert alarms == 0


def test_drift_and_a_change_of_sides_are_no_swing():
    assert watch(1 - 2 * TIME / STEPS)[0] == 0
    assert watch(torch.exp(-TIME / 100))[0] == 0


def test_an_oscillation_that_ended_is_forgotten():
    """Ten periods, and then rest at the wanted value: the verdict must not stay "oscillating" for ever."""
    values = torch.where(TIME < 600, 0.3 * torch.sin(2 * math.pi * TIME / 60), 0.3 * torch.exp(-(TIME - 600) / 20))
    alarms, swings = watch(values)
    assert alarms == 1
    assert (swings.count < ENOUGH).all()


@pytest.mark.parametrize("size", [1e-8, 1e8])
def test_units_do_not_matter(size):
    values = 0.3 * torch.sin(2 * math.pi * TIME / 60 + PHASES)
    ours, theirs = watch(values)[1], watch(values, size)[1]
    assert torch.equal(ours.count, theirs.count)
    torch.testing.assert_close(ours.calm, theirs.calm)
