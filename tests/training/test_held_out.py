"""Measured values correct the training values and never replace them."""

from __future__ import annotations

import math

import pytest
import torch

from ferero.training._held_out import Correction, correct


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


YES, NO = torch.tensor([True, True]), torch.tensor([False, False])


def test_nothing_measured_changes_nothing():
    none = Correction.none(2)
    assert none.apply(tensor(0.3, 0.7)).tolist() == [0.3, 0.7]
    after = correct(none, tensor(9.0, 9.0), NO, tensor(0.3, 0.7), torch.tensor([False, True]))
    assert (after.gain.tolist(), after.offset.tolist(), after.observed.tolist()) == ([1, 1], [0, 0], [0, 0])


def test_a_held_out_loss_is_an_offset_that_moves_with_the_training_value():
    after = correct(Correction.none(2), tensor(0.5, 0.9), torch.tensor([True, False]), tensor(0.3, 0.7), NO)
    assert after.apply(tensor(0.3, 0.7)).tolist() == pytest.approx([0.5, 0.7])
    assert after.apply(tensor(0.1, 0.7)).tolist() == pytest.approx([0.3, 0.7])  # not held at 0.5
    again = correct(after, tensor(0.2, 0.0), torch.tensor([True, False]), tensor(0.1, 0.7), NO)
    assert again.apply(tensor(0.1, 0.7))[0].item() == pytest.approx(0.2)  # at once, not by halves
    assert again.observed.tolist() == [2, 0]


def test_a_metric_has_a_gain_at_first_and_a_slow_offset_after():
    first = correct(Correction.none(2), tensor(40.0, -3.0), YES, tensor(0.5, 2.0), YES)
    assert first.gain.tolist() == pytest.approx([80.0, 1.5])
    assert first.apply(tensor(0.5, 2.0)).tolist() == pytest.approx([40.0, -3.0])
    second = correct(first, tensor(30.0, -3.0), YES, tensor(0.5, 2.0), YES)
    assert second.gain.tolist() == first.gain.tolist()
    assert second.apply(tensor(0.5, 2.0)).tolist() == pytest.approx([35.0, -3.0])  # half of what is missing
    third = correct(second, tensor(30.0, -3.0), YES, tensor(0.5, 2.0), YES)
    assert third.apply(tensor(0.5, 2.0))[0].item() == pytest.approx(32.5)


def test_a_gain_changes_the_shares_of_the_weights_and_never_enlarges_their_sum():
    weights = torch.tensor([0.25, -0.75, 1.0], dtype=torch.float64)
    for gain, wanted in (([1.0, 1.0, 1.0], weights), ([0.5, 1.0, 1.0], weights * torch.tensor([0.5, 1.0, 1.0]))):
        found = Correction(torch.tensor(gain).double(), torch.zeros(3), torch.zeros(3)).weights(weights)
        torch.testing.assert_close(found, wanted)
    found = Correction(torch.tensor([100.0, 1.0, 1.0]).double(), torch.zeros(3), torch.zeros(3)).weights(weights)
    torch.testing.assert_close(found, 2 * weights * torch.tensor([100.0, 1.0, 1.0]) / 26.75)


@pytest.mark.parametrize(("measured", "training"), [(0.0, 0.5), (3.0, 0.0), (0.0, 0.0)])
def test_a_metric_that_is_zero_at_first_keeps_the_gain_at_1(measured, training):
    after = correct(Correction.none(2), tensor(measured, 1.0), YES, tensor(training, 1.0), YES)
    assert after.gain[0].item() == 1.0
    assert after.apply(tensor(training, 1.0))[0].item() == pytest.approx(measured)
    assert torch.isfinite(after.offset).all()


@pytest.mark.parametrize("gain", [0.1, 1.0, 10.0])
def test_the_slow_offset_settles_on_the_metric(gain):
    """``metric = 100 f^2`` at f = 0.3, whatever the gain was guessed to be."""
    state = Correction(tensor(gain, 1.0), tensor(0.0, 0.0), tensor(1.0, 1.0))
    for _ in range(30):
        state = correct(state, tensor(9.0, 1.0), YES, tensor(0.3, 1.0), YES)
    assert state.apply(tensor(0.3, 1.0))[0].item() == pytest.approx(9.0, abs=1e-6)


def test_the_outer_loop_finds_the_threshold():
    """An inner loop that holds gain f + offset at 4: f ends where 100 f^2 = 4."""
    state, f = Correction.none(1), 0.8
    for _ in range(60):
        state = correct(state, tensor(100 * f * f), YES[:1], tensor(f), YES[:1])
        f = max(0.0, (4.0 - state.offset.item()) / state.gain.item())
    assert f == pytest.approx(0.2, abs=1e-4)
    assert math.isfinite(state.offset.item())
