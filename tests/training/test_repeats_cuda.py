"""On a GPU: closures, checkpoints and cycles that are cut short are as on the CPU, and nothing waits for the device."""

from __future__ import annotations

import pytest
import torch
from torch import distributed
from torch.utils.checkpoint import checkpoint

import ferero
from ferero.training._distributed import check_agreement, traits_of

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

f = ferero.objectives("a", "b")
PREFERENCE = ferero.Preference(f, [f.a <= 0.5])
SIZES = (4, 4, 2, 4, 1, 4, 3, 4, 4)


def losses_of(x):
    return torch.stack([(x - 1).square().sum() + 0.1, (x + 1).square().sum() + 0.1])


def start(device):
    return torch.tensor([0.3, -0.4], dtype=torch.float64, device=device, requires_grad=True)


def moves(steer):
    return int(steer.record_arrived.max())


def train(device, sizes=SIZES, **how):
    steer, x, found = ferero.Steer(PREFERENCE, **how).to(device), start(device), []
    optimizer = torch.optim.SGD([x], lr=0.01)
    for size in sizes:
        for _ in range(size):
            (steer(losses_of(x)) / size).backward()
            found.append(steer.weights.clone())
        optimizer.step()
        optimizer.zero_grad()
    return torch.stack(found).cpu(), steer


def test_cycles_that_are_cut_short():
    on_cpu, _ = train("cpu", every=4)
    on_gpu, steer = train("cuda", every=4)
    torch.testing.assert_close(on_gpu, on_cpu)
    assert steer._captured._graphs
    assert moves(steer) == len(SIZES)


def test_nothing_waits_for_the_device():
    train("cuda", every=4)
    steer, x = ferero.Steer(PREFERENCE, every=4).to("cuda"), start("cuda")
    optimizer = torch.optim.SGD([x], lr=0.01)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for size in SIZES:
            for _ in range(size):
                steer(losses_of(x)).backward()
            optimizer.step()
            optimizer.zero_grad()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert moves(steer) == len(SIZES)


def test_micro_batches_that_are_captured_and_steps_that_are_not():
    steer, x = ferero.Steer(PREFERENCE, every=4).to("cuda"), start("cuda")
    x.grad = torch.zeros_like(x)
    optimizer = torch.optim.SGD([x], lr=0.01)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(4):
            steer(losses_of(x)).backward()
    torch.cuda.current_stream().wait_stream(stream)
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        steer(losses_of(x)).backward()
    before = moves(steer)
    for count, size in enumerate((4, 4, 2, 4, 1, 4), start=1):
        for _ in range(size):
            graph.replay()
            assert moves(steer) == before + count
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)


def test_closures():
    found = []
    for device in ("cpu", "cuda"):
        steer, x, seen = ferero.Steer(PREFERENCE).to(device), start(device), []
        optimizer = torch.optim.LBFGS([x], lr=0.5, max_iter=5)

        def closure(steer=steer, x=x, seen=seen, optimizer=optimizer):
            optimizer.zero_grad()
            loss = steer(losses_of(x))
            loss.backward()
            seen.append(steer.weights.clone())
            return loss

        for step in range(6):
            seen.clear()
            optimizer.step(closure)
            assert all(torch.equal(weights, seen[0]) for weights in seen)
            assert moves(steer) == step + 1
        found.append(x.detach().cpu())
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("every", [1, 2])
def test_checkpoints(reentrant, every):
    found = []
    for is_kept in (True, False):
        steer, x = ferero.Steer(PREFERENCE, every=every).to("cuda"), start("cuda")
        optimizer = torch.optim.SGD([x], lr=0.01)
        for _ in range(10):

            def loss_of(scale, x=x, steer=steer):
                return steer(scale * losses_of(x)).log()

            one = torch.ones((), dtype=x.dtype, device=x.device, requires_grad=reentrant and not is_kept)
            loss = loss_of(one) if is_kept else checkpoint(loss_of, one, use_reentrant=reentrant)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert moves(steer) == 10  # each step ends a cycle
        found.append(x.detach())
    torch.testing.assert_close(found[0], found[1])


def test_ranks_compare_numbers_on_the_device(tmp_path):
    if not distributed.is_nccl_available():
        pytest.skip("needs nccl")
    torch.cuda.set_device(0)
    distributed.init_process_group("nccl", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        check_agreement(traits_of(PREFERENCE, ferero.FereroPI(), 1, "raise"), torch.device("cuda"), None)
    finally:
        distributed.destroy_process_group()
