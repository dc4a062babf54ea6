"""Oscillations are seen and calmed; noise, drift and swings that die out are left alone."""

from __future__ import annotations

import math

import pytest
import torch

from ferero.methods import windows
from ferero.methods.rows import rows_of
from ferero.methods.swings import ENOUGH, Swings, advance_swings
from ferero.preference import Preference

STEPS, SERIES = 1200, 40
ROW = Preference.from_matrices(B_g=[[1.0]])
TIME = torch.arange(STEPS, dtype=torch.float64)[:, None].expand(STEPS, SERIES)
PHASES = torch.linspace(0, 2 * math.pi, SERIES, dtype=torch.float64)


def normal(seed=0):
    return torch.randn(STEPS, SERIES, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def autoregressive(likeness):
    found = [torch.zeros(SERIES, dtype=torch.float64)]
    for value in normal()[1:]:
        found.append(likeness * found[-1] + math.sqrt(1 - likeness**2) * value)
    return 0.3 * torch.stack(found)


def sine(period, size=0.3):
    return size * torch.sin(2 * math.pi * TIME / period + PHASES)


def dying(ratio):
    """Every half swing is that much smaller than the one before."""
    return sine(60, 0.5) * ratio ** (TIME / 30)


SIGNALS = {
    **{f"sine {period}": sine(period) for period in (10, 60, 200)},
    **{f"sine {period} with noise": sine(period) + 0.1 * normal() for period in (20, 100)},
    "white": 0.5 * normal(),
    "white and small": 0.02 * normal(),
    **{f"noise {likeness}": autoregressive(likeness) for likeness in (0.5, 0.8, 0.95, 0.99)},
    **{f"dying {ratio}": dying(ratio) for ratio in (0.5, 0.75)},
    "small": sine(60, 0.019),
    "tiny": sine(60, 1e-6),
    "drift": 1 - 2 * TIME / STEPS,
    "decay": torch.exp(-TIME / 100),
    "ended": torch.where(TIME < 600, 0.3 * torch.sin(2 * math.pi * TIME / 60), 0.3 * torch.exp(-(TIME - 600) / 20)),
}


def watch(values, size=1.0):
    """Which of the series (steps, n) were ever called oscillating, and what is known of them at the end.

    The path of the values is that of the controller: levels over windows, the best one, its noise.
    """
    ones = torch.ones(values.shape[1], 1, dtype=torch.float64)
    metric = rows_of(ROW, ones.device, ones.dtype).metric(size * ones, ones)
    levels = torch.zeros(len(ones), windows.COUNT, 1, dtype=torch.float64)
    errors = torch.zeros_like(levels)
    swings, alarms = Swings(0 * ones, 0 * ones, 0 * ones, ones), torch.zeros(len(ones), dtype=torch.bool)
    for t, value in enumerate(values):
        levels, misses = windows.advance_levels(levels, value[:, None] * size, (t + 1) * ones, ones)
        errors = windows.advance_errors(errors, metric.squares(misses), (t + 1) * ones, ones)
        noise, window = errors.min(dim=-2)
        swings = advance_swings(swings, windows.best_level(levels, window), noise, metric)
        alarms |= swings.count[:, 0] >= ENOUGH
    return alarms, swings


@pytest.fixture(scope="module")
def seen():
    """All signals in one pass: the share of series that raised an alarm, the counts and the calm at the end."""
    alarms, swings = watch(torch.cat(list(SIGNALS.values()), dim=1))
    parts = zip(alarms.split(SERIES), swings.count.split(SERIES), swings.calm.split(SERIES), strict=True)
    return {name: (part[0].double().mean().item(), part[1], part[2]) for name, part in zip(SIGNALS, parts, strict=True)}


@pytest.mark.parametrize("period", [10, 60, 200])
def test_a_swing_that_goes_on_is_seen_and_calmed(seen, period):
    alarms, count, calm = seen[f"sine {period}"]
    assert alarms == 1
    assert (count >= ENOUGH).all()
    assert 0.05 <= float(calm.min()) <= float(calm.max()) <= 0.7


@pytest.mark.parametrize("period", [20, 100])
def test_a_swing_is_seen_through_noise(seen, period):
    assert seen[f"sine {period} with noise"][0] > 0.9


@pytest.mark.parametrize("kind", ["white", "white and small", *(f"noise {rho}" for rho in (0.5, 0.8, 0.95, 0.99))])
def test_noise_raises_no_false_alarm(seen, kind):
    alarms, _, calm = seen[kind]
    assert alarms <= 0.05
    assert float(calm.mean()) > 0.98


@pytest.mark.parametrize("kind", ["dying 0.5", "dying 0.75", "small", "tiny", "drift", "decay"])
def test_what_dies_out_is_invisible_or_no_swing_is_left_alone(seen, kind):
    alarms, _, calm = seen[kind]
    assert alarms == 0
    assert (calm == 1).all()


def test_an_oscillation_that_ended_is_forgotten(seen):
    """Ten periods, and then rest at the wanted value: the verdict must not stay "oscillating" for ever."""
    alarms, count, _ = seen["ended"]
    assert alarms == 1
    assert (count < ENOUGH).all()


@pytest.mark.parametrize("size", [1e-8, 1e8])
def test_units_do_not_matter(size):
    ours, theirs = watch(sine(60)[:500])[1], watch(sine(60)[:500], size)[1]
    assert torch.equal(ours.count, theirs.count)
    torch.testing.assert_close(ours.calm, theirs.calm)
