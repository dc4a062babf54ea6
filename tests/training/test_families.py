"""Families of losses in training: how they arrive, what is refused, and what reports and metrics say of them."""

from __future__ import annotations

import copy
import io
import math

import numpy as np
import pytest
import torch

import ferero
from ferero.errors import InputError, NonFiniteError, UnknownNameError
from ferero.training import Controller, Steer

N = 6
f = ferero.objectives("ce", group=N)
PREFERENCE = ferero.Preference(f, [(f.group <= 0.1).named("cap"), f.ce <= 5], minimize=f.ce)
FLAT = ferero.objectives("ce", *(f"g{i}" for i in range(N)))
SPELLED = ferero.Preference(FLAT, [*(FLAT[i + 1] <= 0.1 for i in range(N)), FLAT.ce <= 5], minimize=FLAT.ce)


def values(seed, n=N):
    return torch.rand(n + 1, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def weights_of(steer, x, call):
    x.grad = None
    call(steer).backward()
    return x.grad


def test_a_family_is_its_members_spelled_out():
    one, other = Steer(PREFERENCE), Steer(SPELLED)
    for seed in range(30):
        x = values(seed)
        found = weights_of(one, x, lambda steer, x=x: steer({"ce": x[0] * 1, "group": x[1:] * 1}))
        assert torch.equal(found, weights_of(other, x, lambda steer, x=x: steer(x * 1)))
    assert one.report().status == other.report().status


def by_nan(x, here):
    missing = torch.full((N,), torch.nan, dtype=torch.float64)
    return {"ce": x[0] * 1, "group": torch.where(here, x[1:] * 1, missing)}, {}


def by_counts(x, here):
    return {"ce": x[0] * 1, "group": x[1:] * 1}, {"counts": {"group": here.double()}}


def by_flat_counts(x, here):
    return {"ce": x[0] * 1, "group": x[1:] * 1}, {"counts": [1.0, *here.double().tolist()]}


def by_index(x, here):
    ids = torch.nonzero(here)[:, 0].flip(0)
    return {"ce": x[0] * 1, "group": x[1:][ids]}, {"index": {"group": ids}}


def spelled(x, here):
    return {"ce": x[0] * 1, **{f"g{i}": x[i + 1] * 1 for i in range(N) if here[i]}}, {}


@pytest.mark.parametrize("given", [by_nan, by_counts, by_flat_counts, by_index])
def test_missing_members_are_missing_losses(given):
    one, other = Steer(PREFERENCE), Steer(SPELLED)
    for seed in range(30):
        x, here = values(seed), torch.rand(N, generator=torch.Generator().manual_seed(seed)) < 0.5
        found = []
        for steer, how in ((one, given), (other, spelled)):
            losses, more = how(x, here)
            found.append(weights_of(steer, x, lambda s, losses=losses, more=more: s(losses, **more)))
        assert torch.equal(*found)
        assert not bool(found[0][1:][~here].any())
    assert torch.equal(one.weights, other.weights)
    assert torch.equal(one.record.seen, other.record.seen)


def test_a_family_may_be_absent_and_a_sample_empty():
    steer = Steer(PREFERENCE)
    x = values(0)
    for losses, more in (({"ce": x[0] * 1}, {}), ({"ce": x[0] * 1, "group": x[:0]}, {"index": {"group": []}})):
        assert math.isfinite(steer(losses, **more).item())
    assert steer.record.seen.tolist() == [2.0] + [0.0] * N


def test_there_may_be_families_alone():
    g = ferero.objectives(group=3)
    for constraints in ([g.group <= 0.3], [g.group - g.group.mean() == 0]):
        steer = Steer(ferero.Preference(g, constraints))
        x = torch.rand(3, dtype=torch.float64, requires_grad=True)
        steer({"group": x * 1}, counts=4).backward()
        steer({"group": x[:2] * 1}, counts={"group": 2.0}, index={"group": [2, 0]}).backward()
        assert steer.record.seen.tolist() == [2.0, 1.0, 2.0]
        assert steer.report().families[0].size == 3
        assert Controller(steer.preference).step({"group": [1.0, 2.0, 3.0]})["group"].shape == (3,)


def test_half_precision_and_evaluation():
    steer, x = Steer(PREFERENCE), values(0)
    loss = steer({"ce": x[0] * 1, "group": (x[1:] * 1).to(torch.bfloat16)})
    loss.backward()
    steer.eval()
    before = steer.weights.clone()
    assert torch.isfinite(steer({"ce": x[0], "group": x[1:3]}, index={"group": [0, 5]}))
    assert torch.equal(before, steer.weights)


def test_units_and_order_of_members_do_not_matter():
    """Except for the common factor, which is that of plain training."""
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    factors = torch.cat([torch.ones(1), torch.full((N,), 1000.0)]).double()
    g = ferero.objectives("ce", group=N)
    scaled = ferero.Preference(g, [g.group <= 100.0, g.ce <= 5], minimize=g.ce)
    one, permuted, larger = Steer(PREFERENCE), Steer(PREFERENCE), Steer(scaled)
    for seed in range(40):
        x = values(seed)
        found = weights_of(one, x, lambda s, x=x: s({"ce": x[0] * 1, "group": x[1:] * 1}))
        other = weights_of(permuted, x, lambda s, x=x: s({"ce": x[0] * 1, "group": x[1:][order] * 1}))
        torch.testing.assert_close(found, other, rtol=1e-9, atol=0)
        y = (x.detach() * factors).requires_grad_()
        third = weights_of(larger, y, lambda s, y=y: s({"ce": y[0] * 1, "group": y[1:] * 1})) * factors
        torch.testing.assert_close(found / found[0], third / third[0], rtol=1e-9, atol=0)


def test_a_state_resumes_exactly():
    whole, first = Steer(PREFERENCE), Steer(PREFERENCE)

    def run(steer, seeds):
        found = []
        for seed in seeds:
            ids = torch.randperm(N, generator=torch.Generator().manual_seed(seed))[:3]
            x = values(seed)
            found.append(steer({"ce": x[0] * 1, "group": x[1:][ids]}, index={"group": ids}).item())
        return found

    expected = run(whole, range(40))
    assert run(first, range(20)) == expected[:20]
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = Steer(PREFERENCE)
    second.load_state_dict(torch.load(file))
    assert run(second, range(20, 40)) == expected[20:]


def test_it_trains_to_the_bounds():
    torch.manual_seed(0)
    g = ferero.objectives("ce", group=50)
    steer = Steer(ferero.Preference(g, [g.group <= 0.1], minimize=g.ce))
    theta = torch.rand(50, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([theta], lr=0.01)
    for _ in range(1500):
        ids = torch.randperm(50)[:16]
        loss = steer({"ce": (theta - 1).square().mean(), "group": theta[ids].square()}, index={"group": ids})
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert float(theta.detach().square().max()) < 0.13
    assert float(theta.detach().square().mean()) > 0.05


# what is refused -------------------------------------------------------------------------------------------

THREE = torch.tensor([0.2, 0.3, 0.4])
BAD = {
    "out of range": ({"group": THREE}, {"group": [0, 1, 6]}, InputError, r"members of 'group', from 0 to 5, found 6; "),
    "negative": ({"group": THREE}, {"group": [0, 1, -1]}, InputError, "from 0 to 5, found -1"),
    "repeated": ({"group": THREE}, {"group": [4, 1, 4]}, InputError, "each member of 'group' once.*found 4 more than"),
    "another size": (
        {"group": THREE},
        None,
        InputError,
        r"shape \(6,\) for the family 'group'.*found \(3,\); for some",
    ),
    "lengths": (
        {"group": THREE},
        {"group": [0, 1]},
        InputError,
        r"as many numbers as 'group' has.*\(3,\), found \(2,\)",
    ),
    "no family": ({"group": THREE}, {"ce": [0]}, UnknownNameError, "index: expected the name of a family, found 'ce'"),
    "unknown": ({"group": THREE}, {"grup": [0]}, UnknownNameError, "found 'grup'; did you mean 'group'"),
    "unknown loss": ({"grup": THREE}, None, UnknownNameError, "there is no loss 'grup'; did you mean 'group'"),
    "no values": ({}, {"group": [0]}, InputError, "index: expected values of 'group' beside its index, found none"),
    "fractions": ({"group": THREE}, {"group": [0.0, 1.0, 2.0]}, InputError, "index: expected integers for 'group'"),
    "no mapping": ({"group": THREE}, [0, 1, 2], InputError, "index: expected {family: numbers of its members}"),
    "a matrix": ({"group": THREE[None]}, {"group": [0]}, InputError, r"shape \(k,\), found \(1, 3\)"),
    "infinite": ({"group": THREE / 0}, {"group": [0, 1, 2]}, NonFiniteError, "nothing was updated"),
}


def attached(losses):
    return {name: value.clone().requires_grad_() for name, value in losses.items()} | {"ce": values(0)[0] * 1}


@pytest.mark.parametrize("case", BAD)
def test_a_refused_call_changes_nothing(case):
    losses, index, kind, words = BAD[case]
    steer, controller = Steer(PREFERENCE), Controller(PREFERENCE)
    steer({"ce": values(1)[0], "group": values(1)[1:]})
    controller.step({"ce": 1.0, "group": np.full(N, 0.3)})
    for object_, call in (
        (steer, lambda: steer(attached(losses), index=index)),
        (controller, lambda: controller.step({"ce": 1.0, **losses}, index=index)),
    ):
        before = copy.deepcopy(object_.state_dict())
        with pytest.raises(kind, match=words):
            call()
        after = object_.state_dict()
        assert all(torch.equal(before[name], after[name]) for name in before)


def test_more_that_is_refused():
    steer, controller, x = Steer(PREFERENCE), Controller(PREFERENCE), values(0)
    with pytest.raises(InputError, match="'group' is not attached to the graph"):
        steer({"ce": x[0] * 1, "group": x[1:].detach()})
    with pytest.raises(InputError, match="expected a tensor for the family 'group', found list"):
        steer({"ce": x[0] * 1, "group": [0.1] * N})
    with pytest.raises(InputError, match=r"counts: expected one number for 'group', or one for each of its 6"):
        steer({"ce": x[0] * 1, "group": x[1:] * 1}, counts={"group": torch.ones(3)})
    with pytest.raises(InputError, match="counts: expected finite numbers >= 0 for 'group'"):
        steer({"ce": x[0] * 1, "group": x[1:] * 1}, counts={"group": -torch.ones(N)})
    with pytest.raises(UnknownNameError, match="counts: there is no loss 'grup'"):
        steer({"ce": x[0] * 1, "group": x[1:] * 1}, counts={"grup": 1})
    with pytest.raises(InputError, match="values: expected plain numbers for 'group', found a tensor that needs a gra"):
        controller.step({"ce": 1.0, "group": x[1:] * 1})
    with pytest.raises(InputError, match="index: expected values by name beside it, found a tensor"):
        controller.step(torch.ones(N + 1), index={"group": [0]})
    with pytest.raises(UnknownNameError, match="'group'; the preference has no families"):
        Steer(SPELLED)(x * 1, index={"group": [0]})
    with pytest.raises(NonFiniteError, match=r"found group\[2\] = inf; nothing was updated"):
        controller.step({"ce": 1.0, "group": [0.1, 0.1, np.inf, 0.1, 0.1, 0.1]})


# values without a graph ------------------------------------------------------------------------------------


def test_a_controller_takes_arrays_and_gives_arrays():
    one, other = Controller(PREFERENCE), Controller(SPELLED)
    numbers = values(3).detach().tolist()
    found = one.step({"ce": numbers[0], "group": np.array(numbers[1:])})
    expected = list(other.step(dict(zip(FLAT.names, numbers, strict=True))).values())
    assert [found["ce"], *found["group"]] == expected
    sampled = one.step({"ce": 1.0, "group": [0.3, 0.2]}, index={"group": np.array([5, 0])})
    spelled_out = other.step({"ce": 1.0, "g5": 0.3, "g0": 0.2})
    assert sampled["group"].tolist() == [spelled_out["g5"], spelled_out["g0"]]
    assert one.step({"ce": 1.0, "group": [math.nan] * N})["group"].shape == (N,)


def test_what_is_observed_of_a_family():
    steer = Steer(PREFERENCE)
    x = values(0)
    for _ in range(3):
        steer({"ce": x[0] * 1, "group": x[1:] * 1})
    before = steer.losses.clone()
    held_out = torch.full((N,), torch.nan, dtype=torch.float64)
    held_out[2] = 0.7
    steer.observe(group=held_out)
    assert steer.losses[3].item() == pytest.approx(0.7)
    assert torch.equal(steer.losses[[0, 1, 2, 4, 5, 6]], before[[0, 1, 2, 4, 5, 6]])


# reports and metrics ---------------------------------------------------------------------------------------


def reported(n=100):
    g = ferero.objectives("ce", group=n)
    p = ferero.Preference(g, [(g.group <= 0.1).named("cap"), abs(g.group - g.ce) <= 5, g.ce <= 3], minimize=g.ce)
    steer = Steer(p)
    x = torch.full((n + 1,), 0.05, dtype=torch.float64)
    x[[7, 9, 11, 13]] = torch.tensor([0.4, 0.2, 0.3, 0.15], dtype=torch.float64)
    x.requires_grad_()
    for _ in range(150):
        steer({"ce": x[0] * 1, "group": x[1:] * 1})
    return steer


def test_a_report_shows_the_worst_members_and_a_line_for_all():
    report = reported().report()
    assert [row.label for row in report.constraints if row.label.startswith("cap")] == [
        "cap[6]: group[6] <= 0.1",
        "cap[10]: group[10] <= 0.1",
        "cap[8]: group[8] <= 0.1",
    ]
    assert len(report.constraints) == 3 + 3 + 3 + 1
    cap = report.families[0]
    assert (cap.label, cap.size, cap.met, cap.share_met) == ("cap: group <= 0.1", 100, 96, 0.96)
    assert (cap.worst, cap.status) == ("cap[6]: group[6] <= 0.1", report.status)
    assert cap.value == pytest.approx(0.3)
    assert cap.mean_multiplier > 0
    told = str(report)
    assert "cap: group <= 0.1: 96 of 100 met, 4 not met; the worst is cap[6]: group[6] <= 0.1, off by 0.3 (" in told
    assert "losses: ce 0.05, mean(group) 0.0585, max(group) 0.4\n" in told
    assert len(told.splitlines()) < 20
    assert report.noise.shape == (301,)


def test_metrics_have_a_few_figures_of_a_family():
    metrics = reported().metrics()
    assert metrics["ferero/share_met/cap"] == 0.96
    assert metrics["ferero/violation/cap/max"] == pytest.approx(0.3)
    assert metrics["ferero/multiplier/cap/mean"] > 0
    assert metrics["ferero/loss/group/max"] == pytest.approx(0.4)
    assert metrics["ferero/weight/group/mean"] > 0
    assert {"ferero/violation/ce_le_3", "ferero/loss/ce"} <= metrics.keys()
    assert len(metrics) < 25
    assert metrics["ferero/merit"] == pytest.approx(1 + 0.3 / 0.1)


def test_members_that_never_came_are_counted_in_one_sentence():
    steer = Steer(PREFERENCE)
    x = values(0)
    steer({"ce": x[0] * 1, "group": 0.01 * x[1:3]}, index={"group": [1, 4]})
    report = steer.report()
    assert report.status == "not_met"
    assert report.families[0].met == 2
    assert report.advice.startswith("cap[0]: group[0] <= 0.1: group[0] has not arrived yet: is it in the losses?")
    assert steer.metrics()["ferero/share_met/cap"] == pytest.approx(2 / 6)
    assert steer.metrics()["ferero/merit"] == math.inf


def test_losses_of_a_family_that_nothing_constrains():
    steer = Steer(ferero.Preference(f, minimize=f.ce + f.group.mean()))
    x = values(0)
    steer({"ce": x[0] * 1, "group": x[1:3] * 1}, index={"group": [1, 4]})
    told = steer.report()
    assert (told.status, told.families) == ("not_met", ())
    assert "group[0] has not arrived yet: is it in the losses? The same holds for 3 more of its members." in told.advice


def test_the_rows_that_are_not_shown_are_judged_too():
    from ferero.training._report import judge_losses

    steer = reported()
    measured = steer.losses.clone()
    measured[1:] = 0.05
    assert judge_losses(steer.preference, measured, steer.report())[0] == "met"
    measured[90] = 0.5
    status, advice = judge_losses(steer.preference, measured, steer.report())
    assert status in ("not_met", "saturated")
    assert advice.startswith("cap[89]: group[89] <= 0.1: ")


def test_asking_again_keeps_what_members_have_learned():
    steer = Steer(PREFERENCE)
    for seed in range(20):
        x = values(seed)
        steer({"ce": x[0] * 1, "group": x[1:] * 1})
    logits = steer.state.method.logits.clone()
    steer.ask(ferero.Preference(f, [f.ce <= 4, f.group <= 0.2], minimize=f.ce))
    assert torch.equal(steer.state.method.logits, torch.cat([logits[-1:], logits[:-1]]))


def test_micro_batches_of_samples():
    steer = Steer(PREFERENCE, every=2)
    x = values(0)
    for ids in ([0, 1], [2, 3], [4, 5]):
        steer({"ce": x[0] * 1, "group": x[1:][ids]}, index={"group": ids})
    assert steer.record.seen.tolist() == [
        2.0,
        2.0,
        2.0,
        1.0,
        1.0,
        0.0,
        0.0,
    ]  # the very first batch counts by itself too


# whole steps, and many models ------------------------------------------------------------------------------

FIVE = ferero.objectives("ce", group=5)
BOUNDED = ferero.Preference(FIVE, [FIVE.group <= 0.3], minimize=FIVE.ce)


def by_family(model, x):
    out = model(x)
    return {"ce": (out - 1).square().mean(), "group": out.square().mean(dim=0)}


def flat(model, x):
    losses = by_family(model, x)
    return torch.cat([losses["ce"][None], losses["group"]])


def linear(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Linear(4, 5)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05)


DATA = torch.randn(48, 4, generator=torch.Generator().manual_seed(0))


def test_a_stepper_takes_families():
    weights = []
    for loss_fn in (by_family, flat):
        model = linear()
        method = ferero.FereroSA(gamma=0.01)
        stepper = ferero.Stepper(model, loss_fn, BOUNDED, sgd(model.parameters()), method=method)
        for i in range(6):
            stepper.step(DATA[8 * i : 8 * i + 8])
        weights.append(model.weight.detach())
        assert stepper.report().families[0].size == 5
    assert torch.equal(*weights)


def test_many_models_take_families():
    found = []
    for loss_fn in (by_family, flat):
        front = ferero.train_front(linear, loss_fn, [DATA[:24], DATA[24:]], [BOUNDED], optimizer=sgd, epochs=3)
        found.append(front.losses)
    assert torch.equal(torch.as_tensor(found[0]), torch.as_tensor(found[1]))

    def short(model, x):
        return by_family(model, x) | {"group": model(x).square().mean(dim=0)[:3]}

    with pytest.raises(InputError, match=r"loss_fn: expected shape \(5,\) for the family 'group', .*found \(3,\)"):
        ferero.train_front(linear, short, [DATA], [BOUNDED], optimizer=sgd, epochs=1)
