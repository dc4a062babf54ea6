"""What a review of `train_front` found: names with a slash, numbers of numpy's, gradients that are not finite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.training.ensemble.alone import CPU, RAY, Net, assert_same_state, data, make_net, sgd, squares, train
from torch import nn

import ferero
from ferero.errors import InputError
from ferero.training._batches import TensorBatches, read_examples
from ferero.training._ensemble import Ensemble
from ferero.training._members import Members, evaluate_members, stacked_figures


class Rooted(Net):
    """A loss with a root in it, whose gradient is 0 / 0 where the scale is 0."""

    def __init__(self, scale):
        super().__init__()
        self.register_buffer("scale", torch.tensor(scale))


def with_root(model, batch):
    losses = squares(model, batch)
    return losses | {"a": losses["a"] + 0.01 * (model.scale * model.trunk.weight).square().sum().sqrt()}


@pytest.mark.parametrize("clip_norm", [None, 1.0])
@pytest.mark.parametrize("slopes", ["realized", "forward", "jacobian"])
def test_a_gradient_that_is_not_finite_behind_finite_losses_is_no_step(slopes, clip_norm):
    def make_model(seed):
        return Rooted(0.0 if seed == 1 else 1.0).double()

    how = {"method": ferero.FereroSA(gamma=0.01), "slopes": slopes, "clip_norm": clip_norm, "loss_fn": with_root}
    both = train([RAY], make_model=make_model, seeds=2, **how)
    alone = train([RAY], make_model=make_model, seeds=1, **how)
    assert_same_state(both.results[0].state_dict, alone.results[0].state_dict)
    torch.manual_seed(1)
    assert_same_state(both.results[1].state_dict, make_model(1).state_dict(), atol=0, rtol=0)
    assert [r.status == "diverged" for r in both.results] == [False, True]
    assert both.losses.isfinite().all()


def test_figures_may_have_a_slash_in_their_names():
    def metrics(model, batch):
        return {"left/error": model(batch[0])[:, 0].abs().mean()}

    one = train([RAY], metrics=metrics, evaluate={"new/data": data(seed=1)}, evaluate_every=1).results[0]
    assert set(one.evaluated) == {"train", "new/data"}
    assert all(set(figures) == {"a", "b", "c", "left/error"} for figures in one.evaluated.values())
    last = one.course.evaluated["new/data/left/error"][-1]
    assert float(last) == one.evaluated["new/data"]["left/error"]


def test_data_called_train_are_measured_as_often_as_any():
    course = train([RAY], evaluate={"train": data(seed=1), "test": data(seed=2)}, evaluate_every=1).results[0].course
    assert course.evaluated["train/a"].isfinite().tolist() == [False, True, True, True]
    assert course.evaluated["test/a"].isfinite().tolist() == [False, True, True, True]


def test_a_run_that_is_finished_can_be_asked_for_other_data(tmp_path):
    file = tmp_path / "run.pt"
    train([RAY], checkpoint=file)
    found, wanted = (
        train([RAY], checkpoint=place, evaluate={"test": data(seed=1)}).results[0].evaluated for place in (file, None)
    )
    assert found == wanted
    assert set(found) == {"train", "test"}


@pytest.mark.parametrize("number", [np.float64, np.float32])
def test_a_rate_of_numpys_does_not_spoil_the_checkpoint(number, tmp_path):
    how = {"optimizer": lambda p: torch.optim.SGD(p, lr=number(0.05), momentum=0.9)}
    train([RAY], checkpoint=tmp_path / "run.pt", epochs=1, **how)
    resumed, whole = train([RAY], checkpoint=tmp_path / "run.pt", **how), train([RAY], **how)
    assert torch.equal(resumed.losses, whole.losses)


def test_what_is_frozen_may_not_depend_on_the_seed():
    def make_model(seed):
        model = make_net(seed)
        model.trunk.weight.requires_grad_(seed == 0)
        return model

    with pytest.raises(InputError, match=r"model 1 differs from the first in 'trunk\.weight'"):
        train([RAY], make_model=make_model, seeds=2)


def test_a_frozen_part_stays_and_the_rest_trains_as_without_others_beside():
    def make_model(seed):
        model = make_net(seed)
        model.trunk.requires_grad_(False)
        return model

    front = train(make_model=make_model, seeds=2, optimizer=lambda p: torch.optim.SGD(p, lr=0.05, weight_decay=0.1))
    for one in front.results:
        torch.manual_seed(one.seed)
        start = make_model(one.seed).state_dict()
        assert torch.equal(one.state_dict["trunk.weight"], start["trunk.weight"])
        assert not torch.equal(one.state_dict["heads.weight"], start["heads.weight"])


def test_an_odd_batch_of_each_seeds_own_is_halved_as_a_shared_one():
    """With one example more in the half that gives the gradient."""
    tensors, seen = data(21), []

    def loss_fn(model, batch):
        if isinstance(model, nn.Module):
            seen.append(len(batch[0]))
        return squares(model, batch)

    own = train([RAY], tensors=tensors, batch_size=7, seeds=[3, 4], order="seed", method=ferero.FereroSA(gamma=0.01),
                optimizer=lambda p: torch.optim.SGD(p, lr=0.05))  # fmt: skip
    for k, seed in enumerate((3, 4)):
        dealt = TensorBatches(tensors, 7, CPU, [seed])
        torch.manual_seed(seed)
        model = make_net(seed)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        stepper = ferero.Stepper(model, loss_fn, RAY, optimizer, method=ferero.FereroSA(gamma=0.01))
        for epoch in range(3):
            for batch in dealt.epoch(epoch):
                stepper.step(batch)
        assert_same_state(own.results[k].state_dict, model.state_dict())
    assert seen[0] == 4


@pytest.mark.parametrize("method", [ferero.FereroPI(), ferero.MGDA(), ferero.LinearScalarization()], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_models_of_any_type_keep_it(method, dtype):
    wanted = ferero.Preference.pareto(3, names=("a", "b", "c")) if isinstance(method, ferero.MGDA) else RAY
    tensors = tuple(tensor.to(dtype) for tensor in data())
    front = train([wanted], tensors=tensors, make_model=lambda seed: Net().to(dtype), method=method, optimizer=sgd)
    assert {tensor.dtype for tensor in front.results[0].state_dict.values()} == {dtype}
    assert front.losses.dtype == torch.float64
    assert front.losses.isfinite().all()


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD], ids=lambda o: o.__name__)
@pytest.mark.parametrize("clip_norm", [None, 0.3])
def test_rates_of_their_own_are_learning_rates(optimizer, clip_norm):
    """Also of decoupled weight decay, of clipped gradients and of realised slopes, through a schedule by step."""

    def run(rate, wanted, **more):
        return train(
            wanted, method=ferero.FereroSA(gamma=0.01), clip_norm=clip_norm, schedule_by="step", **more,
            optimizer=lambda p: optimizer(p, lr=rate, weight_decay=0.1),
            schedule=lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.9),
        )  # fmt: skip

    together = run(0.02, [RAY, RAY], rate_factors=[1.0, 2.5])
    for k, rate in enumerate((0.02, 0.05)):
        assert_same_state(together.results[k].state_dict, run(rate, [RAY]).results[0].state_dict, atol=1e-9)


def test_rates_of_their_own_and_a_schedule_by_step_go_on_where_they_were(tmp_path):
    how = {
        "rate_factors": [1.0, 2.5], "order": "seed", "seeds": 2, "schedule_by": "step", "clip_norm": 1.0,
        "optimizer": lambda p: torch.optim.Adam(p, lr=0.02),
        "schedule": lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [2, 5]), "method": ferero.FereroSA(gamma=0.01),
    }  # fmt: skip
    train(checkpoint=tmp_path / "run.pt", epochs=1, **how)
    resumed, whole = train(checkpoint=tmp_path / "run.pt", **how), train(**how)
    assert torch.equal(resumed.losses, whole.losses)


def test_a_finished_run_has_its_multipliers_again(tmp_path):
    first, again = (train([RAY], checkpoint=tmp_path / "run.pt").results[0] for _ in range(2))
    assert first.multipliers is not None
    assert torch.equal(first.multipliers, again.multipliers)


def test_the_orders_of_two_seeds_share_no_epoch():
    orders = [TensorBatches(data(), 8, CPU, [seed]).order(epoch) for seed in range(4) for epoch in range(4)]
    assert len({tuple(order.flatten().tolist()) for order in orders}) == len(orders)


@pytest.mark.parametrize("slopes", ["realized", "forward", "jacobian"])
def test_slopes_that_cannot_be_measured_are_0(slopes):
    x, y = (tensor.clone() for tensor in data(8))
    y[5, 0] = torch.inf  # in the half that slopes are measured on
    ensemble = Ensemble(
        Members([make_net(0)], 1, CPU), squares, [RAY], method=ferero.FereroSA(gamma=0.01), optimizer=sgd, slopes=slopes
    )
    ensemble.step((x, y))
    assert ensemble.controller.is_good.all()
    assert ensemble.controller.slopes.isfinite().all()
    assert float(ensemble.controller.slopes[0, 0]) == 0


def test_figures_are_summed_in_float64_whatever_the_models_are():
    members, tensors = Members([Net()], 1, CPU), tuple(tensor.float() for tensor in data(64))
    figures = evaluate_members(
        stacked_figures(members, squares, None, RAY.names), read_examples(tensors, CPU, "data"), RAY.names
    )
    assert {values.dtype for values in figures.values()} == {torch.float64}


def test_random_numbers_are_drawn_anew_for_the_slopes_of_every_step(monkeypatch):
    torch.manual_seed(0)
    ensemble = Ensemble(
        Members([Net(dropout=0.5).double()], 1, CPU), squares, [RAY], method=ferero.FereroSA(gamma=0.01), optimizer=sgd
    )
    seeds, plain = [], ensemble._evaluation.isolated
    monkeypatch.setattr(ensemble._evaluation, "isolated", lambda seed: seeds.append(seed) or plain(seed))
    for _ in range(3):
        ensemble.step(data(8))
    assert seeds[::2] == seeds[1::2], "the same before and after a step"
    assert len(set(seeds)) == 3


def test_a_metric_takes_the_place_of_a_loss_only_where_it_drives() -> None:
    def train(**options: Any) -> ferero.Front[ferero.Trained]:
        x = torch.randn(16, 3, generator=torch.Generator().manual_seed(0))
        return ferero.train_front(
            lambda seed: torch.nn.Linear(3, 2),
            lambda model, batch: model(batch[0]).square().mean(0),
            (x,),
            [[1.0, 1.0]],
            optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
            epochs=2,
            batch_size=8,
            device="cpu",
            metrics=lambda model, batch: {"f1": torch.tensor(0.5)},
            **options,
        )

    with pytest.raises(InputError, match=r"metrics: 'f1' is the name of a loss.*by held_out=\."):
        train()
    front = train(evaluate={"val": (torch.ones(4, 3),)}, held_out="val")
    assert front[0].evaluated["val"]["f1"] == 0.5
