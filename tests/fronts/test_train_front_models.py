"""Models of every kind, also those that vmap cannot follow, and models that diverge beside others."""

from __future__ import annotations

import pytest
import torch
from tests.training.ensemble.alone import (
    BOUND,
    OTHER_RAY,
    RAY,
    Net,
    assert_same_run,
    assert_same_state,
    data,
    make_net,
    slow,
    squares,
    train,
    train_alone,
)
from torch import nn

import ferero

# models -------------------------------------------------------------------------------------------------------


class Frozen(Net):
    """The first layer is frozen, the last bias is tied to another's, and a buffer counts calls by assignment."""

    def __init__(self):
        super().__init__()
        self.trunk.requires_grad_(requires_grad=False)
        self.extra = nn.Linear(3, 3)
        self.extra.weight, self.extra.bias = nn.Parameter(torch.eye(3)), self.heads.bias
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("shift", torch.full((3,), 0.1), persistent=False)

    def forward(self, x):
        if self.training:
            self.calls = self.calls + 1
        return self.extra(super().forward(x)) + self.shift


def test_frozen_tied_and_assigned():
    how = {"make_model": lambda seed: Frozen().double()}
    for trained in train(seeds=2, **how):
        told = train_alone(trained.preference, seed=trained.seed, **how)
        assert_same_run(trained, told)
        assert int(trained.state_dict["calls"]) == 9
        torch.manual_seed(trained.seed)
        start = Frozen().double()
        assert torch.equal(trained.state_dict["trunk.weight"], start.trunk.weight)
        assert torch.equal(trained.state_dict["extra.bias"], trained.state_dict["heads.bias"])
        start.load_state_dict(trained.state_dict)


def test_a_buffer_of_numbers_of_its_own_is_kept_by_every_seed():
    def make_model(seed):
        model = make_net(seed)
        model.register_buffer("mine", torch.tensor(float(seed)))
        return model

    assert [float(r.state_dict["mine"]) for r in train(seeds=[4, 7], make_model=make_model)] == [4.0, 7.0, 4.0, 7.0]


class Asks(Net):
    def forward(self, x):
        scale = self.heads.bias.abs().sum().item()
        return super().forward(x) / (1 + scale) if self.heads.bias.sum() > 0 else super().forward(x)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.norm = nn.LSTM(4, 3, batch_first=True), nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(self.lstm(x[:, None].expand(-1, 2, -1))[0][:, -1])


@pytest.mark.parametrize("order", ["shared", "seed"])
@pytest.mark.parametrize("method", [ferero.FereroPI(), ferero.Ferero(), ferero.FereroSA(gamma=0.01)], ids=repr)
@pytest.mark.parametrize("kind", [Asks, Recurrent])
def test_what_vmap_cannot_follow_is_done_one_by_one(kind, method, order):
    how = {"make_model": lambda seed: kind().double(), "method": method, "optimizer": slow}
    with pytest.warns(UserWarning, match="the 4 models are evaluated one after the other") as told_of:
        front = train([RAY, BOUND], seeds=2, order=order, evaluate={"test": data(12)}, evaluate_every=1, **how)
    assert len([w for w in told_of if "one after the other" in str(w.message)]) == 1
    for trained in front:
        told = train_alone(trained.preference, seed=trained.seed, order_seed=trained.seed * (order == "seed"), **how)
        assert_same_run(trained, told)


def test_metrics_that_vmap_cannot_follow_are_taken_one_by_one_and_training_is_not():
    def metrics(model, batch):
        return {"worst": model(batch[0]).abs().max().item()}

    with pytest.warns(UserWarning, match="cannot follow") as told_of:
        front = train(metrics=metrics, evaluate={"test": data(12)}, evaluate_every=1)
    assert len(told_of) == 1
    plain = train()
    for trained, other in zip(front, plain, strict=True):
        assert all(
            torch.equal(a, b) for a, b in zip(trained.state_dict.values(), other.state_dict.values(), strict=True)
        )
        model = make_net(0)
        model.load_state_dict(trained.state_dict)
        assert trained.evaluated["test"]["worst"] == pytest.approx(float(model(data(12)[0]).abs().max().detach()))


def test_a_mistake_in_the_loss_function_is_the_callers_own():
    def losses(model, batch):
        return squares(model, batch)["nothing"]

    with pytest.raises(KeyError, match="nothing"):
        train(loss_fn=losses)


def test_dropout_differs_from_member_to_member_and_not_from_call_to_call():
    def make_model(seed):
        torch.manual_seed(0)  # all begin alike
        return Net(dropout=0.5).double()

    front, again = train([RAY, RAY], seeds=2, make_model=make_model), train([RAY, RAY], seeds=2, make_model=make_model)
    heads = [r.state_dict["heads.weight"] for r in front]
    assert all(not torch.equal(heads[i], heads[j]) for i in range(4) for j in range(i))
    assert all(torch.equal(a, r.state_dict["heads.weight"]) for a, r in zip(heads, again, strict=True))


def test_slopes_see_the_same_dropout_before_and_after_the_step():
    """With a learning rate of nearly 0 nothing changes but the mask, so realised slopes are those of the gradient."""
    how = {"make_model": lambda seed: Net(dropout=0.5).double(), "method": ferero.FereroSA(gamma=1e-3), "epochs": 4}
    how |= {"optimizer": lambda p: torch.optim.SGD(p, lr=1e-7)}
    realized, forward = train([RAY], slopes="realized", **how), train([RAY], slopes="forward", **how)
    torch.testing.assert_close(realized[0].weights, forward[0].weights, rtol=1e-4, atol=1e-5)


def test_the_callers_random_numbers_and_model_stay_as_they_were():
    torch.manual_seed(7)
    wanted = torch.rand(3)
    torch.manual_seed(7)
    mine = make_net(0)
    before = {name: tensor.clone() for name, tensor in mine.state_dict().items()}
    torch.manual_seed(7)
    train(make_model=lambda seed: mine)
    assert torch.equal(torch.rand(3), wanted)
    assert all(torch.equal(tensor, before[name]) for name, tensor in mine.state_dict().items())


# what is not finite ---------------------------------------------------------------------------------------------


def assert_equal_runs(found, wanted):
    for name, tensor in wanted.state_dict.items():
        assert torch.equal(found.state_dict[name], tensor), name
    assert torch.equal(found.losses, wanted.losses)
    assert torch.equal(found.weights, wanted.weights)
    assert torch.equal(found.course.losses, wanted.course.losses)
    assert torch.equal(found.course.weights, wanted.course.weights)
    assert found.status == wanted.status
    assert found.evaluated == wanted.evaluated


def with_factor(seed):
    model = make_net(seed)
    model.register_buffer("factor", torch.ones((), dtype=torch.float64))
    return model


def make_bad(bad, factor):
    """Models of which one seed's losses are multiplied, so that it diverges, or has NaN."""

    def make_model(seed):
        model = with_factor(seed)
        if seed == bad:
            model.factor.fill_(factor)
        return model

    return make_model


def scaled(model, batch):
    return {name: loss * model.factor for name, loss in squares(model, batch).items()}


@pytest.mark.parametrize("factor", [1e15, torch.nan], ids=["diverges", "nan"])
@pytest.mark.parametrize(
    "method", [ferero.FereroPI(), ferero.Ferero(), ferero.FereroSA(gamma=0.01), ferero.LinearScalarization()], ids=repr
)
def test_one_that_diverges_leaves_the_others_alone(method, factor):
    how = {"loss_fn": scaled, "method": method, "seeds": 3, "epochs": 8, "optimizer": slow}
    how |= {"evaluate": {"test": data(9)}, "evaluate_every": 2}
    sound = train(make_model=with_factor, **how)
    front = train(make_model=make_bad(1, factor), **how)
    for trained, wanted in zip(front, sound, strict=True):
        if trained.seed == 1:
            assert trained.status == "diverged"
            assert "not finite" in trained.message
            assert not trained.success
        else:
            assert_equal_runs(trained, wanted)


def test_a_batch_that_is_not_finite_is_left_out_by_the_one_that_has_it():
    x, y = data(24)
    batches = [[x[i : i + 8].clone(), y[i : i + 8].clone()] for i in range(0, 24, 8)]

    def losses(model, batch):
        found = squares(model, batch)
        is_bad = (model.factor > 1) & (batch[0][0, 0] == x[8, 0])
        return {name: torch.where(is_bad, torch.nan, loss) for name, loss in found.items()}

    how = {"loss_fn": losses, "optimizer": lambda p: torch.optim.SGD(p, lr=0.05), "epochs": 4}
    front = train([RAY, BOUND], loader=batches, batch_size=None, seeds=2, make_model=make_bad(1, 2.0), **how)
    for trained in front:
        told = train_alone(
            trained.preference, seed=trained.seed, batches=batches, make_model=make_bad(1, 2.0), **how
        )  # a Steer that skips
        assert_same_state(trained.state_dict, told.model.state_dict())
        assert told.steer.report().skipped == (4 if trained.seed == 1 else 0)


def test_the_first_batch_may_be_the_bad_one():
    x, y = data(24)
    batches = [[x[i : i + 8].clone(), y[i : i + 8].clone()] for i in range(0, 24, 8)]
    batches[0][1][0, 0] = torch.inf
    how = {"optimizer": lambda p: torch.optim.SGD(p, lr=0.05)}
    for method in (
        ferero.FereroPI(),
        ferero.Tchebycheff(),
        ferero.EPO(),
        ferero.FereroQG(),
        ferero.FereroSA(gamma=0.1),
    ):
        front = train([RAY, OTHER_RAY], loader=batches, batch_size=None, method=method, double_sampling=False, **how)
        for trained in front:
            told = train_alone(
                trained.preference,
                batches=batches,
                method=method,
                **how,
                **({"double_sampling": False} if "slopes" in method.requires else {}),
            )
            assert_same_state(trained.state_dict, told.model.state_dict())


def test_a_batch_that_is_not_finite_leaves_running_statistics_alone():
    x, y = data(24)
    batches = [[x[i : i + 8].clone(), y[i : i + 8].clone()] for i in range(0, 24, 8)]
    batches[1][0][0, 0] = torch.nan
    for method in (ferero.FereroPI(), ferero.FereroSA(gamma=0.01)):
        how = {"make_model": lambda seed: Net(norm=True).double(), "optimizer": slow, "method": method}
        found = train([RAY], loader=batches, batch_size=None, double_sampling=False, **how)[0].state_dict
        wanted = train([RAY], loader=[batches[0], batches[2]], batch_size=None, double_sampling=False, **how)[
            0
        ].state_dict
        assert int(found["norm.num_batches_tracked"]) == 6
        assert_same_state(found, wanted)


class Kind(nn.Module):
    """A layer of some kind between two linear ones."""

    def __init__(self, layer):
        super().__init__()
        self.first, self.layer, self.last = nn.Linear(4, 8), layer, nn.Linear(8, 3)

    def forward(self, x):
        features = self.first(x)
        if isinstance(self.layer, nn.Embedding):
            return self.last(features + self.layer((3 * x[:, 0].abs()).long().clamp(max=6)))
        if isinstance(self.layer, nn.TransformerEncoderLayer):
            return self.last(self.layer(features[:, None].expand(-1, 3, -1)).mean(dim=1))
        return self.last(self.layer(features))


LAYERS = {
    "convolution": lambda: nn.Sequential(nn.Unflatten(1, (1, 8)), nn.Conv1d(1, 2, 5), nn.GroupNorm(1, 2), nn.Flatten()),
    "transformer": lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
    "embedding": lambda: nn.Embedding(7, 8),
    "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)),
    "spectral norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8)),
    "prelu": lambda: nn.Sequential(nn.PReLU(), nn.LayerNorm(8)),
}


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.filterwarnings("ignore:the 2 models are evaluated one after the other")
@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_every_kind(name):
    how = {"make_model": lambda seed: Kind(LAYERS[name]()).double(), "optimizer": slow}
    for trained in train([RAY, BOUND], **how):
        assert_same_run(trained, train_alone(trained.preference, **how))
