"""Losses over a loader: the mean over all examples, whatever the batches, and the model left as it was."""

import subprocess
import sys
from collections import namedtuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import distributed, nn
from torch.utils.data import DataLoader, TensorDataset

from ferero.errors import InputError, NonFiniteError, UnknownNameError
from ferero.preference import objectives
from ferero.training._evaluate import evaluate

identity = nn.Identity()


def moments(model, x):
    y = model(x)
    return torch.stack([y.mean(), (y**2).mean()])


def named(model, x):
    return {"mean": model(x).mean(), "square": (model(x) ** 2).mean()}


# values ---------------------------------------------------------------------------------------------------


def test_an_unequal_last_batch_is_exactly_the_mean_of_the_data():
    x = torch.arange(10.0, dtype=torch.float64)  # batches of 4, 4, 2: every mean is exact
    found = evaluate(identity, moments, DataLoader(x, batch_size=4))
    assert found == {"f1": x.mean().item(), "f2": (x**2).mean().item()}
    assert all(type(value) is float for value in found.values())


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.integers(1, 12), st.integers(0, 10**6))
def test_any_batches_give_the_mean_of_the_data(size, seed):
    x = torch.randn(23, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = evaluate(identity, named, x.split(size))
    assert found["mean"] == pytest.approx(x.mean().item(), rel=1e-13, abs=1e-15)
    assert found["square"] == pytest.approx((x**2).mean().item(), rel=1e-13)


def test_sums_are_in_float64():
    batches = [torch.tensor([16777216.0]), torch.tensor([1.0]), torch.tensor([1.0])]  # 2^24 + 1 is no float32
    assert evaluate(identity, named, batches)["mean"] == 16777218 / 3


def test_names():
    x = [torch.ones(2)]
    assert list(evaluate(identity, moments, x, names=["a", "b"])) == ["a", "b"]
    assert list(evaluate(identity, named, x, names=objectives("square", "mean"))) == ["square", "mean"]
    assert list(evaluate(identity, named, x)) == ["mean", "square"]


def test_a_loss_without_examples_in_a_batch():
    batches = [{"x": torch.ones(3), "has_b": False}, {"x": torch.full((1,), 2.0), "has_b": True}]

    def none(model, batch):
        return {"a": batch["x"].mean(), "b": batch["x"].mean() if batch["has_b"] else None}

    def absent(model, batch):
        return {name: value for name, value in none(model, batch).items() if value is not None}

    def counted(model, batch):
        return none(model, batch), {"a": len(batch["x"])} | ({"b": 5} if batch["has_b"] else {})

    assert evaluate(identity, counted, batches) == {"a": 1.25, "b": 2.0}
    assert evaluate(identity, none, batches) == evaluate(identity, absent, batches) == {"a": 1.25, "b": 2.0}


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (lambda n: n, [2.0, 2.0]),
        (torch.tensor, [2.0, 2.0]),
        (lambda n: torch.tensor([n, 1]), [2.0, 3.0]),
        (lambda n: {"a": n, "b": 1, "unused": 7}, [2.0, 3.0]),
        (lambda n: {"a": n, "b": n - 1}, [2.0, 1.0]),
    ],
)
def test_counts(counts, expected):
    batches = [(1.0, 3), (5.0, 1)]  # value, number of examples: no tensors

    def as_tensor(model, batch):
        return torch.full((2,), batch[0]), counts(batch[1])

    def as_dict(model, batch):
        return {"a": batch[0], "b": torch.tensor(batch[0])}, counts(batch[1])

    found = evaluate(identity, as_tensor, batches, names=["a", "b"])
    assert found == evaluate(identity, as_dict, batches) == dict(zip(["a", "b"], expected, strict=True))


def test_a_count_of_zero_hides_the_mean_of_nothing():
    batches = [torch.tensor([1.0, -1.0]), torch.tensor([-1.0])]

    def positive(model, x):
        chosen = x[x > 0]
        return {"positive": chosen.mean()}, len(chosen)

    assert evaluate(identity, positive, batches) == {"positive": 1.0}


Pair = namedtuple("Pair", ["x", "y"])


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: x,
        lambda x: [x],
        lambda x: ("text", torch.tensor(3.0), x),
        lambda x: {"ids": ["a"], "inner": {"x": [x]}},
        lambda x: Pair(x, None),
    ],
)
def test_examples_are_counted_in_the_first_tensor_of_a_batch(wrap):
    sizes = []

    def loss(model, batch):
        assert type(batch) is type(wrap(torch.ones(1)))
        sizes.append(1)
        return {"a": float(len(sizes))}

    assert evaluate(identity, loss, [wrap(torch.ones(3)), wrap(torch.ones(1))]) == {"a": 1.25}


def test_a_batch_without_tensors_counts_once():
    assert evaluate(identity, lambda model, x: {"a": x}, [1.0, 2.0]) == {"a": 1.5}


# the model ------------------------------------------------------------------------------------------------


def make_model():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Sequential(nn.Dropout(), nn.Dropout()))
    model.train()
    model[1].eval()
    model[2][1].eval()
    return model


def modes(model):
    return [module.training for module in model.modules()]


def mean_of(model, batch):
    assert not any(modes(model))
    assert not torch.is_grad_enabled()
    return {"a": model(batch[0]).square().mean()}


@pytest.mark.parametrize("fails", [False, True])
def test_modes_and_parameters_are_restored(fails):
    model, loader = make_model(), DataLoader(TensorDataset(torch.ones(5, 2)), batch_size=2)
    before, state = modes(model), {name: value.clone() for name, value in model.state_dict().items()}
    if fails:
        with pytest.raises(ZeroDivisionError):
            evaluate(model, lambda model, batch: 1 / 0, loader)
    else:
        assert evaluate(model, mean_of, loader) == evaluate(model, mean_of, loader)
    assert modes(model) == before
    assert torch.is_grad_enabled()
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_model_that_acts_on_its_mode_is_told():
    class Counting(nn.Identity):
        calls: list[bool] = []  # noqa: RUF012  # of the test alone

        def train(self, mode=True):
            self.calls.append(mode)
            return super().train(mode)

    model = Counting()
    evaluate(model, named, [torch.ones(1)])
    assert model.calls == [False, True]
    assert model.training


def test_batches_go_to_the_device():
    seen = []

    def loss(model, batch):
        seen.append(batch["x"][0].device.type)
        return {"a": 1.0}

    loader = [{"x": [torch.ones(2)]}]
    evaluate(identity, loss, loader)
    evaluate(nn.Linear(1, 1), loss, loader)
    evaluate(identity, loss, loader, device="meta")
    evaluate(nn.Linear(1, 1, device="meta"), loss, loader)
    assert seen == ["cpu", "cpu", "meta", "meta"]


def test_half_precision():
    found = evaluate(nn.Identity(), moments, [torch.full((3,), 0.5, dtype=torch.bfloat16)])
    assert found == {"f1": 0.5, "f2": 0.25}


# errors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "arguments", "error", "text"),
    [
        (lambda m, x: {"a": None}, {}, InputError, "every loss in some batch, found none of 'a' in 2 batches"),
        (
            lambda m, x: {"a": 1.0},
            {"names": ["a", "b"]},
            InputError,
            "found none of 'b' in 2 batches; give it a loader",
        ),
        (lambda m, x: {}, {}, InputError, "found none of any loss in 2 batches"),
        (lambda m, x: ({"a": 1.0}, 0), {}, InputError, "found none of 'a'"),
        (
            lambda m, x: {"alpah": 1.0},
            {"names": ["alpha"]},
            UnknownNameError,
            r"'alpah' is none of the losses; did you mean 'alpha'\?",
        ),
        (lambda m, x: torch.ones(3), {"names": ["a", "b"]}, InputError, r"expected 2 losses \(a, b\), found 3"),
        (lambda m, x: torch.ones(len(x)), {}, InputError, r"expected 2 losses \(f1, f2\), found 1"),
        (lambda m, x: x.mean(), {}, InputError, r"expected an \(m,\) tensor or a dict of scalars, found shape \(\)"),
        (lambda m, x: [1.0, 2.0], {}, InputError, "found list; torch.stack the losses"),
        (lambda m, x: (x, 1, 2), {}, InputError, r"a pair \(losses, counts\), found a tuple of 3"),
        (lambda m, x: {"a": torch.ones(3)}, {}, InputError, r"a number for 'a', found shape \(3,\); take its mean"),
        (lambda m, x: {"a": "low"}, {}, InputError, r"a number for 'a', found 'low' \(str\)"),
        (lambda m, x: ({"a": 1.0}, {"b": 1}), {}, InputError, "a count for every loss, found none for 'a'"),
        (lambda m, x: ({"a": 1.0}, -1), {}, InputError, "expected counts >= 0, found -1.0 for 'a'"),
        (lambda m, x: (torch.ones(2), torch.ones(3)), {}, InputError, r"counts of shape \(2,\), found \(3,\)"),
        (lambda m, x: ({"a": 1.0}, "many"), {}, InputError, r"a number as the count, found 'many' \(str\)"),
        (lambda m, x: {"a": 1.0}, {"names": "a"}, InputError, r"names: .* found 'a'; write \('a',\)"),
        (lambda m, x: {"a": 1.0, "b": x.log().mean()}, {}, NonFiniteError, "found b = -inf in batch 1"),
        (lambda m, x: torch.stack([x.mean(), x.log().mean()]), {}, NonFiniteError, "found f2 = -inf in batch 1"),
        (lambda m, x: {"a": float("nan")}, {}, NonFiniteError, "found a = nan in batch 0"),
    ],
)
def test_refusals(loss, arguments, error, text):
    with pytest.raises(error, match=text):
        evaluate(identity, loss, [torch.ones(2), torch.zeros(1)], **arguments)


def test_an_empty_loader_and_no_model():
    with pytest.raises(InputError, match="loader: expected at least one batch, found none"):
        evaluate(identity, named, [])
    with pytest.raises(InputError, match=r"model: expected a torch\.nn\.Module, found function"):
        evaluate(moments, named, [torch.ones(1)])


# processes ------------------------------------------------------------------------------------------------


def test_a_group_of_one(tmp_path):
    x = torch.arange(10.0)
    alone = evaluate(identity, named, x.split(4))
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        assert evaluate(identity, named, x.split(4)) == alone
        assert evaluate(identity, named, x.split(4), reduce=False) == alone
        with pytest.raises(NonFiniteError, match="found a = nan in batch 0"):
            evaluate(identity, lambda m, x: {"a": float("nan")}, x.split(4))
        with pytest.raises(InputError, match="loader: expected at least one batch"):
            evaluate(identity, named, [])
    finally:
        distributed.destroy_process_group()


SCRIPT = """
import sys, torch
from torch import distributed, nn
from ferero.training._evaluate import evaluate
rank = int(sys.argv[1])
distributed.init_process_group("gloo", init_method=sys.argv[2], rank=rank, world_size=2)
def loss(model, x):
    return {"a": x.mean()} if rank == 0 else {"b": x.max(), "a": x.mean()}
data = [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([6.0])]
print(evaluate(nn.Identity(), loss, data[rank:rank + 1]))
print(evaluate(nn.Identity(), loss, data[rank:rank + 1], reduce=False))
print(evaluate(nn.Identity(), loss, data if rank else []))
try:
    evaluate(nn.Identity(), lambda m, x: {"a": x.mean() / (1 - rank)}, data)
except ArithmeticError as error:
    print(error)
distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_agree(tmp_path):
    commands = [[sys.executable, "-c", SCRIPT, str(rank), f"file://{tmp_path}/store"] for rank in range(2)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    one, two = (process.communicate(timeout=120)[0].splitlines() for process in started)
    assert one[0] == two[0] == "{'a': 3.0, 'b': 6.0}"
    assert (one[1], two[1]) == ("{'a': 2.0}", "{'b': 6.0, 'a': 6.0}")
    assert one[2] == two[2] == "{'b': 3.75, 'a': 3.0}"
    assert one[3].startswith("process 1: loss_fn: expected finite losses, found a = inf in batch 0")
    assert two[3].startswith("loss_fn: expected finite losses, found a = inf in batch 0")
