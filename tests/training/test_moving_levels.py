"""Levels that move with the steps: the controller follows them, and resumes, asks, reports and agrees with them."""

import copy
import io

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import ferero
from ferero import Preference, Steer, cosine, piecewise, ramp
from ferero.methods import Observation
from ferero.methods._channels import channels_of
from ferero.training._distributed import traits_of

f = ferero.objectives("a", "b")
CORNERS = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
FALLING = Preference(f, [f.a <= ramp(0.5, 0.05, steps=600)], minimize=f.b)


class Model(nn.Module):
    def __init__(self, seed=0):
        super().__init__()
        self.x = nn.Parameter(torch.tensor([0.3, 0.7]))

    def forward(self, batch):
        return (self.x - CORNERS).square().sum(dim=-1) * batch


def train(steer, model, steps, noise=0.0, seed=0, after=None):
    draw = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    seen = []
    for _ in range(steps):
        losses = model(1 + noise * torch.randn(2, generator=draw))
        optimizer.zero_grad()
        steer({"a": losses[0], "b": losses[1]}).backward()
        optimizer.step()
        seen.append(losses.detach())
        if after is not None:
            after(steer)
    return torch.stack(seen)


# the level of a step --------------------------------------------------------------------------------------

KINDS = {
    "bound": [f.a <= ramp(1.0, 0.2, steps=20)],
    "bounds": [f.a <= ramp(1.0, 0.2, steps=20), f.b >= cosine(0.1, 0.5, steps=30), f.a + f.b <= 3],
    "band": [abs(f.a - f.b) <= piecewise(1.0, (5, 0.5), (25, 0.1))],
    "sign": [f.a - f.b <= ramp(0.5, -0.5, steps=30)],
    "equality": [f.a - f.b == ramp(0.5, 0.0, steps=30)],
    "both": [f.a - f.b == ramp(0.5, 0.0, steps=30), f.a <= ramp(1.0, 0.2, steps=20)],
}


@pytest.mark.parametrize("minimize", [None, f.b])
@pytest.mark.parametrize("constraints", KINDS.values(), ids=KINDS.keys())
def test_a_step_is_that_of_the_preference_at_its_step(constraints, minimize):
    p, method = Preference(f, constraints, minimize=minimize), ferero.FereroPI()
    if minimize is None and p.m_h:
        p = Preference(f, constraints, minimize=[f.a, f.b])
    draw = torch.Generator().manual_seed(1)
    moving, fixed = method.init(p), method.init(p)
    for t in range(40):
        seen = Observation(torch.rand(2, generator=draw, dtype=torch.float64))
        found, moving = method.update(p, seen, moving)
        if p.m_h and p.at(t).b_h.eq(0).all():
            break  # a fixed level of 0 is a ray, whose weights start in its proportions; one that moves is none
        wanted, fixed = method.update(p.at(t), seen, fixed)
        torch.testing.assert_close(found.weights, wanted.weights, rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(found.multipliers, wanted.multipliers, rtol=1e-8, atol=1e-10)
    assert t >= 30


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_training_follows_the_level(noise):
    steer, model = Steer(FALLING), Model()
    seen = train(steer, model, 300, noise)[:, 0]
    middle = FALLING.constraints[0].schedule.at(300)
    assert 0.75 * middle < seen[-50:].mean() < 1.1 * middle
    train(steer, model, 700, noise, seed=1)
    assert 0.04 < steer.losses[0] < 0.0505
    assert steer.report().status == "met" if noise == 0 else abs(steer.report().constraints[0].value) < 0.005
    assert steer.steps == 1000


def test_micro_batches_count_as_one_step():
    steer, model = Steer(FALLING, every=3), Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for _ in range(10):
        for _ in range(3):
            steer(model(torch.ones(2))).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert steer.steps == 10
    assert steer.report().constraints[0].label.endswith(f"now {FALLING.constraints[0].schedule.at(10):.4g}")


def test_a_batch_that_is_left_out_is_no_step():
    steer, model = Steer(FALLING, on_nonfinite="skip"), Model()
    train(steer, model, 5)
    steer({"a": model.x[0] * float("nan"), "b": model.x[1] ** 2})
    assert steer.steps == 5


def test_units_of_the_losses_do_not_matter():
    scaled = Preference(f, [f.a <= ramp(0.5e6, 0.05e6, steps=60)], minimize=f.b)
    plain = Preference(f, [f.a <= ramp(0.5, 0.05, steps=60)], minimize=f.b)
    draw = torch.Generator().manual_seed(0)
    method, states = ferero.FereroPI(), [ferero.FereroPI().init(p) for p in (plain, scaled)]
    for _ in range(100):
        losses, shares = torch.rand(2, generator=draw, dtype=torch.float64), []
        for i, (p, units) in enumerate(((plain, 1.0), (scaled, 1e6))):
            seen = losses * torch.tensor([units, 1.0], dtype=torch.float64)
            decision, states[i] = method.update(p, Observation(seen), states[i])
            weights = decision.weights * torch.tensor([units, 1.0], dtype=torch.float64)
            shares.append(weights / weights.abs().sum())
        torch.testing.assert_close(*shares, rtol=0, atol=1e-9)


class NoHostSync(TorchDispatchMode):
    """Refuses what reads a value of a tensor on the host."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func is not torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("constraints", KINDS.values(), ids=KINDS.keys())
def test_levels_are_found_without_a_host_sync(constraints):
    channels = channels_of(Preference(f, constraints), torch.device("cpu"), torch.float64)
    with NoHostSync():
        now = channels.at(torch.tensor([4.0, 7.0], dtype=torch.float64))
    wanted = Preference(f, constraints).at(7)
    torch.testing.assert_close(now.rows.b, torch.cat([wanted.b_g, wanted.b_h]))
    with pytest.raises(AssertionError), NoHostSync():
        bool(torch.ones(()))


# reports --------------------------------------------------------------------------------------------------


def test_the_report_says_todays_level_and_is_about_it():
    steer, model = Steer(FALLING), Model()
    train(steer, model, 100)
    row = steer.report().constraints[0]
    assert row.label == "a <= ramp(0.5, 0.05, steps=600), now 0.425"
    assert row.allowed == pytest.approx(0.01 * 0.425)
    assert row.status == "met"
    assert "now 0.425" in str(steer.report())
    violation = steer.metrics()["ferero/violation/a_le_ramp_0.5_0.05_steps_600"]
    assert violation == pytest.approx(max(0.0, float(steer.losses[0]) - 0.425))
    assert float(steer.violation[0]) == violation


def test_what_meets_only_the_first_level_is_not_met_later():
    p = Preference(f, [f.a <= piecewise(10.0, (50, 0.001))])  # together with b out of reach
    steer = Steer(p & Preference(f, [f.b <= 0.3]))
    train(steer, Model(), 40)
    assert steer.report().constraints[0].status == "met"
    train(steer, Model(), 200)
    row = steer.report().constraints[0]
    assert row.status in ("not_met", "saturated")
    assert row.value > 0.01


# state ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [1, 57])
def test_resuming_is_exact(at):
    steer, model = Steer(FALLING), Model()
    train(steer, model, at, noise=0.1)
    file = io.BytesIO()
    torch.save({"steer": steer.state_dict(), "model": model.state_dict()}, file)
    train(steer, model, 100, noise=0.1, seed=5)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    again, resumed = Steer(Preference.parse(str(FALLING), names=f)), Model()
    again.load_state_dict(saved["steer"])
    resumed.load_state_dict(saved["model"])
    train(again, resumed, 100, noise=0.1, seed=5)
    assert torch.equal(resumed.x, model.x)
    assert str(again.report()) == str(steer.report())


def test_asking_for_the_same_level_again_changes_nothing():
    steer, model = Steer(FALLING), Model()
    train(steer, model, 50)
    other, same = copy.deepcopy(steer), copy.deepcopy(model)
    other.ask(Preference(f, [(f.a <= ramp(0.5, 0.05, steps=600)).named("budget")], minimize=f.b))
    assert torch.equal(train(steer, model, 50), train(other, same, 50))
    assert other.report().constraints[0].label.startswith("budget: a <= ramp")
    assert other.report().constraints[0].value == steer.report().constraints[0].value


def test_a_level_that_is_asked_for_may_begin_to_move_then():
    steer, model = Steer(Preference(f, [f.a <= 0.4], minimize=f.b)), Model()
    train(steer, model, 400)
    before = float(steer.report().constraints[0].value)
    steer.ask(Preference(f, [f.a <= ramp(0.4, 0.1, steps=300, after=steer.steps)], minimize=f.b))
    assert steer.report().constraints[0].label.endswith("after=400), now 0.4")
    assert float(steer.report().constraints[0].value) == pytest.approx(before)
    train(steer, model, 500)
    assert 0.08 < steer.losses[0] < 0.101
    steer.ask(Preference(f, [f.a <= 0.2], minimize=f.b))
    assert float(steer.report().constraints[0].value) == pytest.approx(float(steer.losses[0]) - 0.2, abs=0.02)


def test_ranks_with_other_levels_differ():
    method = ferero.FereroPI()
    own, same, other, fixed = (
        traits_of(Preference(f, [f.a <= level]), method, 1, "raise")["other constraints"]
        for level in (ramp(1, 0.2, steps=5), ramp(1.0, 0.2, steps=5), ramp(1, 0.2, steps=6), 0.2)
    )
    assert own == same
    assert len({own, other, fixed}) == 3


# other loops ----------------------------------------------------------------------------------------------


def test_a_stack_equals_single_controllers():
    members = [FALLING, Preference(f, [f.a / f.b <= 0.5]), Preference(f, [f.b >= cosine(0, 1, steps=9), f.a <= 2])]
    together, alone = ferero.Controller(Preference.stack(members)), [ferero.Controller(p) for p in members]
    draw = torch.Generator().manual_seed(0)
    for _ in range(30):
        losses = torch.rand(3, 2, generator=draw, dtype=torch.float64)
        single = torch.stack([controller.step(row) for controller, row in zip(alone, losses, strict=True)])
        torch.testing.assert_close(together.step(losses), single, rtol=1e-9, atol=1e-12)
    for report, controller in zip(together.reports(), alone, strict=True):
        assert [row.label for row in report.constraints] == [row.label for row in controller.report().constraints]


def test_a_front_is_trained_to_the_last_levels():
    preferences = [Preference(f, [f.a <= ramp(0.5, end, steps=300)], minimize=f.b) for end in (0.05, 0.2)]
    front = ferero.train_front(
        Model, lambda model, batch: model(batch), [torch.ones(1)], preferences,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.02), epochs=600,
    )  # fmt: skip
    assert [result.status for result in front] == ["met", "met"]
    assert front.losses[0, 0] < 0.051
    assert 0.15 < front.losses[1, 0] < 0.201


def test_a_stepper_refuses_what_its_method_does_not_follow():
    with pytest.raises(ferero.FereroError, match="FereroSA does not follow levels that move"):
        ferero.Stepper(
            Model(), lambda model, batch: model(batch), FALLING, torch.optim.SGD(Model().parameters(), lr=0.1),
            method=ferero.FereroSA(),
        )  # fmt: skip
