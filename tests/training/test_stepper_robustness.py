"""What a first user stumbled over, so that nobody does again."""

import pytest
import torch
from torch import nn

import ferero
from ferero.errors import InputError, UnsupportedError
from ferero.training._stepper import Stepper

PREFERENCE = ferero.Preference.ray([1.0, 2.0])


def losses(model, x):
    return (model(x) - torch.tensor([1.0, -1.0])).square().mean(dim=0)


def make(method=None, loss_fn=losses, optimizer=None, model=None, preference=PREFERENCE, **how):
    torch.manual_seed(0)
    model = nn.Linear(2, 2) if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05) if optimizer is None else optimizer
    return Stepper(model, loss_fn, preference, optimizer, method=method or ferero.FereroSA(bound=10.0), **how)


@pytest.mark.slow
def test_swings_without_noise_are_not_called_noise():
    """The plain single loop with a small gamma swings along a concave front for ever."""
    c = 1 / 2**0.5

    def fun(model, batch):
        t = model.weight[0] + 0.0 * batch.mean()
        return torch.stack([1 - torch.exp(-(t - c).square().sum()), 1 - torch.exp(-(t + c).square().sum())])

    model = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.2, -0.1]]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    preference = ferero.Preference.ray([1.0, 1.3])
    stepper = make(ferero.FereroSA(), fun, optimizer, model, preference)
    errors = []
    for _ in range(1500):
        out = stepper.step(torch.zeros(2, 1))
        errors.append(float(ferero.ray_error(out.losses, preference.ray)))
    assert max(errors[-300:]) > 20
    assert stepper.report().status in ("oscillating", "not_met")


def test_a_slow_group_in_front_is_warned_of():
    model = nn.Linear(2, 2)
    groups = [{"params": [model.bias], "lr": 1e-4}, {"params": [model.weight], "lr": 0.05}]
    with pytest.warns(UserWarning, match="learning rate, 0.0001, and others are up to 0.05; pass step_size"):
        make(optimizer=torch.optim.SGD(groups), model=model)
    make(optimizer=torch.optim.SGD(groups), model=model, step_size=0.05)
    make(ferero.EPO(), optimizer=torch.optim.SGD(groups), model=model)


def test_an_error_after_the_step_leaves_method_and_model_in_step():
    calls = 0

    def fragile(model, x):
        nonlocal calls
        calls += 1
        if calls == 6:  # each step asks three times: the last look of the second
            raise RuntimeError("the data loader died")
        return losses(model, x)

    stepper, x = make(loss_fn=fragile), torch.randn(8, 2)
    stepper.step(x)
    before = stepper.model.weight.detach().clone()
    with pytest.raises(RuntimeError, match="data loader"):
        stepper.step(x)
    assert not torch.equal(before, stepper.model.weight)
    assert stepper.state_dict()["memory"]["record_seen"].tolist() == [2, 2]
    assert stepper.state_dict()["memory"]["slopes"].tolist() == [0, 0]
    assert not stepper.step(x).skipped


@pytest.mark.parametrize("on_nonfinite", ["raise", "skip"])
def test_a_refused_step_does_not_use_up_the_generator(on_nonfinite):
    generator = torch.Generator().manual_seed(0)
    stepper = make(generator=generator, on_nonfinite=on_nonfinite)
    stepper.step(torch.randn(8, 2))
    before = generator.get_state()
    if on_nonfinite == "raise":
        with pytest.raises(ferero.FereroError):
            stepper.step(torch.full((8, 2), torch.nan))
    else:
        assert stepper.step(torch.full((8, 2), torch.nan)).skipped
    assert torch.equal(before, generator.get_state())


def test_a_missing_loss_is_nan():
    preference = ferero.Preference.ray([1.0, 2.0], names=["a", "b"])
    stepper = make(ferero.FereroPI(), lambda model, x: {"a": losses(model, x)[0]}, preference=preference)
    out = stepper.step(torch.randn(4, 2))
    assert torch.isnan(out.losses).tolist() == [False, True]


def test_another_models_optimizer_is_refused():
    with pytest.raises(InputError, match="expected parameters of the model among its own, found none"):
        make(optimizer=torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1))


def test_lbfgs_is_refused():
    model = nn.Linear(2, 2)
    with pytest.raises(UnsupportedError, match="LBFGS evaluates its losses itself"):
        make(optimizer=torch.optim.LBFGS(model.parameters()), model=model)


@pytest.mark.parametrize(
    ("argument", "value", "words"),
    [
        ("clip_norm", "1", "clip_norm: expected a positive finite number or None, found '1'"),
        ("step_size", "1", "step_size: expected a positive finite number"),
        ("generator", 3, "generator: expected a torch.Generator or None, found int"),
        ("scaler", True, "scaler: expected a torch.amp.GradScaler or None, found bool"),
        ("loss_fn", 3, "loss_fn: expected a function of model and batch, found int"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(argument, value, words):
    with pytest.raises(InputError, match=words):
        make(**{argument: value})


def test_a_split_into_three_is_refused():
    with pytest.raises(InputError, match="split: expected a function that gives two halves, found 3 back"):
        make(split=lambda x: (x[:2], x[2:4], x[4:])).step(torch.randn(6, 2))


def test_a_stepper_says_what_it_is():
    assert "FereroSA(" in repr(make())
    assert "slopes='realized'" in repr(make())


def test_a_perfect_fit_is_no_error():
    stepper = make(loss_fn=lambda model, x: 0.0 * losses(model, x))
    for _ in range(3):
        assert not stepper.step(torch.randn(4, 2)).skipped
