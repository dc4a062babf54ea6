"""One loss out of many: when it moves, what it holds, what it refuses, and that training ends where it should."""

from __future__ import annotations

import copy
import io
import math

import pytest
import torch
from torch import nn

import ferero
from ferero.errors import InputError, NonFiniteError, UnknownNameError, UnsupportedError
from ferero.methods import Ferero, FereroSA, Observation
from ferero.methods._ferero_pi import FereroPI
from ferero.preference import Preference, objectives
from ferero.training import Steer

f = objectives("a", "b")
WANTED = Preference(f, [f.a <= 0.5, f.a - f.b == 0.25])
RAY = Preference.ray([1.0, 2.0])


def leaf(*values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype, requires_grad=True)


def snapshot(steer):
    return {name: tensor.clone() for name, tensor in steer.state_dict().items()}


def changed(steer, before):
    return {name for name, tensor in steer.state_dict().items() if not torch.equal(tensor, before[name])}


def losses_of(steps, seed=0):
    return 0.5 + torch.rand(steps, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# what it is -------------------------------------------------------------------------------------------------


def test_it_is_the_weighted_sum_of_the_method():
    steer, method = Steer(WANTED), FereroPI()
    state = method.init(WANTED)
    for row in losses_of(30):
        decision, state = method.update(WANTED, Observation(row), state)
        losses = row.clone().requires_grad_()
        loss = steer(losses)
        loss.backward()
        torch.testing.assert_close(losses.grad, decision.weights)
        assert loss.item() == pytest.approx(float(decision.weights @ row))
        torch.testing.assert_close(steer.weights, decision.weights)
        torch.testing.assert_close(steer.multipliers, decision.multipliers)


def test_no_constraint_and_one_loss():
    steer = Steer(Preference(f))
    assert steer(leaf(1.0, 3.0)).item() == pytest.approx(1.5)  # 3/4 and 1/4
    steer = Steer(Preference.pareto(1))
    assert steer([leaf(2.0)]).item() == pytest.approx(2.0)


def test_it_has_state_but_no_parameters():
    steer = Steer(WANTED)
    assert list(steer.parameters()) == []
    model = nn.ModuleDict({"net": nn.Linear(2, 2), "steer": steer})
    assert any(name.startswith("steer.method_") for name in model.state_dict())
    assert "steer.weights" in model.state_dict()


def test_tensors_lists_and_names_are_the_same():
    steers = [Steer(WANTED) for _ in range(3)]
    for row in losses_of(5):
        values = [row.clone().requires_grad_() for _ in range(3)]
        found = [steers[0](values[0]), steers[1](list(values[1])), steers[2]({"b": values[2][1], "a": values[2][0]})]
        assert found[0].item() == found[1].item() == found[2].item()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_precision(dtype):
    steer = Steer(WANTED)
    losses = leaf(1.0, 0.5, dtype=dtype)
    loss = steer(losses)
    loss.backward()
    assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert losses.grad.dtype == dtype
    steer.half()
    assert steer.weights.dtype == steer.method_logits.dtype == torch.float64
    assert steer.calls.dtype == torch.int64


# when it moves ----------------------------------------------------------------------------------------------


def test_it_moves_only_in_training_with_gradients():
    steer = Steer(WANTED)
    steer(leaf(1.0, 0.5))
    before = snapshot(steer)
    weights = steer.weights.clone()
    with torch.no_grad():
        assert steer(torch.tensor([2.0, 3.0])).item() == pytest.approx(
            float(weights @ torch.tensor([2.0, 3.0]).double())
        )
    with torch.inference_mode():
        steer(torch.tensor([2.0, 3.0]))
    steer.eval()
    assert steer(leaf(2.0, 3.0)).requires_grad
    steer([1.0, 2.0])  # in evaluation nothing needs a graph
    steer({"a": 1.0})
    assert not changed(steer, before)
    steer.train()
    steer(leaf(2.0, 3.0))
    assert {"weights", "method_logits", "record_mean"} <= changed(steer, before)


def test_every_moves_once_per_cycle_on_the_means():
    rows = losses_of(12)
    whole, parts = Steer(WANTED), Steer(WANTED, every=3)
    found = []
    for t, row in enumerate(rows):
        parts(row.clone().requires_grad_())
        found.append(parts.weights.clone())
        if t % 3 == 0:
            whole((rows[0] if t == 0 else rows[t - 3 : t].mean(dim=0)).clone().requires_grad_())
            torch.testing.assert_close(parts.weights, whole.weights)
        else:
            assert torch.equal(found[t], found[t - 1])
    assert parts.report().steps == 4


def test_every_takes_means_over_examples_and_over_those_that_came():
    steer = Steer(WANTED, every=2)
    steer([*leaf(9.0, 9.0)], counts=1)
    steer({"a": leaf(1.0)[0]}, counts={"a": 3})
    steer(leaf(7.0, 7.0))
    assert steer.method_latest.tolist() == pytest.approx([(9.0 + 3.0) / 4, 9.0])


def test_every_keeps_its_phase_when_a_batch_is_skipped():
    """The optimizer counts micro-batches by itself: weights must not change within one of its steps."""
    steer, found = Steer(WANTED, every=2, on_nonfinite="skip"), []
    for t, row in enumerate(losses_of(12)):
        steer((row * math.nan if t == 3 else row).clone().requires_grad_())
        found.append(steer.weights.clone())
    assert all(torch.equal(found[t], found[t + 1]) for t in range(4, 12, 2))


def test_state_is_carried_by_the_state_dict_bit_for_bit():
    rows = losses_of(40)
    for every in (1, 3):
        whole, first = Steer(WANTED, every=every), Steer(WANTED, every=every)
        for t, row in enumerate(rows):
            if t == 20:
                whole.observe(a=0.9)
                first.observe(a=0.9)  # just before saving, as after an evaluation
                buffer = io.BytesIO()
                torch.save(first.state_dict(), buffer)
                buffer.seek(0)
                first = Steer(WANTED, every=every)
                first.load_state_dict(torch.load(buffer, weights_only=True))
            losses = row.clone().requires_grad_(), row.clone().requires_grad_()
            assert torch.equal(whole(losses[0]), first(losses[1])), t
        assert not changed(first, snapshot(whole))
        assert first.correction_offset[0] != 0


@pytest.mark.parametrize("where", ["", "steer."])
def test_the_state_of_another_method_or_version_is_refused(where):
    model = Steer(WANTED) if where == "" else torch.nn.ModuleDict({"steer": Steer(WANTED)})
    state = model.state_dict()
    del state[f"{where}method_before"]
    with pytest.raises(InputError, match="another method or by another version"):
        model.load_state_dict(state)
    state = {name: tensor for name, tensor in state.items() if not name.startswith(f"{where}method_")}
    assert model.load_state_dict(state, strict=False).missing_keys


def test_a_copy_goes_its_own_way():
    steer = Steer(WANTED)
    steer(leaf(1.0, 0.5))
    other, before = copy.deepcopy(steer), snapshot(steer)
    other(leaf(2.0, 0.5))
    assert not changed(steer, before)


def test_reset_forgets_everything():
    steer = Steer(WANTED)
    before = snapshot(steer)
    steer(leaf(1.0, 0.5))
    steer.observe(a=1.0)
    steer(leaf(1.0, 0.5))
    steer.reset()
    assert not changed(steer, before)


# missing losses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["absent", "none", "count", "count of a constant"])
def test_a_missing_loss_holds_weight_and_multiplier(how):
    steer = Steer(Preference(f, [f.a <= 1e-4, f.b <= 2e-4]))  # small, so that absolute bounds would show
    for _ in range(30):
        steer(leaf(1e-3, 1e-3))
    weight, logits = steer.weights[0].item(), steer.method_logits.tolist()
    for _ in range(3):
        b = leaf(1e-3)
        given = {
            "absent": ({"b": b[0]}, None),
            "none": ({"a": None, "b": b[0]}, None),
            "count": ([leaf(math.nan)[0], b[0]], [0, 4]),
            "count of a constant": ({"a": torch.tensor(0.0), "b": b[0]}, {"a": 0}),
        }[how]
        loss = steer(*given)
        loss.backward()
        assert loss.item() == pytest.approx(b.grad.item() * 1e-3)
    assert steer.weights[0].item() == weight
    assert steer.method_logits[0].item() == logits[0]
    assert steer.method_logits[1].item() > logits[1] > 0


def test_a_batch_without_any_loss_can_still_be_differentiated():
    steer = Steer(WANTED)
    steer(leaf(1.0, 0.5))
    weights = steer.weights.clone()
    loss = steer({"a": None})
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(steer.weights, weights)


def circles(x):
    return torch.stack([(x - 1).square().sum(), (x + 1).square().sum()]) / 2


def bumps(x):
    """Concave: `1 - exp(-distance)`."""
    return 1 - torch.exp(-circles(x))


def raised(x):
    """Convex, and never 0."""
    return circles(x) + 0.5


def angle(losses):
    return math.degrees(math.atan2(float(losses[1]), float(losses[0])))


def test_names_in_turn_reach_the_ray():
    steer, seen = Steer(RAY), [0.0, 0.0]
    x = torch.tensor([0.1, -0.1], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([x], lr=0.03)
    for t in range(1000):
        optimizer.zero_grad()
        loss = circles(x)[t % 2]
        seen[t % 2] = loss.item()
        steer({RAY.names[t % 2]: loss}).backward()
        optimizer.step()
    assert abs(angle(seen) - angle([1, 2])) < 0.2


# held-out values and metrics --------------------------------------------------------------------------------


def steered(problem, preference, measure, interval, steps, rate=0.1, start=(0.2, -0.1)):
    """The parameters after training with ``steer.observe(**measure(losses))`` every so many steps."""
    steer = Steer(preference)
    x = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    for t in range(steps):
        losses = problem(x)
        if t % interval == 0:
            steer.observe(**measure(losses.detach()))
        (gradient,) = torch.autograd.grad(steer(losses), x)
        with torch.no_grad():
            x -= rate * gradient
    return x.detach(), steer


@pytest.mark.slow
@pytest.mark.parametrize("interval", [1, 50, 500])
@pytest.mark.parametrize("problem", [circles, bumps])
def test_a_ray_asked_of_held_out_losses(problem, interval):
    def held_out(losses):
        return {"f1": 1.3 * losses[0].item() + 0.05, "f2": 0.9 * losses[1].item()}

    x, steer = steered(problem, RAY, held_out, interval, 1600 if interval == 500 else 700)
    values = held_out(problem(x))
    assert abs(angle(list(values.values())) - angle([1, 2])) < 0.3
    assert steer.losses.tolist() == pytest.approx(list(values.values()), abs=5e-3)
    assert abs(angle(problem(x)) - angle([1, 2])) > 1  # the training losses are elsewhere, as they should be


def test_a_metric_in_other_units():
    """min b subject to 100 a^2 <= 49, where a is what has a gradient."""
    g = objectives("a", "b", measured=("a",))
    preference = Preference(g, [g.a <= 49.0], minimize=g.b)
    x, _ = steered(raised, preference, lambda F: {"a": 100 * F[0].item() ** 2}, 20, 1000)
    assert raised(x)[0].item() == pytest.approx(0.7, rel=0.02)


def test_a_metric_that_is_zero_at_first():
    """min b subject to 4 [a - 0.65]_+ <= 1, begun where a is below 0.65; its elasticity of 3.6 is within the range."""
    g = objectives("a", "b", measured=("a",))
    preference = Preference(g, [g.a <= 1.0], minimize=g.b)

    def measure(losses):
        return {"a": 4 * max(0.0, losses[0].item() - 0.65)}

    x, _ = steered(raised, preference, measure, 20, 1000, rate=0.05, start=(0.9, 0.8))
    assert raised(x)[0].item() == pytest.approx(0.9, rel=0.05)


def test_a_metric_waits_for_its_first_measurement():
    g = objectives("a", "b", measured=("a",))
    steer = Steer(Preference(g, [g.a <= 4.0], minimize=g.b))
    for _ in range(5):
        steer(leaf(100.0, 1.0))
    assert steer.method_logits.item() == steer.method_seen[0].item() == 0
    steer.observe(a=50.0)
    steer(leaf(100.0, 1.0))
    assert steer.method_logits.item() > 0
    assert steer.losses[0].item() == pytest.approx(50.0)


def test_what_is_observed_before_the_first_step_is_not_lost():
    steer = Steer(RAY)
    steer.observe(f1=2.0)
    for _ in range(3):
        steer(leaf(1.0, 1.0))
    assert steer.losses.tolist() == pytest.approx([2.0, 1.0])


def test_observing_changes_nothing_until_the_next_step():
    steer = Steer(RAY)
    steer(leaf(1.0, 1.0))
    before = snapshot(steer)
    steer.observe(f1=2.0)
    assert changed(steer, before) <= {"_extra_state"}  # what waits to be taken in


@pytest.mark.parametrize("every", [1, 2])
def test_what_is_remembered_moves_with_what_is_observed(every):
    """As if all values had been off by as much from the start."""
    preference = Preference(f, [f.a <= 0.5, f.b - f.a == 0.25])
    observed, shifted = Steer(preference, every=every), Steer(preference, every=every)
    rows, offset = losses_of(240), torch.tensor([0.4, 0.0], dtype=torch.float64)
    for t, row in enumerate(rows):
        if t == 200:
            observed.observe(a=observed.losses[0] + 0.4)
        observed(row.clone().requires_grad_())
        shifted((row + offset).requires_grad_())
        if t >= 202:
            for one, other in zip(observed.report().constraints, shifted.report().constraints, strict=True):
                if one.saturated == other.saturated:  # which is the method's word, and not the record's
                    assert one.status == other.status
                for figure in ("value", "standard_error", "allowed", "swing", "trend"):
                    assert getattr(one, figure) == pytest.approx(getattr(other, figure), rel=1e-6, abs=1e-9), figure


def test_the_verdict_on_a_metric_begins_with_its_first_measurement():
    g = objectives("a", "b", measured=("a",))
    steer = Steer(Preference(g, [g.a <= 4.0], minimize=g.b))
    for row in losses_of(50):
        steer(row.clone().requires_grad_())
    steer.observe(a=50.0)
    steer(leaf(1.0, 1.0))
    (row,) = steer.report().constraints
    assert row.value == pytest.approx(steer.losses[0].item() - 4.0)
    assert row.trend == 0  # nothing of the surrogate's own units is left
    assert row.status == "not_met"


# refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"preference": Preference.stack([RAY, RAY])}, InputError, r"preference: expected a single one, found a stack"),
        ({"preference": "f1 <= 1"}, InputError, r"preference: expected a Preference, found str"),
        ({"every": 0}, InputError, r"every: expected a number of micro-batches >= 1, found 0"),
        ({"every": 1.5}, InputError, r"every: expected a number of micro-batches >= 1, found 1\.5"),
        ({"every": math.inf}, InputError, r"every: expected a number of micro-batches >= 1, found inf"),
        ({"every": "2"}, InputError, r"every: expected a number of micro-batches >= 1, found '2'"),
        ({"on_nonfinite": "ignore"}, InputError, r"on_nonfinite: expected \"raise\" or \"skip\", found 'ignore'"),
        ({"method": Ferero()}, UnsupportedError, r"method: Ferero also reads gramian, which a loss function cannot"),
        ({"method": FereroSA()}, UnsupportedError, r"method: FereroSA also reads slopes"),
        ({"method": FereroPI}, InputError, r"method: expected .*FereroPI\(\)"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(arguments, kind, words):
    with pytest.raises(kind, match=words):
        Steer(**{"preference": RAY, **arguments})


@pytest.mark.parametrize(
    ("losses", "kind", "words"),
    [
        (torch.ones(2), InputError, r"losses: 'f1' is not attached to the graph"),
        ({"f1": leaf(1.0)[0], "f2": 1.0}, InputError, r"'f2' is not attached .* steer\.observe\(f2=\.\.\.\)"),
        (leaf(1.0, 2.0, 3.0), InputError, r"losses: expected shape \(2,\), one number for each of .*found \(3,\)"),
        ({"f22": leaf(1.0)[0]}, UnknownNameError, r"losses: there is no loss 'f22'; did you mean 'f2'\?"),
        (leaf(math.nan, 1.0), NonFiniteError, r"losses: f1 not finite; nothing was updated\. .*on_nonfinite=\"skip\""),
        (leaf(math.inf, -math.inf), NonFiniteError, r"losses: f1, f2 not finite"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("every", [1, 2])
def test_bad_losses_are_refused_and_nothing_is_half_updated(losses, kind, words, every):
    steer = Steer(RAY, every=every)
    for row in losses_of(3):
        steer(row.requires_grad_())
    before = snapshot(steer)
    with pytest.raises(kind, match=words):
        steer(losses)
    assert not changed(steer, before)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_skipping_leaves_no_gradient_and_no_trace(value):
    steer = Steer(RAY, on_nonfinite="skip")
    steer(leaf(1.0, 2.0))
    before, losses = snapshot(steer), leaf(value, 1.0)
    loss = steer(losses)
    loss.backward()
    assert loss.item() == 0
    assert losses.grad is None
    assert changed(steer, before) == {"record_skipped"}


@pytest.mark.parametrize(
    ("measured", "kind", "words"),
    [
        ({"f22": 1.0}, UnknownNameError, r"there is no loss 'f22'; did you mean 'f2'"),
        ({"f1": math.nan}, NonFiniteError, r"observe: expected finite numbers, found \{'f1': nan\}; leave out"),
        ({"f1": "good"}, InputError, r"expected a scalar for 'f1', found str"),
        ({"f1": torch.ones(2)}, InputError, r"expected one real number for 'f1', found shape \(2,\)"),
    ],
)  # fmt: skip
def test_bad_measurements_are_refused(measured, kind, words):
    steer = Steer(RAY)
    before = snapshot(steer)
    with pytest.raises(kind, match=words):
        steer.observe(**measured)
    assert not changed(steer, before)


# what a new user tried ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [("b", "a"), ("en", "zh"), ("a", "b", "c")])
def test_a_state_of_other_losses_is_refused(names):
    f, g = ferero.objectives("a", "b"), ferero.objectives(*names)
    saved = Steer(ferero.Preference(f, [f.a <= 0.5]))
    saved(leaf(1.0, 100.0))
    with pytest.raises((ferero.FereroError, RuntimeError), match=r"saved by a Steer of other losses|size mismatch"):
        Steer(ferero.Preference(g, [g[0] <= 0.5])).load_state_dict(saved.state_dict())


@pytest.mark.parametrize(
    "others",
    [
        lambda f: [f.b <= 0.7, f.a <= 0.5],
        lambda f: [f.a >= 0.5, f.b <= 0.7],
        lambda f: [f.a == 0.5, f.b <= 0.7],
        lambda f: [f.a <= 0.5],
    ],
    ids=["another order", "another side", "an equality", "one less"],
)
def test_a_state_of_other_constraints_is_refused(others):
    f = ferero.objectives("a", "b")
    saved = Steer(ferero.Preference(f, [f.a <= 0.5, f.b <= 0.7]))
    saved(leaf(1.0, 100.0))
    with pytest.raises(
        (ferero.FereroError, RuntimeError), match=r"saved by a Steer of other constraints|size mismatch"
    ):
        Steer(ferero.Preference(f, others(f))).load_state_dict(saved.state_dict())


def test_levels_and_rays_may_change_between_runs():
    f = ferero.objectives("a", "b")
    saved = Steer(ferero.Preference(f, [f.a <= 0.5, f.b <= 0.7]))
    saved(leaf(1.0, 100.0))
    Steer(ferero.Preference(f, [f.a <= 0.4, f.b <= 0.8])).load_state_dict(saved.state_dict())
    of_a_ray = Steer(ferero.Preference.ray([1.0, 2.0, 3.0]))
    Steer(ferero.Preference.ray([3.0, 1.0, 2.0])).load_state_dict(of_a_ray.state_dict())


@pytest.mark.parametrize("method", ["FereroPI", 2])
def test_what_is_no_method_is_refused(method):
    with pytest.raises(InputError, match=r"method: expected a method such as ferero\.FereroPI\(\), found"):
        Steer(RAY, method)


def test_the_report_knows_what_was_just_observed():
    f = ferero.objectives("a", "b")
    steer = Steer(ferero.Preference(f, [f.a <= 0.5]))
    for _ in range(50):
        steer(leaf(0.2, 1.0))
    assert steer.report().status == "met"
    steer.observe(a=0.9)
    assert steer.report().constraints[0].value == pytest.approx(0.4)
    assert steer.report().losses["a"] == pytest.approx(0.9)
    assert steer.metrics()["ferero/violation/a_le_0.5"] == pytest.approx(0.4)


def test_a_minimised_loss_that_never_arrives_is_named():
    f = ferero.objectives("a", "b")
    steer = Steer(ferero.Preference(f, [f.a <= 1.5]))
    steer({"a": leaf(1.0)[0]})
    assert steer.report().status == "not_met"
    assert "b has not arrived yet" in steer.report().advice
    assert math.isnan(steer.metrics()["ferero/loss/b"])
    assert "subject to a <= 1.5" in repr(steer)


def test_metrics_name_what_they_measure():
    f = ferero.objectives("a", "b")
    steer = Steer(ferero.Preference(f, [f.a <= 0.5, f.b <= 0.1]))
    for _ in range(20):
        steer(leaf(1.0, 3.0))
    found = steer.metrics()
    assert [found["ferero/loss/a"], found["ferero/loss/b"]] == pytest.approx([1.0, 3.0])
    weights, multipliers = steer.weights.tolist(), steer.multipliers.tolist()
    assert weights[0] != pytest.approx(weights[1])
    assert [found["ferero/weight/a"], found["ferero/weight/b"]] == weights
    assert [found["ferero/multiplier/a_le_0.5"], found["ferero/multiplier/b_le_0.1"]] == multipliers[2:]
    assert found["ferero/violation/b_le_0.1"] == pytest.approx(2.9)
