"""Two processes with one steer each: who differs is refused on both, and closures, checkpoints and cycles agree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from tests.training.distributed.ranks import of_two_ranks
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import ferero
from ferero.errors import FereroError

pytestmark = pytest.mark.slow

NAMES = ("a", "b", "c")
FALLING = ferero.ramp(0.5, 0.3, steps=10)


def parsed(names=NAMES[:2], level=0.5):
    f = ferero.objectives(*names)
    return ferero.Preference(f, [f[0] <= level])


class Net(nn.Module):
    def __init__(self, steer):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, len(steer.preference.names))).double()
        self.steer = steer

    def forward(self, x, counts=None):
        return self.steer(self.layers(x).square().mean(dim=0) + 0.1, counts)


def batch(rank, step):
    return torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(10 * step + rank))


def moves(steer):
    return int(steer.record_arrived.max())


def refused(rank, names=(NAMES[:2], NAMES[:2]), levels=(0.5, 0.5), every=(1, 1), later=None, group=None):
    """What each rank says at its first step, having built its own, or having changed to its own later."""
    group = distributed.new_group([0, 1]) if group else None
    method = ferero.FereroPI()
    steer = ferero.Steer(parsed(names[rank], levels[0 if later else rank]), method, every[rank], group=group)
    net = Net(steer)
    if later:
        net(batch(rank, 0)).backward()
    if later == "ask":
        steer.ask(parsed(names[rank], levels[rank]))
    if later == "reset":
        steer._preference = parsed(names[rank], levels[rank])  # in a way that no user has
        net(batch(rank, 1)).backward()  # looked at once only
        steer.reset()
    return float(net(batch(rank, 2)))


def moving(rank):
    """A level that moves, under DDP."""
    net = Net(ferero.Steer(parsed(level=FALLING)))
    model, optimizer = DistributedDataParallel(net, broadcast_buffers=False), torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(5):
        optimizer.zero_grad()
        model(batch(rank, step)).backward()
        optimizer.step()
    return {"label": net.steer.report().constraints[0].label, "state": dict(net.steer.named_buffers())}


def closures(rank):
    """L-BFGS on averaged gradients; the ranks have different numbers of examples, and share the loss."""
    net = Net(ferero.Steer(parsed()))
    model, seen = DistributedDataParallel(net, broadcast_buffers=False), []
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=5, line_search_fn="strong_wolfe")
    for step in range(3):

        def closure(step=step):
            optimizer.zero_grad()
            x = batch(rank, step)[: 2 + 4 * rank]
            loss = model(x, len(x))
            loss.backward()
            whole = loss.detach().clone()
            distributed.all_reduce(whole)
            seen.append(whole / 2)
            return whole / 2

        optimizer.step(closure)
    state = [p.detach() for p in net.parameters()]
    return {"moves": moves(net.steer), "evaluations": len(seen), "state": state, "losses": torch.stack(seen)}


def checkpoints(rank, how, spoiled=()):
    """Two batches of different sizes on the way before each backward pass."""
    net = Net(ferero.Steer(parsed(), on_nonfinite="skip"))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        losses = []
        with model.no_sync():
            for half in range(2):
                x = batch(rank, 2 * step + half)[: 2 + 3 * (rank == half)]
                x = x * torch.nan if (step, rank) in spoiled else x
                run = model if how is None else checkpoint
                arguments = (x, len(x)) if how is None else (net, x, len(x))
                losses.append(run(*arguments, **({} if how is None else {"use_reentrant": False})))
        torch.stack(losses).sum().backward()
        for parameter in net.layers.parameters():
            distributed.all_reduce(parameter.grad)
            parameter.grad /= 2
        optimizer.step()
        optimizer.zero_grad()
    return {"moves": moves(net.steer), "state": [p.detach() for p in net.parameters()]}


def cycles(rank, wrapper, sizes=(4, 2, 4, 1, 4)):
    """Steps after so many micro-batches; how often the law had moved at every one of them."""
    steer = ferero.Steer(parsed(), every=4)
    net = Net(steer)
    if wrapper == "fsdp":
        fully_shard(net.layers[0])
        fully_shard(net)
    model = DistributedDataParallel(net) if wrapper == "ddp" else net
    optimizer, found = torch.optim.SGD(net.parameters(), lr=0.05), []
    for step, size in enumerate(sizes):
        found.append([])
        for micro in range(size):
            model(batch(rank, 10 * step + micro)).backward()
            found[-1].append(moves(steer))
        optimizer.step()
        optimizer.zero_grad()
    return found


CASES = {
    "alike": (refused, {}),
    "other constraints": (refused, {"levels": (0.5, 0.4)}),
    "other constraints, in a group": (refused, {"levels": (0.5, 0.4), "group": True}),
    "other constraints asked later": (refused, {"levels": (0.5, 0.4), "later": "ask"}),
    "other constraints after a reset": (refused, {"levels": (0.5, 0.4), "later": "reset"}),
    "more losses": (refused, {"names": (NAMES[:2], NAMES)}),
    "another every": (refused, {"every": (1, 2)}),
    "alike once more": (refused, {}),
    "other levels that move": (refused, {"levels": (FALLING, ferero.ramp(0.5, 0.3, steps=11))}),
    "moving": (moving, {}),
    "closures": (closures, {}),
    "plain": (checkpoints, {"how": None}),
    "checkpoints": (checkpoints, {"how": "kept apart"}),
    "plain, spoiled": (checkpoints, {"how": None, "spoiled": ((1, 1),)}),
    "checkpoints, spoiled": (checkpoints, {"how": "kept apart", "spoiled": ((1, 1),)}),
    "cycles, ddp": (cycles, {"wrapper": "ddp"}),
    "cycles, fsdp": (cycles, {"wrapper": "fsdp"}),
}


def work(rank, folder):
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    found = {}
    try:
        for name, (function, how) in CASES.items():
            try:
                found[name] = function(rank, **how)
            except FereroError as error:
                found[name] = f"{type(error).__name__}: {error}"
        torch.save(found, Path(folder) / f"{rank}.pt")
    finally:
        distributed.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return of_two_ranks(work, tmp_path_factory.mktemp("together"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("other constraints", "other constraints"),
        ("other constraints, in a group", "other constraints"),
        ("other constraints asked later", "other constraints"),
        ("other constraints after a reset", "other constraints"),
        ("other levels that move", "other constraints"),
        ("more losses", "other losses, another order and other constraints"),
        ("another every", "another every"),
    ],
)
def test_both_ranks_are_told_what_differs(ranks, name, words):
    said = f"InputError: Steer: rank 1 has {words} than rank 0, so their models would drift apart; build the same Steer"
    assert all(found[name].startswith(said) for found in ranks), ranks[0][name]


@pytest.mark.parametrize("name", ["alike", "alike once more"])
def test_who_is_alike_goes_on(ranks, name):
    assert all(isinstance(found[name], float) for found in ranks)


def test_a_level_that_moves_is_the_same_on_both_ranks(ranks):
    first, second = (found["moving"] for found in ranks)
    assert first["label"] == second["label"] == "a <= ramp(0.5, 0.3, steps=10), now 0.4"
    torch.testing.assert_close(first["state"], second["state"], rtol=0, atol=0)


def test_closures_move_once_a_step_and_alike(ranks):
    first, second = (found["closures"] for found in ranks)
    assert first["moves"] == second["moves"] == 3
    assert first["evaluations"] == second["evaluations"] > 6
    torch.testing.assert_close(first["state"], second["state"], rtol=0, atol=0)
    torch.testing.assert_close(first["losses"], second["losses"], rtol=0, atol=0)


@pytest.mark.parametrize("spoiled", ["", ", spoiled"])
def test_checkpoints_keep_every_batch_s_own_shares(ranks, spoiled):
    for found in ranks:
        assert found[f"checkpoints{spoiled}"]["moves"] == found[f"plain{spoiled}"]["moves"]
        torch.testing.assert_close(
            found[f"checkpoints{spoiled}"]["state"], found[f"plain{spoiled}"]["state"], rtol=1e-12, atol=1e-15
        )


@pytest.mark.parametrize("wrapper", ["ddp", "fsdp"])
def test_a_step_ends_a_cycle(ranks, wrapper):
    for found in ranks:
        assert found[f"cycles, {wrapper}"] == [[1] * 4, [2] * 2, [3] * 4, [4], [5] * 4]
