"""One model in a plain loop, the way a user would write it, and the front that is compared with it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

import ferero
from ferero.fronts._train_front import train_front
from ferero.training._batches import TensorBatches

CPU = torch.device("cpu")
f = ferero.objectives("a", "b", "c")
RAY = ferero.Preference.ray([1.0, 2.0, 1.5], names=("a", "b", "c"))
OTHER_RAY = ferero.Preference.ray([2.0, 1.0, 1.0], names=("a", "b", "c"))
BOUND = ferero.Preference(f, [f.a <= 0.4, f.b - f.c == 0.1])
ORDER = ferero.Preference.pareto(3, names=("a", "b", "c"))


class Net(nn.Module):
    def __init__(self, norm=False, dropout=0.0):
        super().__init__()
        self.trunk, self.drop = nn.Linear(4, 5), nn.Dropout(dropout)
        self.norm = nn.BatchNorm1d(5) if norm else nn.Identity()
        self.heads = nn.Linear(5, 3)

    def forward(self, x):
        return self.heads(torch.tanh(self.norm(self.drop(self.trunk(x)))))


def make_net(seed):
    return Net().double()


def squares(model, batch):
    """Three losses that one model cannot all bring to 0: the targets share two heads."""
    x, y = batch
    out = model(x)
    return {
        "a": (out[:, 0] + out[:, 1] - y[:, 0]).square().mean(),
        "b": (out[:, 1] - out[:, 2] - y[:, 1]).square().mean(),
        "c": (out[:, 0] + out[:, 2] - y[:, 2]).square().mean(),
    }


def data(n=26, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 4, generator=generator, dtype=dtype)
    return x, x[:, :3].abs() + 0.5 * torch.randn(n, 3, generator=generator, dtype=dtype)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def slow(parameters):
    return torch.optim.SGD(parameters, lr=0.005)


def train(preferences=(RAY, OTHER_RAY), *, tensors=None, loader=None, make_model=make_net, loss_fn=squares, **how):
    """`train_front` with the settings of `train_alone`."""
    how = {"epochs": 3, "batch_size": 8, "optimizer": sgd, "device": "cpu"} | how
    if loader is None:
        loader = data() if tensors is None else tensors
    return train_front(make_model, loss_fn, loader, list(preferences), **how)


@dataclass
class Alone:
    model: nn.Module
    losses: list  # of each step
    weights: list
    steer: object


def train_alone(
    preference,
    *,
    seed=0,
    tensors=None,
    batches=None,
    epochs=3,
    size=8,
    order_seed=0,
    make_model=make_net,
    loss_fn=squares,
    optimizer=sgd,
    method=None,
    schedule=None,
    schedule_by="epoch",
    clip_norm=None,
    after_epoch=None,
    **slopes,
):
    """Train one model; `batches` is a list of batches that are the same at each epoch."""
    tensors = data() if tensors is None else tensors
    torch.manual_seed(seed)
    model = make_model(seed)
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    opt = optimizer(trained)
    moves = None if schedule is None else schedule(opt)
    dealt = TensorBatches(tensors, size, CPU, [order_seed])
    method = ferero.FereroPI() if method is None else method
    is_plain = method.requires <= {"losses"}
    if is_plain:
        steer = ferero.Steer(preference, method, on_nonfinite="skip")
    else:
        steer = ferero.Stepper(
            model, loss_fn, preference, opt, method=method, clip_norm=clip_norm, on_nonfinite="skip", **slopes
        )
    told = Alone(model, [], [], steer)
    for epoch in range(epochs):
        for batch in dealt.epoch(epoch) if batches is None else batches:
            if is_plain:
                opt.zero_grad()
                losses = loss_fn(model, batch)
                steer(losses).backward()
                if clip_norm is not None:
                    nn.utils.clip_grad_norm_(trained, clip_norm)
                opt.step()
            else:
                steer.step(batch)
            told.weights.append(steer.weights.clone())
            if moves is not None and schedule_by == "step":
                moves.step()
        if after_epoch is not None:
            after_epoch(model, steer)
        if moves is not None and schedule_by == "epoch":
            moves.step()
    return told


def assert_same_state(found, wanted, atol=1e-10, rtol=1e-9):
    assert list(found) == list(wanted)
    for name, tensor in wanted.items():
        torch.testing.assert_close(
            found[name], tensor.detach(), atol=atol, rtol=rtol, msg=lambda m, n=name: f"{n}: {m}"
        )


def assert_same_run(trained, told, atol=1e-10):
    """A `Trained` ended where the loop did: parameters, weights, and what is remembered of the losses."""
    assert_same_state(trained.state_dict, told.model.state_dict(), atol)
    torch.testing.assert_close(trained.weights, told.weights[-1], atol=atol, rtol=1e-8)
    torch.testing.assert_close(trained.course.losses[-1], told.steer.losses, atol=atol, rtol=1e-8)
