"""What is measured, what is judged, and held-out data that drive the constraints."""

from __future__ import annotations

import math

import pytest
import torch
from tests.training.ensemble.alone import (
    BOUND,
    ORDER,
    RAY,
    Net,
    assert_same_run,
    data,
    make_net,
    squares,
    train,
    train_alone,
)

import ferero
from ferero.errors import InputError

# evaluation -------------------------------------------------------------------------------------------------------


def accuracy(model, batch):
    return {"near": (model(batch[0])[:, 0] - batch[1][:, 0]).abs().lt(0.5).double().mean()}


@pytest.mark.parametrize("is_loader", [True, False], ids=["loader", "tensors"])
def test_figures_are_those_of_each_model_loaded(is_loader):
    test = data(13, seed=5)
    batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*test), batch_size=5)
    how = {"make_model": lambda seed: Net(norm=True, dropout=0.3).double(), "metrics": accuracy}
    front = train(seeds=2, evaluate={"test": batches if is_loader else test}, **how)
    for trained in front:
        model = Net(norm=True, dropout=0.3).double()
        model.load_state_dict(trained.state_dict)
        for name, tensors in {"train": data(), "test": test}.items():
            loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*tensors), batch_size=5)
            wanted = ferero.evaluate(model, squares, loader) | ferero.evaluate(model, accuracy, loader)
            assert trained.evaluated[name] == pytest.approx(wanted, rel=1e-9)
        assert trained.losses.tolist() == [trained.evaluated["train"][name] for name in ("a", "b", "c")]
    assert torch.equal(front.losses, torch.stack([r.losses for r in front]))


def test_evaluating_along_the_way_changes_nothing_and_is_in_the_course():
    how = {"make_model": lambda seed: Net(dropout=0.3).double(), "epochs": 5, "seeds": 2}
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data()), batch_size=8, shuffle=True)
    for more in ({}, {"loader": loader, "batch_size": None}):
        plain = train(**how, **more)
        front = train(evaluate={"test": data(9)}, metrics=accuracy, evaluate_every=2, **how, **more)
        for trained, wanted in zip(front, plain, strict=True):
            assert all(torch.equal(trained.state_dict[name], part) for name, part in wanted.state_dict.items())
            course = trained.course
            steps = 3 if not more else 4
            assert course.steps.tolist() == [1, *(steps * i for i in range(1, 6))]
            seen = [i for i, value in enumerate(course.evaluated["test/near"].tolist()) if not math.isnan(value)]
            assert seen == [2, 4, 5]
            assert course.evaluated["test/near"][-1] == trained.evaluated["test"]["near"]
            assert [i for i, v in enumerate(course.evaluated["train/a"].tolist()) if not math.isnan(v)] == [5]
            assert course.losses.shape == course.weights.shape == (6, 3)


def test_the_training_data_may_be_measured_on_others():
    few = data(6)
    trained = train([RAY], evaluate={"train": few}, metrics=accuracy)[0]
    model = make_net(0)
    model.load_state_dict(trained.state_dict)
    assert trained.evaluated == {
        "train": pytest.approx(ferero.evaluate(model, squares, [few]) | ferero.evaluate(model, accuracy, [few]))
    }


def test_a_loss_without_examples_in_a_batch_of_an_evaluation_is_not_counted_there():
    def losses(model, batch):
        found = squares(model, batch)
        return found if len(batch[0]) > 3 else {**found, "b": None}

    test = [tuple(part[:9] for part in data(12)), tuple(part[9:] for part in data(12))]
    trained = train([RAY], loss_fn=losses, evaluate={"test": test})[0]
    model = make_net(0)
    model.load_state_dict(trained.state_dict)
    assert trained.evaluated["test"] == pytest.approx(ferero.evaluate(model, losses, test))
    with pytest.raises(InputError, match="evaluate: expected a value of every loss in some batch, found none of b"):
        train([RAY], loss_fn=losses, evaluate={"test": test[1:]})


@pytest.mark.slow
def test_the_verdict_is_on_all_the_data():
    how = {"epochs": 800, "batch_size": len(data()[0]), "optimizer": lambda p: torch.optim.Adam(p, lr=0.01)}
    f = ferero.objectives("a", "b", "c")
    out_of_reach = ferero.Preference(f, [f.a <= 1e-3, f.b <= 1e-3])
    front = train([out_of_reach, BOUND, ORDER], **how)
    for trained in front:
        assert trained.status == "met" or not trained.preference.is_satisfied(trained.losses, atol=1e-3)
        assert trained.success == (trained.status in ("met", "met_within_noise"))
    assert front[1].success
    assert not front[0].success
    assert front[2].message == "There is no constraint: the losses are minimised."


def test_what_cannot_be_had_is_not_met_and_says_which():
    f = ferero.objectives("a", "b", "c")
    impossible = ferero.Preference(f, [f.a <= 1e-9, f.b <= 1e-9])
    trained = train([impossible], epochs=20)[0]
    assert trained.status in ("not_met", "saturated")
    assert trained.message.startswith(("a <= 1e-09: ", "b <= 1e-09: "))


# held-out data drive the constraints ------------------------------------------------------------------------------


def test_held_out_figures_correct_as_those_of_a_steer_that_observes():
    held = data(11, seed=9)

    def observe(model, steer):
        model.eval()
        with torch.no_grad():
            steer.observe(**squares(model, held))
        model.train()

    how = {"epochs": 12}
    for trained in train([RAY, BOUND], seeds=2, evaluate={"val": held}, held_out="val", evaluate_every=5, **how):
        told = train_alone(trained.preference, seed=trained.seed, after_epoch=observe, **how)
        assert_same_run(trained, told, atol=1e-9)
        plain = train_alone(trained.preference, seed=trained.seed, **how)
        assert (plain.model.heads.weight - trained.state_dict["heads.weight"]).abs().max() > 1e-3
        assert not trained.course.evaluated["val/a"][1:].isnan().any()


@pytest.mark.slow
def test_held_out_figures_are_what_is_judged():
    x, y = data(48)
    held = x, y + torch.tensor([0.0, 0.7, 0.0])  # on which b is larger
    f = ferero.objectives("a", "b", "c")
    preference = ferero.Preference(f, [f.a - f.b == 0.0])
    how = {"tensors": data(48), "optimizer": lambda p: torch.optim.Adam(p, lr=0.003), "epochs": 400, "batch_size": 48}
    trained = train([preference], evaluate={"val": held}, held_out="val", **how)[0]
    plain = train([preference], evaluate={"val": held}, **how)[0]

    def off(one, name):
        return abs(one.evaluated[name]["a"] - one.evaluated[name]["b"])

    assert trained.success
    assert plain.success
    assert off(trained, "val") < off(plain, "val") / 5
    assert off(plain, "train") < off(trained, "train") / 5


def test_measured_metrics():
    g = ferero.objectives("a", "b", "c", measured=("a",))
    preference, held = ferero.Preference(g, [g.a <= 0.3]), data(40, seed=9)

    def metrics(model, batch):  # far in other units than the loss
        return {"a": 5 * (model(batch[0])[:, 0] + model(batch[0])[:, 1] - batch[1][:, 0]).abs().mean()}

    def observe(model, steer):
        model.eval()
        with torch.no_grad():
            steer.observe(a=metrics(model, held)["a"], **{n: v for n, v in squares(model, held).items() if n != "a"})
        model.train()

    how = {"epochs": 6}
    trained = train([preference], evaluate={"val": held}, held_out="val", metrics=metrics, **how)[0]
    told = train_alone(preference, after_epoch=observe, **how)
    assert_same_run(trained, told, atol=1e-9)
    model = make_net(0)
    model.load_state_dict(trained.state_dict)
    assert trained.evaluated["val"]["a"] == pytest.approx(float(metrics(model, held)["a"].detach()))
