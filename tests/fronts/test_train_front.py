"""Many models trained together end where each would alone, whatever the method, the optimizer or the data."""

from __future__ import annotations

import pytest
import torch
from tests.training.ensemble.alone import (
    BOUND,
    CPU,
    ORDER,
    OTHER_RAY,
    RAY,
    Net,
    assert_same_run,
    assert_same_state,
    data,
    slow,
    squares,
    train,
    train_alone,
)
from torch import nn

import ferero
from ferero.training._batches import TensorBatches

RAYS = [RAY, OTHER_RAY]
METHODS = {
    "FereroPI": (ferero.FereroPI(), [RAY, BOUND, ORDER]),
    "LinearScalarization": (ferero.LinearScalarization(), RAYS),
    "Tchebycheff": (ferero.Tchebycheff(), RAYS),
    "SmoothTchebycheff": (ferero.SmoothTchebycheff(), RAYS),
    "MGDA": (ferero.MGDA(), [ORDER]),
    "EPO": (ferero.EPO(), RAYS),
    "PMTL": (ferero.PMTL(), RAYS),
    "WCMGDA": (ferero.WCMGDA(), RAYS),
    "XWCMGDA": (ferero.XWCMGDA(), RAYS),
    "Ferero": (ferero.Ferero(), [RAY, BOUND, ORDER]),
    "FereroSA": (ferero.FereroSA(gamma=0.1), [RAY, BOUND, ORDER]),
    "FereroQG": (ferero.FereroQG(), [RAY, BOUND, ORDER]),
}
OPTIMIZERS = {
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.03),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.03, weight_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=0.03, amsgrad=True),
}
SCHEDULES = {
    "epoch": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 3),
    "step": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=10),
}


# as alone -----------------------------------------------------------------------------------------------------


def kinds():
    for name, (method, _) in METHODS.items():
        if "slopes" not in method.requires:
            yield pytest.param(name, {}, id=name)
            continue
        for slopes in ("realized", "forward", "jacobian"):
            for double_sampling in (True, False):
                how = {"slopes": slopes, "double_sampling": double_sampling}
                yield pytest.param(name, how, id=f"{name}-{slopes}-{'two' if double_sampling else 'one'}")


@pytest.mark.parametrize("order", ["shared", "seed"])
@pytest.mark.parametrize(("name", "how"), list(kinds()))
def test_each_ends_where_it_would_alone(name, how, order):
    method, preferences = METHODS[name]
    front = train(preferences, seeds=[0, 3], method=method, order=order, **how)
    assert [r.seed for r in front] == [0, 3] * len(preferences)
    for trained, preference in zip(front, [p for p in preferences for _ in range(2)], strict=True):
        told = train_alone(
            preference, seed=trained.seed, order_seed=trained.seed if order == "seed" else 0, method=method, **how
        )
        assert_same_run(trained, told)
        assert trained.preference is preference
        assert trained.steps == len(told.weights) == 9


@pytest.mark.parametrize("clip_norm", [None, 0.3])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer(name, clip_norm):
    front = train(optimizer=OPTIMIZERS[name], clip_norm=clip_norm)
    for trained in front:
        told = train_alone(trained.preference, optimizer=OPTIMIZERS[name], clip_norm=clip_norm)
        assert_same_run(trained, told, atol=1e-10 if clip_norm is None else 1e-5)  # torch adds 1e-6 to the norm


@pytest.mark.parametrize("schedule_by", SCHEDULES)
def test_schedules(schedule_by):
    how = {"schedule": SCHEDULES[schedule_by], "schedule_by": schedule_by}
    for trained in train(**how):
        assert_same_run(trained, train_alone(trained.preference, **how))


@pytest.mark.parametrize("slopes", ["realized", "forward", "jacobian"])
def test_slopes_are_those_of_a_stepper_that_clips(slopes):
    how = {"method": ferero.FereroSA(gamma=0.1), "slopes": slopes, "clip_norm": 0.3}
    for trained in train([RAY, BOUND], **how):
        assert_same_run(trained, train_alone(trained.preference, **how), atol=1e-5)


@pytest.mark.parametrize("order", ["shared", "seed"])
@pytest.mark.parametrize(
    ("method", "slopes"),
    [
        (ferero.FereroPI(), "realized"),
        (ferero.Ferero(), "realized"),
        *[(ferero.FereroSA(gamma=0.01), slopes) for slopes in ("realized", "forward", "jacobian")],
    ],
    ids=lambda x: x if isinstance(x, str) else type(x).__name__,
)
def test_running_statistics_are_those_of_each_model_alone(method, slopes, order):
    how = {"method": method, "slopes": slopes, "make_model": lambda seed: Net(norm=True).double(), "optimizer": slow}
    for trained in train([RAY, BOUND], seeds=2, order=order, **how):
        told = train_alone(trained.preference, seed=trained.seed, order_seed=trained.seed * (order == "seed"), **how)
        assert_same_run(trained, told)
        assert int(trained.state_dict["norm.num_batches_tracked"]) == 9


def test_single_precision_ends_there_too():
    how = {"make_model": lambda seed: Net(), "tensors": data(dtype=torch.float32)}
    for trained in train([RAY, BOUND], seeds=2, **how):
        told = train_alone(trained.preference, seed=trained.seed, **how)
        assert_same_state(trained.state_dict, told.model.state_dict(), atol=1e-5, rtol=1e-4)
        assert trained.state_dict["heads.bias"].dtype == torch.float32


def test_preferences_with_more_rows_beside_them_have_their_own_multipliers_and_reports():
    preferences = [RAY, BOUND, ORDER]
    front = train(preferences, epochs=20)
    for trained, preference in zip(front, preferences, strict=True):
        told = train_alone(preference, epochs=20)
        torch.testing.assert_close(trained.multipliers, told.steer.multipliers, atol=1e-9, rtol=1e-8)
        assert trained.multipliers.shape == (3 + preference.m_g + preference.m_h,)


def test_whoever_is_trained_beside_and_in_whatever_order_changes_nothing():
    how = {"order": "seed", "epochs": 2}
    forth = train([RAY, BOUND, ORDER], seeds=[0, 1, 2], **how)
    back = train([ORDER, BOUND, RAY], seeds=[2, 0, 1], **how)
    one = train([BOUND], seeds=[2], **how)
    places = {(str(r.preference), r.seed): r for r in back}
    for trained in forth:
        found = places[str(trained.preference), trained.seed]
        assert_same_state(found.state_dict, trained.state_dict)
        torch.testing.assert_close(found.losses, trained.losses)
    assert_same_state(one[0].state_dict, places[str(BOUND), 2].state_dict)


@pytest.mark.parametrize("is_loader", [True, False], ids=["loader", "tensors"])
def test_a_shared_order_does_not_depend_on_the_seeds(is_loader):
    how = {"epochs": 2}
    if is_loader:
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data()), batch_size=8, shuffle=True)
        how |= {"loader": loader, "batch_size": None}
    both, one = train([RAY], seeds=[0, 5], **how), train([RAY], seeds=[5], **how)
    assert_same_state(one[0].state_dict, both[1].state_dict)


# the data -----------------------------------------------------------------------------------------------------


def seen_by(order, preferences=(RAY, OTHER_RAY), seeds=(0, 1), **how):
    """Which examples each member sees, by one parameter per example: what is seen gets a gradient."""

    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = nn.Parameter(torch.zeros(10, dtype=torch.float64))

    def losses(model, batch):
        values = model.seen[batch[0]].sum()
        return torch.stack([values + 1, values + 1, values + 1])

    front = train(
        preferences,
        tensors=(torch.arange(10),),
        make_model=lambda seed: Table(),
        loss_fn=losses,
        optimizer=lambda p: torch.optim.SGD(p, lr=1.0),
        method=ferero.LinearScalarization(weights=[1.0, 1.0, 1.0]),
        order=order,
        seeds=seeds,
        batch_size=4,
        epochs=1,
        **how,
    )
    return [r.state_dict["seen"] != 0 for r in front]


def test_orders():
    shared = seen_by("shared")
    assert all(torch.equal(seen, shared[0]) for seen in shared)
    first, second, third, fourth = seen_by("seed")
    assert torch.equal(first, third)
    assert torch.equal(second, fourth)
    assert not torch.equal(first, second)
    assert torch.equal(first, shared[0])
    for seen in (first, second):
        assert int(seen.sum()) == 8  # two of ten are left over
    wanted = TensorBatches((torch.arange(10),), 4, CPU, [1]).order(0)
    assert set(second.nonzero().flatten().tolist()) == set(wanted.flatten().tolist())


def test_a_loader_gives_its_batches_to_all():
    x, y = data(24)
    batches = [(x[i : i + 8], y[i : i + 8]) for i in range(0, 24, 8)]
    for trained in train([RAY, BOUND], loader=batches, batch_size=None, seeds=2):
        assert_same_run(trained, train_alone(trained.preference, seed=trained.seed, batches=batches))


def test_a_loader_of_mappings_with_a_short_last_batch():
    x, y = data(20)
    dataset = [{"x": a, "y": b} for a, b in zip(x, y, strict=True)]
    loader = torch.utils.data.DataLoader(dataset, batch_size=8)

    def losses(model, batch):
        return squares(model, (batch["x"], batch["y"]))

    front = train([RAY], loader=loader, batch_size=None, loss_fn=losses)
    told = train_alone(RAY, batches=list(loader), loss_fn=losses)
    assert_same_run(front[0], told)
    assert front[0].evaluated["train"] == pytest.approx(ferero.evaluate(told.model, losses, loader))


def test_a_loader_whose_length_nobody_knows():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(zip(*data(16), strict=True))

    seen = []
    loader = torch.utils.data.DataLoader(Stream(), batch_size=8)
    front = train([RAY], loader=loader, batch_size=None, progress=lambda done, total: seen.append((done, total)))
    assert front[0].steps == 6
    assert seen == [(1, 3), (2, 3), (3, 3)]


# rates of their own -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["momentum", "adam", "adamw"])
@pytest.mark.parametrize("method", [ferero.FereroPI(), ferero.FereroSA(gamma=0.01)], ids=["FereroPI", "FereroSA"])
def test_rate_factors_are_learning_rates(name, method):
    factors = [0.1, 1.0, 0.5]

    def optimizer(factor):
        def make(parameters):
            made = OPTIMIZERS[name](parameters)
            for group in made.param_groups:
                group["lr"] *= factor
            return made

        return make

    front = train([RAY, RAY, BOUND], rate_factors=factors, seeds=2, optimizer=optimizer(1.0), method=method)
    for i, trained in enumerate(front):
        told = train_alone(trained.preference, seed=trained.seed, optimizer=optimizer(factors[i // 2]), method=method)
        assert_same_run(trained, told, atol=1e-9)
