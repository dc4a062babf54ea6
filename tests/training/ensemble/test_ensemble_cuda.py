"""On a GPU: the same front as on the CPU, by replayed graphs, whatever the method."""

import dataclasses

import pytest
import torch

import ferero

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated"),  # torch's own compiler
]

METHODS = [
    (ferero.FereroPI(), "realized"),
    (ferero.LinearScalarization(), "realized"),
    (ferero.SmoothTchebycheff(), "realized"),
    (ferero.FereroSA(gamma=0.01), "realized"),
    (ferero.FereroSA(gamma=0.01), "forward"),
    (ferero.FereroSA(gamma=0.01), "jacobian"),
    (ferero.MGDA(), "realized"),
    (ferero.EPO(), "realized"),
    (ferero.PMTL(), "realized"),
    (ferero.XWCMGDA(), "realized"),
    (ferero.Ferero(), "realized"),
]


def losses(model, batch):
    x, y = batch
    return ((model(x) - y) ** 2).mean(dim=0)


def train(device, method, slopes, **options):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(96, 5, generator=generator, dtype=torch.float64)
    y = torch.stack([x[:, 0] * 2 - 1, x[:, 1] ** 2], dim=1)
    knows = method.understands(ferero.Preference.ray([1.0, 1.0])) is None
    wanted = [[1.0, 1.0], [1.0, 2.0]] if knows else [ferero.Preference.pareto(2)]
    if hasattr(method, "solver"):
        method = dataclasses.replace(method, solver="batched")
    settings = {"optimizer": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.5), "epochs": 6, **options}
    return ferero.train_front(
        lambda seed: torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2)).double(),
        losses, (x, y), wanted, batch_size=16, seeds=2, method=method, slopes=slopes, device=device, **settings,
    )  # fmt: skip


@pytest.mark.parametrize(("method", "slopes"), METHODS, ids=lambda v: v if isinstance(v, str) else type(v).__name__)
def test_the_same_front_as_on_the_cpu(method, slopes):
    here, there = train("cpu", method, slopes), train("cuda", method, slopes)
    assert torch.allclose(here.losses, there.losses, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_other_optimizers_and_a_schedule(optimizer):
    options = {
        "optimizer": lambda p: optimizer(p, lr=0.01),
        "schedule": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 6),
    }
    here, there = (train(device, ferero.FereroPI(), "realized", **options) for device in ("cpu", "cuda"))
    assert torch.allclose(here.losses, there.losses, rtol=1e-4, atol=1e-6)


def test_compiled_is_the_same():
    plain = train("cuda", ferero.FereroPI(), "realized")
    compiled = train("cuda", ferero.FereroPI(), "realized", compile=True)
    assert torch.allclose(plain.losses, compiled.losses, rtol=1e-6)


def test_rates_of_their_own():
    here, there = (train(device, ferero.FereroPI(), "realized", rate_factors=[1.0, 0.3]) for device in ("cpu", "cuda"))
    assert torch.allclose(here.losses, there.losses, rtol=1e-5, atol=1e-7)


def test_nothing_waits_for_the_device_inside_an_epoch(monkeypatch):
    from ferero.training._ensemble import Ensemble

    plain = Ensemble.step

    def watched(self, batch):
        torch.cuda.set_sync_debug_mode("error")
        try:
            return plain(self, batch)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    monkeypatch.setattr(Ensemble, "step", watched)
    train("cuda", ferero.FereroPI(), "realized")
