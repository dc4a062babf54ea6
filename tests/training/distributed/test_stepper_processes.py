"""A stepper on two processes: ranks stay together, and are where one process with the joint batch would be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from tests.training.distributed.ranks import of_two_ranks
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import ferero
from ferero.errors import FereroError
from ferero.methods import Ferero, FereroPI, FereroSA
from ferero.training._stepper import Stepper

pytestmark = pytest.mark.slow

f = ferero.objectives("a", "b", "c")
PREFERENCE = ferero.Preference(f, [f.c <= 0.25, f.a - f.b == 0.05])
METHODS = {"sa": FereroSA(gamma=0.1), "ferero": Ferero(), "pi": FereroPI()}
CASES = {
    "realized": {"method": "sa"},
    "forward": {"method": "sa", "slopes": "forward"},
    "jacobian": {"method": "sa", "slopes": "jacobian"},
    "gramian": {"method": "ferero"},
    "gramian, vmapped": {"method": "ferero", "chunk": 3},
    "values": {"method": "pi"},
    "accumulated": {"method": "sa", "accumulate": 2},
    "accumulated gramian": {"method": "ferero", "accumulate": 2},
    "skipped": {"method": "sa", "on_nonfinite": "skip", "spoiled": (3, 5)},
    "skipped gramian": {"method": "ferero", "on_nonfinite": "skip", "spoiled": (3, 5)},
    "fsdp": {"method": "sa", "wrapper": "fsdp"},
    "fsdp, values": {"method": "pi", "wrapper": "fsdp"},
}
REFUSED = {
    "unwrapped": ({"method": "sa", "wrapper": None}, "2 processes train together.*DistributedDataParallel"),
    "past the wrapper": ({"method": "sa", "loss_fn": "bare"}, r"loss_fn: expected a call of the model.*drift apart"),
    "fsdp, gramian": ({"method": "ferero", "wrapper": "fsdp"}, "the gramian of Ferero needs whole parameters"),
    "fsdp, forward": ({"method": "sa", "slopes": "forward", "wrapper": "fsdp"}, 'slopes="forward" needs whole'),
    "fsdp, jacobian": ({"method": "sa", "slopes": "jacobian", "wrapper": "fsdp"}, 'slopes="jacobian" needs whole'),
}


class Net(nn.Module):
    """Some parameters belong to one head, and one to nobody."""

    def __init__(self, norm=False):
        super().__init__()
        self.trunk, self.heads = nn.Linear(4, 6), nn.ModuleList(nn.Linear(6, 1) for _ in range(3))
        self.norm = nn.BatchNorm1d(6) if norm else nn.Identity()
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x):
        hidden = torch.tanh(self.norm(self.trunk(x)))
        return torch.cat([head(hidden) for head in self.heads], dim=1)


def losses_of(model, x):
    return (model(x) - torch.tensor([1.0, -1.0, 0.5], dtype=x.dtype)).square().mean(dim=0)


def bare_losses_of(model, x):
    return losses_of(getattr(model, "module", model), x)


def batch(step, rank, spoiled):
    """Half of each half of the joint batch, so that the halves of the ranks are the halves of the joint one."""
    x = torch.randn(16, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(step))
    if step in spoiled:
        x[-1 if step % 2 else 0] = torch.nan  # of the last rank's second half, or the first rank's first
    return x if rank is None else torch.cat([x[4 * rank : 4 * rank + 4], x[8 + 4 * rank : 12 + 4 * rank]])


def train(rank, method, wrapper="ddp", spoiled=(), steps=12, norm=False, loss_fn=None, **how):
    torch.manual_seed(0)
    model = Net(norm).double()
    if rank is not None and wrapper == "ddp":
        model = DistributedDataParallel(model, find_unused_parameters=True)
    elif rank is not None and wrapper == "fsdp":
        fully_shard(model.trunk)
        fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    function = losses_of if loss_fn is None else bare_losses_of
    stepper = Stepper(model, function, PREFERENCE, optimizer, method=METHODS[method], **how)
    for step in range(steps):
        stepper.step(batch(step, rank, spoiled))
    state = {name.removeprefix("module."): tensor for name, tensor in model.state_dict().items()}
    state |= dict(stepper._controller.named_buffers())
    return {n: (t.full_tensor() if hasattr(t, "full_tensor") else t).detach().clone() for n, t in state.items()}


def work(rank, folder, cases):
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    found = {}
    try:
        for name, case in cases.items():
            try:
                found[name] = train(rank, **case)
            except FereroError as error:
                found[name] = str(error)
        torch.save(found, Path(folder) / f"{rank}.pt")
    finally:
        distributed.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    cases = CASES | {name: case for name, (case, _) in REFUSED.items()}
    cases |= {f"{name}, norm": CASES[name] | {"norm": True} for name in ("realized", "gramian")}
    return of_two_ranks(work, tmp_path_factory.mktemp("ranks"), cases)


def apart(one, other):
    assert one.keys() == other.keys()
    return {name: float((one[name].double() - other[name].double()).abs().max()) for name in one}


@pytest.mark.parametrize("name", [*CASES, "realized, norm", "gramian, norm"])
def test_ranks_stay_together(ranks, name):
    gaps = apart(ranks[0][name], ranks[1][name])
    if name == "realized, norm":  # DDP itself lets the statistics differ until the next forward pass
        gaps = {key: gap for key, gap in gaps.items() if "running" not in key}
    assert set(gaps.values()) == {0.0}


@pytest.mark.parametrize("name", CASES)
def test_as_one_process_with_the_joint_batch(ranks, name):
    alone = train(None, **CASES[name])
    assert max(apart(ranks[0][name], alone).values()) < 1e-10


@pytest.mark.parametrize("name", ["skipped", "skipped gramian"])
def test_a_nan_on_one_rank_is_left_out_on_both(ranks, name):
    assert [found[name]["record_skipped"] for found in ranks] == [2, 2]


@pytest.mark.parametrize("name", REFUSED)
def test_what_could_not_be_right_is_refused(ranks, name):
    with pytest.raises(ValueError, match=REFUSED[name][1]):
        raise ValueError(ranks[0][name])
