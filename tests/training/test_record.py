"""The level of a noisy loss: over a long window for noise and alternation, a short one for drift and slow swings."""

from __future__ import annotations

import math

import pytest
import torch

from ferero.training import _record as record

STEPS, SERIES = 400, 50


def normal(seed=0):
    return torch.randn(STEPS, SERIES, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def choose(values):
    """The windows (SERIES,) chosen at the end, and the levels over them."""
    levels = torch.zeros(record.WINDOWS, SERIES, dtype=torch.float64)
    errors = torch.zeros_like(levels)
    for t, value in enumerate(values):
        seen = torch.full((SERIES,), t + 1.0, dtype=torch.float64)
        levels, misses = record.advance_levels(levels, value, seen, torch.ones_like(seen))
        errors = record.advance_errors(errors, misses.square(), seen, torch.ones_like(seen))
    window = errors.argmin(dim=-2)
    return 2**window, record.best_level(levels, window)


TIME = torch.arange(STEPS, dtype=torch.float64)[:, None].expand(STEPS, SERIES)
SINE = torch.sin(2 * math.pi * TIME / 100)


@pytest.mark.parametrize(
    ("values", "least", "most"),
    [
        (1 + 0.3 * normal(), 16, 32),  # noise without drift
        (1 + 0.3 * (-1.0) ** TIME, 32, 32),  # alternation: too large a gain
        (1 - TIME / STEPS, 1, 1),  # drift
        (1 - TIME / STEPS + 1e-3 * normal(), 1, 2),
        (SINE, 1, 1),  # a slow swing
        (SINE + 0.1 * normal(), 1, 4),
        (torch.ones_like(TIME), 1, 32),
    ],
    ids=["noise", "alternation", "drift", "noisy drift", "sine", "noisy sine", "constant"],
)  # fmt: skip
def test_the_window_follows_the_signal(values, least, most):
    chosen, level = choose(values)
    share = ((chosen >= least) & (chosen <= most)).double().mean()
    assert share >= 0.95, chosen.bincount()
    assert torch.isfinite(level).all()


def test_the_level_denoises():
    chosen, level = choose(1 + 0.3 * normal())
    assert float((level - 1).square().mean().sqrt()) < 0.1
    assert float(chosen.double().mean()) > 25


def test_a_change_of_regime_is_followed():
    noise = 0.1 * normal()
    ramp = (TIME - STEPS // 2).clamp(min=0) * 0.05
    chosen, _ = choose(noise + ramp)
    assert (chosen <= 8).double().mean() > 0.9


def test_the_first_levels_are_plain_means():
    levels = torch.zeros(record.WINDOWS, 1, dtype=torch.float64)
    values = [1.0, 3.0, 8.0]
    for t, value in enumerate(values):
        number = torch.tensor([value], dtype=torch.float64)
        seen = torch.tensor([t + 1.0], dtype=torch.float64)
        levels, misses = record.advance_levels(levels, number, seen, torch.ones_like(seen))
    assert levels[0].item() == 8.0  # a window of one is the value itself: no lag at all
    assert levels[2:, 0].tolist() == pytest.approx([4.0] * 4)
    assert misses[-1].item() == pytest.approx(8.0 - 2.0)


def test_what_did_not_arrive_changes_nothing():
    levels = torch.rand(record.WINDOWS, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    errors = levels.clone() + 1
    seen, arrived = torch.tensor([5.0, 5.0]).double(), torch.tensor([1.0, 0.0]).double()
    new, misses = record.advance_levels(levels, torch.tensor([9.0, 9.0]).double(), seen, arrived)
    found = record.advance_errors(errors, misses.square(), seen, arrived)
    assert torch.equal(new[:, 1], levels[:, 1])
    assert torch.equal(found[:, 1], errors[:, 1])
    assert not torch.equal(found[:, 0], errors[:, 0])
    assert (misses[:, 1] == 0).all()
