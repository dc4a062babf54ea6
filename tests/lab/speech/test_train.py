"""A run that is broken off and taken up again is the run that was not; and what makes a run stop."""

import re
from copy import deepcopy
from itertools import pairwise

import pytest
import torch
from tests.lab.speech.tiny import tiny_model, tiny_schedule, tiny_sets, tiny_training

from ferero.errors import InputError, NonFiniteError
from ferero_lab.speech.experiment import plan
from ferero_lab.speech.experiment import train as module
from ferero_lab.speech.experiment.losses import held_out_sums, training_losses
from ferero_lab.speech.experiment.plan import Levels
from ferero_lab.speech.experiment.train import Schedule

pytest.importorskip("transformers")
pytest.importorskip("soundfile")


def parameters_of(training):
    return torch.cat([each.detach().flatten() for each in training.model.parameters()])


def but_for_seconds(trajectory):
    """As text, in which every float has all its digits and NaN is NaN."""
    return repr({key: value for key, value in vars(trajectory).items() if key != "seconds"})


def break_off(training, after):
    take = training.step

    def step():
        if training.done == after:
            raise KeyboardInterrupt
        take()

    training.step = step
    with pytest.raises(KeyboardInterrupt):
        training.run()


@pytest.mark.parametrize("name", ["ctc", "ls", "ferero", "ferero-sa", "mgda", "stch"])
def test_a_resumed_run_is_bit_for_bit_the_run_that_was_not_broken_off(name, tmp_path):
    whole = tiny_training(name)
    whole.run()
    broken = tiny_training(name)
    break_off(broken, 7)  # of 12, two steps after a look
    broken.save(tmp_path / "training.pt")
    torch.manual_seed(99)
    other = tiny_training(name, model=tiny_model(tiny_sets(), seed=5))
    trajectory = other.run(tmp_path / "training.pt")
    assert other.done == whole.done == 12
    assert torch.equal(parameters_of(other), parameters_of(whole))
    assert not torch.equal(parameters_of(other), parameters_of(broken))
    assert but_for_seconds(trajectory) == but_for_seconds(whole.trajectory)
    assert trajectory.steps == [0, 5, 10, 12]
    for key in ("held_out", "training", "weights"):
        assert [len(row) for row in getattr(trajectory, key)] == [3] * 4
    assert [len(row) for row in trajectory.multipliers] == [2 if name.startswith("ferero") else 0] * 4


@pytest.mark.parametrize("at", [5, 12])
def test_a_checkpoint_at_a_look_or_at_the_end_looks_once(at, tmp_path):
    whole = tiny_training()
    whole.run()
    broken = tiny_training()
    while broken.done < at:
        if broken.done % 5 == 0:
            broken._evaluate()
        broken.model.train()
        broken.step()
    broken.save(tmp_path / "training.pt")
    trajectory = tiny_training().run(tmp_path / "training.pt")
    assert but_for_seconds(trajectory) == but_for_seconds(whole.trajectory)


def losses_of(training):
    return list(held_out_sums(training.model, training._held_out).means().values())


def judged(levels, **changes):
    """A run whose steps do not depend on the levels, which only judge the looks."""
    training = tiny_training(every=2, **changes)
    training._levels = levels
    return training


def levels_at(trajectory, look):
    _, zh, en = trajectory.held_out[look]
    return Levels(cpc=100.0, gap=zh - en)


@pytest.fixture(scope="module")
def looked_at():
    """Looks after 0, 2, .., 12 steps of 12; those after 8, 10 and 12 are in the last third. No two gaps are alike."""
    trajectory = judged(None).run()
    gaps = sorted(zh - en for _, zh, en in trajectory.held_out)
    assert min(b - a for a, b in pairwise(gaps)) > 1e-5
    assert trajectory.kept == 12
    return trajectory


@pytest.mark.parametrize("look", [4, 5, 6])
def test_under_levels_the_late_look_that_holds_them_is_kept(look, looked_at, monkeypatch):
    monkeypatch.setattr(plan, "TOLERANCE", 1e-6)
    training = judged(levels_at(looked_at, look))
    trajectory = training.run()
    assert trajectory.held_out == looked_at.held_out
    assert trajectory.kept == 2 * look
    assert losses_of(training) == pytest.approx(looked_at.held_out[look], rel=1e-6)


@pytest.mark.parametrize(
    "tolerance",
    [
        pytest.param(1000.0, id="all of them hold"),
        pytest.param(1e-6, id="an early one holds"),
        pytest.param(-1000.0, id="none holds"),
    ],
)
def test_else_the_last_is_kept(tolerance, looked_at, monkeypatch):
    monkeypatch.setattr(plan, "TOLERANCE", tolerance)
    training = judged(levels_at(looked_at, 3))
    assert training.run().kept == 12
    assert losses_of(training) == pytest.approx(looked_at.held_out[-1], rel=1e-6)


def test_what_is_kept_survives_a_break(looked_at, tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "TOLERANCE", 1e-6)
    levels = levels_at(looked_at, 4)
    broken = judged(levels)
    break_off(broken, 9)
    broken.save(tmp_path / "training.pt")
    again = judged(levels, model=tiny_model(tiny_sets(), seed=5))
    assert again.run(tmp_path / "training.pt").kept == 8
    assert losses_of(again) == pytest.approx(looked_at.held_out[4], rel=1e-6)


def test_it_is_saved_on_the_way_and_told_how_far_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SAVE_AFTER", 0.0)
    told = []
    path = tmp_path / "folder" / "training.pt"
    training = tiny_training()
    trajectory = training.run(path, lambda *where: told.append(where))
    assert told == [(0, 12), (5, 12), (10, 12), (12, 12)]
    assert path.is_file()
    again = tiny_training()
    again.load(path)
    assert again.done == 12
    assert torch.equal(parameters_of(again), parameters_of(training))
    assert trajectory.seconds >= again.trajectory.seconds > 0


def test_seconds_add_up(tmp_path):
    first = tiny_training()
    first.step()
    first.trajectory.seconds = 1000.0
    first.save(tmp_path / "training.pt")
    assert 1000 < tiny_training().run(tmp_path / "training.pt").seconds < 1060


def test_a_run_is_repeated_by_its_seed():
    ends = []
    for seed in (0, 0, 1):
        training = tiny_training(seed=seed)
        training.run()
        ends.append(parameters_of(training))
    assert torch.equal(ends[0], ends[1])
    assert not torch.equal(ends[0], ends[2])


@pytest.mark.parametrize("steps", [1, 2, 11, 12, 25, 100, 137])
def test_the_rate_rises_and_falls_and_never_passes_its_peak(steps):
    schedule = tiny_schedule(steps=steps)
    factors = [schedule.factor(step) for step in range(steps)]
    assert all(0 < factor <= 1 for factor in factors)
    peak = factors.index(max(factors))
    assert factors[: peak + 1] == sorted(factors[: peak + 1])
    assert factors[peak:] == sorted(factors[peak:], reverse=True)
    assert max(factors) > 0.9
    assert schedule.factor(steps) >= 0.05


def test_the_rate_by_hand():
    schedule = Schedule(steps=20, rate=1.0, seconds=1.0, every=1, tempo=0.0, pitch=0.0, warm_up=0.2, last=0.5)
    expected = [0.25, 0.5, 0.75, 1.0, *(1 - 0.5 * k / 16 for k in range(16))]
    assert [schedule.factor(step) for step in range(20)] == pytest.approx(expected)
    assert schedule.factor(20) == pytest.approx(0.5)


def test_the_optimizer_takes_that_rate():
    training = tiny_training(steps=12)
    rates = []
    while training.done < 12:
        rates.append(training.optimizer.param_groups[0]["lr"])
        training.step()
    assert rates == pytest.approx([1e-2 * training.schedule.factor(step) for step in range(12)])


@pytest.mark.parametrize("name", ["ferero", "mgda"])
def test_training_losses_are_told_apart_from_the_held_out_ones(name, monkeypatch):
    seen = []

    def noted(model, given):
        losses, counts = training_losses(model, given)
        seen.append(losses.tolist())
        return losses, counts

    monkeypatch.setattr(module, "training_losses", noted)
    trajectory = tiny_training(name, steps=10).run()
    lowest, highest = torch.tensor(seen).amin(dim=0), torch.tensor(seen).amax(dim=0)
    for told, held_out in zip(trajectory.training[1:], trajectory.held_out[1:], strict=True):
        assert told != pytest.approx(held_out, rel=1e-3)
        assert ((torch.tensor(told) >= lowest) & (torch.tensor(told) <= highest)).all()


def test_a_look_leaves_the_random_numbers_and_the_mode_alone():
    training = tiny_training()
    training.model.train()
    before = torch.get_rng_state(), training._generator.get_state()
    training._evaluate()
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.equal(training._generator.get_state(), before[1])
    assert training.model.training


@pytest.mark.parametrize("name", ["ferero", "mgda"])
@pytest.mark.parametrize("head", ["zh", "en"])
def test_a_parameter_that_is_nan_stops_the_run_and_says_when(name, head):
    training = tiny_training(name)
    training.step()
    with torch.no_grad():
        training.model.heads[head].weight[0, 0] = torch.nan
    before = parameters_of(training)
    with pytest.raises(NonFiniteError, match=f"{head}.*nothing was updated"):
        training.step()
    assert torch.equal(parameters_of(training).isnan(), before.isnan())
    with pytest.raises(NonFiniteError, match=re.escape("the held-out losses after 1 steps: expected finite numbers")):
        training._evaluate()
    assert training.trajectory.steps == []


def test_a_checkpoint_that_is_damaged_is_refused(tmp_path):
    path = tmp_path / "training.pt"
    training = tiny_training()
    training.step()
    training.save(path)
    data = path.read_bytes()
    for damaged in (b"", b"not a checkpoint", data[: len(data) // 2]):
        path.write_bytes(damaged)
        other = tiny_training()
        with pytest.raises(InputError, match=r"checkpoint: expected a file of an earlier run, found that .* remove it"):
            other.run(path)
        assert other.done == 0


@pytest.mark.parametrize(
    ("topic", "name", "changes"),
    [
        ("schedule", "ferero", {"steps": 20}),
        ("schedule", "ferero", {"rate": 1e-3}),
        ("seed", "ferero", {"seed": 1}),
        ("preference", "ferero", {"levels": Levels(3.3, 0.6)}),
        ("method", "mgda", {"levels": None}),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(topic, name, changes, tmp_path):
    first = tiny_training("ferero" if topic != "method" else "stch")
    first.step()
    first.save(tmp_path / "training.pt")
    with pytest.raises(InputError, match=rf"(?s)^checkpoint: .* belongs to a run with another {topic}: expected "):
        tiny_training(name, **changes).load(tmp_path / "training.pt")


@pytest.mark.slow
def test_the_gap_goes_where_it_is_wanted():
    start = tiny_training("ls", levels=None, steps=250, every=250)
    start.run()

    def tuned(name, levels):
        model = deepcopy(start.model)
        trajectory = tiny_training(name, levels=levels, model=model, steps=120, every=10, rate=3e-3).run()
        (cpc, zh, en), weights = trajectory.held_out[-1], trajectory.weights[-1]
        return cpc, zh - en, weights[1] - weights[2]

    cpc, usual, _ = tuned("ls", None)
    _, lower, towards_zh = tuned("ferero", Levels(cpc + 1, usual - 0.5))
    _, higher, away = tuned("ferero", Levels(cpc + 1, usual + 0.5))
    assert towards_zh > 0.2
    assert away < -0.2
    assert lower < usual - 0.1
    assert higher > lower + 0.15


def test_the_last_look_at_the_held_out_losses_is_what_the_controller_knows():
    training = tiny_training("ferero", every=4)
    trajectory = training.run()
    assert training.driver._steer.losses.tolist() == pytest.approx(trajectory.held_out[-1])
