"""What `train_front` refuses, and in which words."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from tests.training.ensemble.alone import BOUND, RAY, Net, data, make_net, sgd, squares
from torch import nn

import ferero
from ferero.errors import InputError, NonFiniteError, UnknownNameError, UnsupportedError
from ferero.fronts._progress_line import ProgressLine, read_watcher
from ferero.fronts._train_front import train_front

g = ferero.objectives("a", "b", "c", measured=("a",))
MEASURED = ferero.Preference(g, [g.a <= 0.3])
LOADER = [data(8)]


def train(**how):
    how = {
        "make_model": make_net,
        "loss_fn": squares,
        "loader": data(),
        "preferences": [RAY],
        "optimizer": sgd,
        "epochs": 1,
        "batch_size": 8,
        "device": "cpu",
    } | how
    return train_front(how.pop("make_model"), how.pop("loss_fn"), how.pop("loader"), how.pop("preferences"), **how)


def detached(model, batch):
    return {name: loss.detach() for name, loss in squares(model, batch).items()}


def of_two_sizes(seed):
    return nn.Linear(4, 3 + seed).double()


def nothing_to_train(seed):
    return make_net(seed).requires_grad_(requires_grad=False)


def without(name):
    return lambda model, batch: {key: loss for key, loss in squares(model, batch).items() if key != name}


class Empty:
    def __iter__(self):
        return iter(())


REFUSED = {
    "epochs: expected an integer >= 1, found 0.": {"epochs": 0},
    "epochs: expected an integer >= 1, found 2.5.": {"epochs": 2.5},
    "epochs: expected an integer >= 1, found True.": {"epochs": True},
    "evaluate_every: expected an integer >= 1, found 0.": {"evaluate_every": 0},
    "seeds: expected how many, or different integers >= 0, found 0.": {"seeds": 0},
    "seeds: expected how many, or different integers >= 0, found [].": {"seeds": []},
    "seeds: expected how many, or different integers >= 0, found [1, 1].": {"seeds": [1, 1]},
    "seeds: expected how many, or different integers >= 0, found [-1].": {"seeds": [-1]},
    "seeds: expected how many, or different integers >= 0, found 1.5.": {"seeds": 1.5},
    "seeds: expected how many, or different integers >= 0, found 'ab'.": {"seeds": "ab"},
    'schedule_by: expected "epoch" or "step", found \'batch\'.': {"schedule_by": "batch"},
    'order: expected "shared" or "seed", found \'random\'.': {"order": "random"},
    'slopes: expected one of "realized", "forward", "jacobian", found \'exact\'.': {"slopes": "exact"},
    "clip_norm: expected a positive finite number or None, found 0.": {"clip_norm": 0},
    "clip_norm: expected a positive finite number or None, found nan.": {"clip_norm": float("nan")},
    "method: expected an instance, found the class; write FereroPI().": {"method": ferero.FereroPI},
    "method: expected a method such as ferero.FereroPI(), found str.": {"method": "ferero"},
    "loss_fn: expected a function of model and batch, found int.": {"loss_fn": 3},
    "metrics: expected a function of model and batch, found str.": {"metrics": "accuracy"},
    "metrics: expected figures by name, found Tensor.": {"metrics": lambda model, batch: batch[0].mean()},
    "make_model: expected a function from a seed to a model, found Net; write lambda seed: Net().": {
        "make_model": Net()
    },
    "make_model: expected a function that gives a torch.nn.Module, found int.": {"make_model": lambda seed: seed},
    "make_model: expected models of one structure, found that model 1 differs from the first in 'weight'; only the "
    "values of parameters may depend on the seed.": {"make_model": of_two_sizes, "seeds": 2},
    "make_model: expected something to train, found no parameter with requires_grad=True.": {
        "make_model": nothing_to_train
    },
    "held_out: expected one of evaluate's names (none), found 'val'.": {"held_out": "val"},
    "held_out: expected one of evaluate's names (test), found 'val'.": {
        "held_out": "val",
        "evaluate": {"test": data(4)},
    },
    "held_out: expected the name in evaluate of the data on which a can be measured, found None; pass "
    "evaluate={name: data}, held_out=name and metrics=.": {"preferences": [MEASURED]},
    'evaluate: expected data by name, such as {"test": loader}, found tuple.': {"evaluate": data(4)},
    "evaluate['test']: expected tensors of one length, found shapes (4,), (5,).": {
        "evaluate": {"test": (torch.zeros(4), torch.zeros(5))}
    },
    "evaluate['test']: expected at least one example, found none.": {"evaluate": {"test": (torch.zeros(0, 4),)}},
    "evaluate['test']: expected a loader that can be iterated once an epoch, or a tuple of tensors, found "
    "list_iterator; pass a DataLoader or a list of batches.": {"evaluate": {"test": iter(LOADER)}},
    "evaluate: expected at least one batch, found none; an iterator can be used only once.": {"evaluate": {"test": []}},
    "loader: expected tensors of one length, found shapes (4,), (5,).": {"loader": (torch.zeros(4), torch.zeros(5))},
    "loader: expected tensors of one length, found shapes ().": {"loader": (torch.zeros(()),)},
    "loader: expected at least one batch an epoch, found none.": {"loader": Empty(), "batch_size": None},
    "loader: expected a loader that can be iterated once an epoch, or a tuple of tensors, found generator; pass a "
    "DataLoader or a list of batches.": {"loader": (batch for batch in LOADER), "batch_size": None},
    "loader: expected a loader that can be iterated once an epoch, or a tuple of tensors, found int; pass a "
    "DataLoader or a list of batches.": {"loader": 3, "batch_size": None},
    "batch_size: expected a number from 1 to 26 to go with tensors, found None.": {"batch_size": None},
    "batch_size: expected a number from 1 to 26 to go with tensors, found 27.": {"batch_size": 27},
    "batch_size: expected a number from 1 to 26 to go with tensors, found 2.5.": {"batch_size": 2.5},
    "batch_size: expected None with a loader, which has its own, found 8; data to be split into batches are passed as "
    "a tuple of tensors.": {"loader": LOADER},
    "order: expected \"shared\" with a loader, whose batches all models see, found 'seed'; pass the data as a tuple of "
    "tensors with batch_size=.": {"loader": LOADER, "batch_size": None, "order": "seed"},
    "batch: expected at least two examples to halve, found 1; use larger batches (and drop_last=True), or pass a "
    "second batch as twin=, or double_sampling=False.": {
        "method": ferero.FereroSA(),
        "batch_size": 1,
        "order": "seed",
        "seeds": 2,
    },
    "rate_factors: expected a positive number for each of the 1 preferences, found [1.0, 2.0].": {
        "rate_factors": [1.0, 2.0]
    },
    "rate_factors: expected a positive number for each of the 1 preferences, found [0.0].": {"rate_factors": [0.0]},
    "optimizer: expected a function from parameters to an optimizer, such as lambda parameters: "
    "torch.optim.SGD(parameters, lr=0.1), found type.": {"optimizer": lambda parameters: torch.optim.SGD},
    "optimizer: expected one that trains the parameters it was given, found others in it.": {
        "optimizer": lambda parameters: sgd(make_net(0).parameters())
    },
    "schedule: expected a function from an optimizer to one of torch's schedulers, such as lambda optimizer: "
    "torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs), found NoneType.": {
        "schedule": lambda optimizer: None
    },
    "schedule: expected a function from the optimizer to its scheduler, found a StepLR of another optimizer; write "
    "lambda optimizer: StepLR(optimizer, ...).": {
        "schedule": torch.optim.lr_scheduler.StepLR(sgd(make_net(0).parameters()), 1)
    },
    'device: expected "cpu", "cuda" or the like, found \'gpu0\'.': {"device": "gpu0"},
    "loss_fn: expected losses attached to the graph, found none; pass them, not .detach().": {"loss_fn": detached},
    "loss_fn: expected a value of every loss (a, b, c) for every batch when many models are trained at once, found one "
    "missing; steer such models one by one with ferero.Steer.": {"loss_fn": without("b")},
    "preferences: expected at least one, found none; for rays use ferero.spread(m, n).": {"preferences": []},
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:50])
def test_refused(text):
    with pytest.raises(InputError) as refused:
        train(**REFUSED[text])
    assert str(refused.value) == text


UNSUPPORTED = {
    "optimizer: LBFGS may mix the stacked models, which are to train as if each were alone; use one of SGD, Adam, "
    "AdamW, RMSprop, Adagrad, Adamax, NAdam, RAdam, Adadelta, ASGD, Rprop, or ferero.sweep, which trains them one by "
    "one.": {"optimizer": torch.optim.LBFGS},
    "schedule: ReduceLROnPlateau follows the value of one model, and there are many here; take one that counts steps "
    "or epochs, or ferero.sweep, which trains them one by one.": {
        "schedule": torch.optim.lr_scheduler.ReduceLROnPlateau
    },
}


@pytest.mark.parametrize("text", UNSUPPORTED, ids=lambda text: text[:30])
def test_unsupported(text):
    with pytest.raises(UnsupportedError) as refused:
        train(**UNSUPPORTED[text])
    assert str(refused.value) == text


def test_a_method_that_does_not_understand_one_of_the_preferences():
    with pytest.raises(UnsupportedError, match="EPO"):
        train(preferences=[RAY, BOUND], method=ferero.EPO())


def test_a_name_that_is_none_of_the_losses():
    def losses(model, batch):
        found = squares(model, batch)
        return {"aa": found["a"], "b": found["b"], "c": found["c"]}

    with pytest.raises(UnknownNameError, match="aa"):
        train(loss_fn=losses)


def test_a_wrong_number_of_losses():
    with pytest.raises(InputError, match="losses"):
        train(loss_fn=lambda model, batch: torch.stack(list(squares(model, batch).values()))[:2])


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_forward_mode_that_torch_does_not_have():
    def losses(model, batch):
        found = squares(model, batch)
        speech = model(batch[0]).log_softmax(-1)[:, None]
        lengths = torch.tensor([len(batch[0])]), torch.tensor([2])
        return {**found, "a": nn.functional.ctc_loss(speech, torch.tensor([[1, 2]]), *lengths)}

    with pytest.raises(UnsupportedError) as refused:
        train(loss_fn=losses, method=ferero.FereroSA(gamma=0.01), slopes="forward")
    assert str(refused.value).startswith('slopes="forward": torch has no forward mode for')


def test_a_gpu_that_is_not_there():
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(InputError) as refused:
        train(device="cuda")
    assert str(refused.value) == "device: expected one that is here, found 'cuda' without a GPU; pass \"cpu\" or None."


def test_nothing_is_finite_and_the_front_says_so():
    front = train(loss_fn=lambda model, batch: {n: loss * torch.nan for n, loss in squares(model, batch).items()})
    assert front.statuses == ("diverged",)
    assert not issubclass(NonFiniteError, InputError)


def test_numbers_of_any_kind():
    front = train(seeds=np.arange(2), epochs=np.int64(1), preferences=np.array([[1.0, 2.0, 1.0]]), loss_fn=as_tensor)
    assert [r.seed for r in front] == [0, 1]
    assert train(preferences=torch.tensor([[1.0, 2.0, 1.0], [1.0, 1.0, 1.0]]), loss_fn=as_tensor).losses.shape == (2, 3)
    assert len(train(preferences=ferero.Preference.stack([RAY, BOUND]), seeds=3)) == 6


def as_tensor(model, batch):
    return torch.stack(list(squares(model, batch).values()))


def test_tensors_beside_a_loader():
    front = train(loader=LOADER, batch_size=None, evaluate={"test": data(5)})
    assert set(front[0].evaluated) == {"train", "test"}


# progress -------------------------------------------------------------------------------------------------------


def test_progress_counts_steps():
    seen = []
    train(epochs=2, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(i, 6) for i in range(1, 7)]


def test_the_line(monkeypatch):
    clock = iter([100.0, 102.0, 102.1, 7300.0, 7301.0])
    monkeypatch.setattr("ferero.fronts._progress_line.time.monotonic", lambda: next(clock))
    stream = io.StringIO()
    line = ProgressLine("training 4 models", stream)
    for done in (0, 1, 2, 3, 4):
        line(done, 4)
    drawn = stream.getvalue().split("\r\x1b[K")
    assert drawn == [
        "",
        "training 4 models: 0 %",
        "training 4 models: 25 %, 0:06 left",
        "training 4 models: 75 %, 40:00 left",
        "",
    ]


def test_who_is_told(capsys):
    read_watcher(False, "x")(1, 2)
    read_watcher(None, "x")(1, 2)  # no terminal
    assert capsys.readouterr().err == ""
    read_watcher(True, "x")(1, 2)
    assert "x: 50 %" in capsys.readouterr().err
