"""A run that is interrupted and called again ends bit for bit where it would have ended."""

from __future__ import annotations

import sys

import pytest
import torch
from tests.training.ensemble.alone import BOUND, ORDER, OTHER_RAY, RAY, Net, data, make_net, sgd, squares
from torch.utils.data import DataLoader, TensorDataset

import ferero
from ferero.errors import InputError
from ferero.fronts._train_front import train_front

HELD = data(9, seed=4)


def make_random(seed):
    return Net(norm=True, dropout=0.3).double()


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.02)


def cosine(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)


def shuffled(**how):
    return DataLoader(TensorDataset(*data()), batch_size=8, shuffle=True, **how)


def train(preferences=(RAY, BOUND), loader=None, **how):
    loader = data() if loader is None else loader
    how = {"optimizer": adam, "epochs": 4, "device": "cpu", "schedule": cosine, "make_model": make_random} | how
    if isinstance(loader, tuple):
        how.setdefault("batch_size", 8)
    return train_front(how.pop("make_model"), squares, loader, list(preferences), **how)


def interrupted(at, **how):
    def progress(done, total):
        if done == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(progress=progress, **how)


def assert_identical(found, wanted):
    """Everything but the time it took."""
    assert torch.equal(found.losses, wanted.losses)
    for a, b in zip(found, wanted, strict=True):
        assert a.state_dict.keys() == b.state_dict.keys()
        for name, tensor in b.state_dict.items():
            assert torch.equal(a.state_dict[name], tensor), name
        assert torch.equal(a.weights, b.weights)
        assert (a.multipliers is None) == (b.multipliers is None)
        assert a.multipliers is None or torch.equal(a.multipliers, b.multipliers)
        assert (a.status, a.message, a.seed, a.steps, a.evaluated) == (
            b.status,
            b.message,
            b.seed,
            b.steps,
            b.evaluated,
        )
        assert torch.equal(a.course.steps, b.course.steps)
        assert torch.equal(a.course.losses, b.course.losses)
        assert torch.equal(a.course.weights, b.course.weights)
        assert a.course.evaluated.keys() == b.course.evaluated.keys()
        for name, values in b.course.evaluated.items():
            assert torch.equal(a.course.evaluated[name].nan_to_num(-1), values.nan_to_num(-1)), name


LOADERS = {
    "tensors": lambda: {"loader": data(), "order": "seed"},
    "shuffle": lambda: {"loader": shuffled()},
    "generator": lambda: {"loader": shuffled(generator=torch.Generator().manual_seed(3))},
}


@pytest.mark.parametrize("at", [2, 8, 10], ids=["first-epoch", "third-epoch", "later"])
@pytest.mark.parametrize("kind", LOADERS)
def test_interrupted_in_the_middle_of_an_epoch(kind, at, tmp_path):
    how = {"seeds": 2, "evaluate": {"val": HELD}, "evaluate_every": 2, "held_out": "val"}
    path = tmp_path / "new" / "run.pt"
    wanted = train(**how, **LOADERS[kind]())
    interrupted(at, checkpoint=path, **how, **LOADERS[kind]())
    torch.rand(5)  # whatever happens in between
    assert_identical(train(checkpoint=path, **how, **LOADERS[kind]()), wanted)
    assert [file.name for file in path.parent.iterdir()] == ["run.pt"]


METHODS = [
    ferero.Ferero(),
    ferero.FereroSA(gamma=0.01),
    ferero.FereroQG(),
    ferero.EPO(),
    ferero.PMTL(),
    ferero.Tchebycheff(),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_every_method_goes_on(method, tmp_path):
    how = {"method": method, "preferences": [RAY, OTHER_RAY], "make_model": make_net, "optimizer": sgd, "epochs": 3}
    wanted = train(**how)
    interrupted(8, checkpoint=tmp_path / "run.pt", **how)
    assert_identical(train(checkpoint=tmp_path / "run.pt", **how), wanted)


SCHEDULES = {
    "multistep": lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [4, 8]),
    "onecycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=12),
    "lambda": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda step: 0.9**step),
    "sequence": lambda o: torch.optim.lr_scheduler.SequentialLR(
        o,
        [torch.optim.lr_scheduler.ConstantLR(o, 0.1, 3), torch.optim.lr_scheduler.ExponentialLR(o, 0.9)],
        milestones=[3],
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_goes_on(name, tmp_path):
    how = {"schedule": SCHEDULES[name], "schedule_by": "step", "preferences": [ORDER]}
    wanted = train(**how)
    interrupted(8, checkpoint=tmp_path / "run.pt", **how)
    assert_identical(train(checkpoint=tmp_path / "run.pt", **how), wanted)


def test_what_is_done_one_by_one_goes_on_too(tmp_path):
    class Asks(Net):
        def forward(self, x):
            return super().forward(x) * min(self.heads.bias.detach().abs().sum().item(), 1.0)

    how = {"make_model": lambda seed: Asks(dropout=0.3).double()}
    with pytest.warns(UserWarning, match="one after the other"):
        wanted = train(**how)
    with pytest.warns(UserWarning, match="one after the other"):
        interrupted(8, checkpoint=tmp_path / "run.pt", **how)
    with pytest.warns(UserWarning, match="one after the other"):
        assert_identical(train(checkpoint=tmp_path / "run.pt", **how), wanted)


@pytest.mark.parametrize("kind", LOADERS)
def test_more_epochs_train_on_as_if_nobody_had_stopped(kind, tmp_path):
    path = tmp_path / "run.pt"
    wanted = train(epochs=4, **LOADERS[kind]())
    train(epochs=2, checkpoint=path, **LOADERS[kind]())
    front = train(epochs=4, checkpoint=path, **LOADERS[kind]())
    for found, other in zip(front, wanted, strict=True):
        for name, tensor in other.state_dict.items():
            assert torch.equal(found.state_dict[name], tensor), name
        assert torch.equal(found.losses, other.losses)
        assert torch.equal(found.course.losses, other.course.losses)
        assert found.steps == other.steps


def test_a_finished_run_is_not_run_again(tmp_path):
    path = tmp_path / "run.pt"
    wanted = train(checkpoint=path, evaluate={"val": HELD})
    content = path.read_bytes()
    seen = []
    found = train(checkpoint=path, evaluate={"val": HELD}, progress=lambda *now: seen.append(now))
    assert_identical(found, wanted)
    assert seen == []
    assert path.read_bytes() == content
    assert [a.seconds for a in found] == [b.seconds for b in wanted]


def test_fewer_epochs_than_were_trained_are_refused(tmp_path):
    path = tmp_path / "run.pt"
    interrupted(11, checkpoint=path)
    with pytest.raises(
        InputError,
        match=r"expected one after at most 2 epochs, as many as are wanted, found 3 in .*pass epochs=3 or more",
    ):
        train(checkpoint=path, epochs=2)


f = ferero.objectives("a", "b", "d")
OTHERS = {
    "losses": {"preferences": [ferero.Preference.ray([1.0, 2.0, 1.5], names=("x", "y", "z"))]},
    "preferences": {"preferences": [ferero.Preference.ray([1.0, 2.0, 1.5001], names=("a", "b", "c")), BOUND]},
    "seeds": {"seeds": [0, 2]},
    "model": {"make_model": make_net},
    "method": {"method": ferero.FereroPI(proportional=3.0)},
    "optimizer": {"optimizer": lambda p: torch.optim.Adam(p, lr=0.01)},
    "schedule": {"schedule": None},
    "step": {"clip_norm": 1.0},
    "batches": {"batch_size": 6},
    "held_out": {"held_out": None},
}


@pytest.mark.parametrize("topic", OTHERS)
def test_a_checkpoint_of_another_run_is_refused_and_kept(topic, tmp_path):
    path = tmp_path / "run.pt"
    how = {"seeds": 2, "evaluate": {"val": HELD}, "held_out": "val", "epochs": 1}
    train(checkpoint=path, **how)
    content = path.read_bytes()
    with pytest.raises(InputError) as refused:
        train(checkpoint=path, **(how | OTHERS[topic]))
    said = str(refused.value)
    assert said.startswith(f"checkpoint: {path} belongs to a run with another {topic}: expected ")
    assert said.endswith("; pass the same, remove the file to start anew, or name another.")
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"hello"),
        lambda path: path.write_bytes(b"\x80\x02}q\x00(hello"),
        lambda path: torch.save([1, 2], path),
        lambda path: torch.save({"belongs": 1, "state": 2}, path),
        lambda path: torch.save({"model": torch.zeros(2)}, path),
        lambda path: (path.unlink(), path.mkdir()),
    ],
    ids=["half", "empty", "text", "pickle", "list", "numbers", "other", "folder"],
)
def test_a_file_that_cannot_be_read(spoil, tmp_path):
    path = tmp_path / "run.pt"
    train(checkpoint=path, epochs=1)
    spoil(path)
    with pytest.raises(
        InputError,
        match=r"checkpoint: expected a file of an earlier run, found that .* cannot be read .*remove it to start anew",
    ):
        train(checkpoint=path, epochs=1)


def test_a_disk_that_is_full_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "run.pt"
    wanted = train(epochs=3)
    train(checkpoint=path, epochs=1)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(torch, "save", full)
        with pytest.raises(OSError, match="No space left"):
            train(checkpoint=path, epochs=3)
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]
    found = train(checkpoint=path, epochs=3)
    assert all(torch.equal(a.losses, b.losses) for a, b in zip(found, wanted, strict=True))


@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits on the size of files")
def test_a_file_that_cannot_be_written_is_named(tmp_path):
    import resource

    path = tmp_path / "run.pt"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as refused:
            train(checkpoint=path, epochs=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert refused.value.filename == str(path)
    assert list(tmp_path.iterdir()) == []
