"""What one all-reduce makes of the losses and news of two ranks, the other rank's share being added by hand."""

import pytest
import torch

from ferero.training import _joint as joint
from ferero.training._losses import Reading


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.fixture
def with_another_rank(monkeypatch):
    """A second rank whose payload (sums, counts, measured times counts, counts) is added to this one's."""
    other = torch.stack([tensor(8.0, 0.0, 5.0), tensor(4.0, 0.0, 1.0), tensor(0.6, 0.0, 0.0), tensor(1.0, 0.0, 0.0)])
    monkeypatch.setattr(joint, "ranks_of", lambda group: 2)
    monkeypatch.setattr(joint.distributed, "all_reduce", lambda payload, group: payload.add_(other))


def test_means_and_shares_are_those_of_the_joint_batch(with_another_rank):
    reading = Reading(tensor(1.0, 3.0, 0.0), tensor(12.0, 2.0, 0.0))
    step, _ = joint.gather(reading, torch.zeros(2, 3, dtype=torch.float64), None)
    assert step.means.tolist() == [20.0 / 16, 3.0, 5.0]
    assert step.counts.tolist() == [16.0, 2.0, 1.0]
    assert step.share.tolist() == [2 * 12 / 16, 2.0, 0.0]


def test_what_both_ranks_measured_counts_as_its_mean(with_another_rank):
    news = torch.stack([tensor(0.2, 0.7, 0.0), tensor(1.0, 1.0, 0.0)])
    _, joined = joint.gather(Reading(tensor(1.0, 1.0, 1.0), None), news, None)
    assert joined[0].tolist() == pytest.approx([0.4, 0.7, 0.0])
    assert joined[1].tolist() == [2.0, 1.0, 0.0]
