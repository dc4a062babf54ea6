"""Ten steps are five, a checkpoint, a new process, and five more, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.multiprocessing.spawn import start_processes

import ferero
from ferero.methods import Ferero, FereroPI, FereroSA
from ferero.training._stepper import Stepper

pytestmark = pytest.mark.slow

CASES = {
    "realized": {"method": FereroSA(gamma=0.1)},
    "forward": {"method": FereroSA(gamma=0.1), "slopes": "forward"},
    "random halves": {"method": FereroSA(gamma=0.1), "is_random": True},
    "accumulated": {"method": FereroSA(gamma=0.1), "accumulate": 2},
    "gramian": {"method": Ferero()},
    "values": {"method": FereroPI()},
}


def losses_of(model, x):
    return (model(x) - torch.tensor([1.0, -1.0])).square().mean(dim=0)


def train(first, last, load=None, save=None, is_random=False, accumulate=1, **how):
    """Steps ``first`` to ``last`` on batches from torch's own random numbers, with dropout and BatchNorm."""
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(3) if is_random else None
    f = ferero.objectives("a", "b")
    preference = ferero.Preference(f, [f.a - f.b == 0.1])
    stepper = Stepper(model, losses_of, preference, optimizer, generator=generator, accumulate=accumulate, **how)
    parts = {"model": model, "optimizer": optimizer, "stepper": stepper}
    if load is not None:
        saved = torch.load(load, weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        torch.set_rng_state(saved["random"])
    for _ in range(first * accumulate, last * accumulate):
        stepper.step(torch.randn(16, 4))
    state = {name: part.state_dict() for name, part in parts.items()} | {"random": torch.get_rng_state()}
    if save is not None:
        torch.save(state, save)
    return state


def go_on(rank, folder):
    torch.set_num_threads(1)
    for i, case in enumerate(CASES.values()):
        train(5, 10, load=Path(folder) / f"{i}.pt", save=Path(folder) / f"{i}-new.pt", **case)


def flat(state):
    if isinstance(state, dict):
        return [x for key in state for x in flat(state[key])]
    return [x for item in state for x in flat(item)] if isinstance(state, list | tuple) else [state]


def test_resume_is_exact(tmp_path):
    for i, case in enumerate(CASES.values()):
        train(0, 5, save=tmp_path / f"{i}.pt", **case)
    start_processes(go_on, (str(tmp_path),), 1)
    for i, (name, case) in enumerate(CASES.items()):
        one, other = flat(train(0, 10, **case)), flat(torch.load(tmp_path / f"{i}-new.pt", weights_only=True))
        same = [torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in zip(one, other, strict=True)]
        assert all(same), name
