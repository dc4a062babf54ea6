"""Two processes with different samples of one family: the state and the gradient are those of the joint batch."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from tests.training.distributed.ranks import of_two_ranks
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

import ferero

pytestmark = pytest.mark.slow

N, STEPS = 12, 25


def preference(n=N):
    g = ferero.objectives("ce", group=n)
    return ferero.Preference(g, [g.group <= 0.1], minimize=g.ce)


class Net(nn.Module):
    def __init__(self, n=N):
        super().__init__()
        torch.manual_seed(0)
        self.theta = nn.Parameter(torch.rand(n, dtype=torch.float64))
        self.steer = ferero.Steer(preference(n))

    def forward(self, ids, counts):
        ce = (self.theta - 1).square().mean()
        losses, more = {"ce": ce, "group": self.theta[ids].square()}, {"group": counts}
        return self.steer(losses, counts=more, index={"group": ids})


def sample(rank, step, n=N):
    """Other members on each rank, some on both, and of other numbers of examples."""
    generator = torch.Generator().manual_seed(10 * step + rank)
    ids = torch.randperm(n, generator=generator)[: 3 + rank]
    return ids, torch.randint(1, 5, (len(ids),), generator=generator).double()


def joint(step, n=N):
    totals = torch.zeros(n, dtype=torch.float64)
    for rank in range(2):
        ids, counts = sample(rank, step, n)
        totals[ids] += counts
    ids = torch.nonzero(totals)[:, 0]
    return ids, totals[ids]


def train(model, batch, steps=STEPS):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        loss = model(*batch(step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def saved(net):
    return {"theta": net.theta.detach(), "weights": net.steer.weights, "level": net.steer.state.method.level}


def work(rank, folder, n):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    store = distributed.FileStore(str(Path(folder) / "store"), 2)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    net = Net(n)
    train(DistributedDataParallel(net, broadcast_buffers=False), lambda step: sample(rank, step, n))
    torch.save(saved(net), Path(folder) / f"{rank}.pt")
    distributed.destroy_process_group()


@pytest.mark.parametrize("n", [N, 10_000])
def test_two_samples_are_one_joint_sample(tmp_path, n):
    first, second = of_two_ranks(work, tmp_path, n)
    alone = Net(n)
    train(alone, lambda step: joint(step, n))
    for name, wanted in saved(alone).items():
        assert torch.equal(first[name], second[name])
        torch.testing.assert_close(first[name], wanted, rtol=1e-9, atol=1e-12)
