"""Steps that may ask nothing of the device: what a CUDA graph will replay, tried on the CPU, and the graph itself."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import ferero
from ferero.methods import Decision, FereroPI, FereroSA
from ferero.training import _record as record
from ferero.training import _snapshot as snapshot
from ferero.training import _stepper as stepper
from ferero.training._buffers import write
from ferero.training._stepper import Stepper

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
KINDS = ["realized", "forward", "jacobian"]
ASKING = ("_local_scalar_dense", "nonzero", "is_nonzero", "equal.default", "_assert_async")


class Asked(TorchDispatchMode):
    """Which operators wanted to know a number."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if any(name in str(operator) for name in ASKING):
            self.found.append(str(operator))
        return operator(*args, **(kwargs or {}))


class Quiet(FereroSA):
    """Fixed weights, and no look at the numbers, as methods do on a GPU."""

    def update(self, preference, observation, state):
        weights = torch.full_like(observation.losses, 1 / 3)
        return Decision(weights, state.multipliers), replace(state, losses=observation.losses)


@cache
def target(device):
    return torch.tensor([1.0, -1.0, 0.5], device=device)


def losses_of(model, x):
    return (model(x) - target(x.device)).square().mean(dim=0)


def batch(seed, device="cpu"):
    return torch.randn(16, 4, generator=torch.Generator().manual_seed(seed)).to(device)


def make(method, device="cpu", norm=True, optimizer=torch.optim.SGD, loss_fn=losses_of, **how):
    torch.manual_seed(0)
    layers = [nn.Linear(4, 6), nn.BatchNorm1d(6) if norm else nn.Identity(), nn.Tanh(), nn.Linear(6, 3)]
    model = nn.Sequential(*layers).to(device)
    f = ferero.objectives("a", "b", "c")
    preference = ferero.Preference(f, [f.c <= 0.25, f.a - f.b == 0.05])
    settings = {"capturable": True} if optimizer is torch.optim.Adam else {"momentum": 0.9}
    return Stepper(model, loss_fn, preference, optimizer(model.parameters(), lr=0.05, **settings), method=method, **how)


def everything(run):
    state = {f"model.{k}": v.clone() for k, v in run.model.state_dict().items()}
    state |= {f"memory.{k}": v.clone() for k, v in run._controller.named_buffers()}
    for i, moments in enumerate(run.optimizer.state.values()):
        state |= {f"optimizer.{i}.{k}": v.clone() for k, v in moments.items() if isinstance(v, torch.Tensor)}
    return state


def differing(one, other):
    assert one.keys() == other.keys()
    return {name for name in one if not torch.equal(one[name], other[name])}


@pytest.fixture
def capturing(monkeypatch):
    """As if a graph were being recorded."""

    def begin():
        for module in (snapshot, stepper):
            monkeypatch.setattr(module, "is_capturing", lambda: True)
        monkeypatch.setattr(record, "_can_read", lambda _: False)

    return begin


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("how", [{}, {"clip_norm": 0.1}, {"double_sampling": False}])
def test_nothing_is_asked(capturing, kind, norm, how):
    run = make(Quiet(), norm=norm, slopes=kind, **how)
    run.step(batch(0))
    capturing()
    with Asked() as asked:
        run.step(batch(1))
    assert len(asked.found) <= 1  # the seed of the evaluations, a number that never was on a device


@pytest.mark.parametrize("method", [FereroSA(gamma=0.1), FereroPI()])
@pytest.mark.parametrize("norm", [True, False])
def test_the_same_step(capturing, method, norm):
    runs = [make(method, norm=norm) for _ in range(2)]
    for run in runs:
        run.step(batch(0))
    plain = runs[0].step(batch(1))
    capturing()
    captured = runs[1].step(batch(1))
    assert not bool(captured.skipped)
    assert differing(everything(runs[0]), everything(runs[1])) == set()
    assert torch.equal(plain.weights, captured.weights)


@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("where", [0, -1])
def test_a_bad_step_changes_nothing(capturing, norm, where):
    run = make(Quiet(), norm=norm)
    run.step(batch(0))
    before, x = everything(run), batch(1)
    x[where] = torch.nan
    capturing()
    out = run.step(x)
    assert bool(out.skipped)
    assert differing(before, everything(run)) == {"memory.record_skipped"}
    assert not bool(run.step(batch(2)).skipped)


@pytest.mark.parametrize("accept", [None, True, False])
def test_writing(accept):
    old = [torch.zeros(2, 2), torch.zeros((), dtype=torch.int64), torch.zeros(3, dtype=torch.float64), torch.zeros(0)]
    new = [torch.full((2, 2), torch.nan), torch.tensor(3), torch.ones(3), torch.zeros(0)]
    write(old, new, None if accept is None else torch.tensor(accept))
    assert torch.equal(old[1], torch.tensor(0 if accept is False else 3))
    assert bool(old[0].isnan().all()) is (accept is not False)
    assert old[2].dtype == torch.float64


# on a GPU -----------------------------------------------------------------------------------------------------


def graph_of(run, x):
    """The whole step as a graph, after some plain ones on another stream."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(5):
            run.step(x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run.step(x)
    return graph, out


@needs_gpu
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", [FereroSA(gamma=0.1), FereroSA(domain="simplex"), FereroPI()])
def test_a_gpu_trains_like_a_cpu(kind, method):
    runs = [make(method, device, slopes=kind) for device in ("cpu", "cuda")]
    for t in range(12):
        for device, run in zip(("cpu", "cuda"), runs, strict=True):
            run.step(batch(t, device))
    one, other = (everything(run) for run in runs)
    for name in one:
        torch.testing.assert_close(one[name], other[name].cpu(), rtol=2e-3, atol=2e-3)
    assert runs[1]._captured._graphs


@needs_gpu
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_captured_step_is_a_step(kind, norm, optimizer):
    x = batch(0, "cuda")
    runs = [make(FereroSA(gamma=0.1), "cuda", norm, optimizer, slopes=kind) for _ in range(2)]
    graph, out = graph_of(runs[0], x)
    for _ in range(5):
        runs[1].step(x)
    for t in range(10):
        x.copy_(batch(t, "cuda"))
        graph.replay()
        runs[1].step(x)
    assert not bool(out.skipped)
    one, other = (everything(run) for run in runs)
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=1e-4, atol=1e-4)


@needs_gpu
@pytest.mark.parametrize("norm", [True, False])
def test_a_captured_bad_step_changes_nothing(norm):
    x = batch(0, "cuda")
    run = make(FereroSA(gamma=0.1), "cuda", norm)
    graph, out = graph_of(run, x)
    graph.replay()
    before = everything(run)
    x[0] = torch.nan
    graph.replay()
    assert bool(out.skipped)
    assert differing(before, everything(run)) == {"memory.record_skipped"}
    x.copy_(batch(1, "cuda"))
    graph.replay()
    assert not bool(out.skipped)


@needs_gpu
def test_dropout_cannot_be_captured():
    run = make(FereroSA(gamma=0.1), "cuda")
    run.model[2] = nn.Dropout(0.5)
    with pytest.raises(ferero.errors.UnsupportedError, match="cannot draw twice"):
        graph_of(run, batch(0, "cuda"))


@needs_gpu
def test_a_plain_step_waits_once():
    run = make(FereroSA(gamma=0.1), "cuda", norm=False)
    x = batch(0, "cuda")
    for _ in range(6):
        run.step(x)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with pytest.warns(UserWarning, match="synchroniz") as found:
            run.step(x)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(found) == 1


@needs_gpu
@pytest.mark.parametrize("reaction", ["raise", "skip"])
def test_a_plain_bad_step_changes_nothing(reaction):
    run = make(FereroSA(gamma=0.1), "cuda", on_nonfinite=reaction)
    for t in range(6):
        run.step(batch(t, "cuda"))
    before, x = everything(run), batch(1, "cuda")
    x[0] = torch.nan
    if reaction == "raise":
        with pytest.raises(ferero.errors.NonFiniteError, match="a, b, c"):
            run.step(x)
    else:
        assert run.step(x).skipped is True
    expected = set() if reaction == "raise" else {"memory.record_skipped"}
    assert differing(before, everything(run)) == expected


@needs_gpu
def test_copies_of_a_model_are_trained_apart():
    run = make(FereroSA(gamma=0.1), "cuda")
    other = copy.deepcopy(run.model)
    for t in range(6):
        run.step(batch(t, "cuda"))
    assert not torch.equal(other[0].weight, run.model[0].weight)
