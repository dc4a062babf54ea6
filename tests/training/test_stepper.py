"""The step: what the method is told, what the optimizer gets, what is refused, and what stays as it was."""

from __future__ import annotations

import copy
import io
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import nn

import ferero
from ferero.errors import InputError, NonFiniteError, UnknownNameError, UnsupportedError
from ferero.methods import Decision, Ferero, FereroPI, FereroSA, Observation
from ferero.training._stepper import Stepper

f = ferero.objectives("a", "b", "c")
PREFERENCE = ferero.Preference(f, [f.c <= 0.25, f.a - f.b == 0.05])
KINDS = ["realized", "forward", "jacobian"]
TARGET = torch.tensor([1.0, -1.0, 0.5], dtype=torch.float64)


class Net(nn.Module):
    def __init__(self, dropout=0.0, norm=True):
        super().__init__()
        self.trunk, self.drop = nn.Linear(4, 6), nn.Dropout(dropout)
        self.norm = nn.BatchNorm1d(6) if norm else nn.Identity()
        self.heads = nn.Linear(6, 3)

    def forward(self, x):
        return self.heads(torch.tanh(self.norm(self.drop(self.trunk(x)))))


def losses_of(model, x):
    return (model(x) - TARGET.to(x)).square().mean(dim=0)


def batch(seed, n=16):
    return torch.randn(n, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def make(method=None, preference=PREFERENCE, lr=0.05, momentum=0.9, dropout=0.0, norm=True, **how):
    torch.manual_seed(0)
    model = Net(dropout, norm).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    how = {"loss_fn": losses_of} | how
    loss_fn = how.pop("loss_fn")
    return Stepper(
        model, loss_fn, preference, optimizer, method=FereroSA(gamma=0.1) if method is None else method, **how
    )


def everything(stepper):
    """All that a step changes."""
    state = {f"model.{k}": v.clone() for k, v in stepper.model.state_dict().items()}
    state |= {f"memory.{k}": v.clone() for k, v in stepper._controller.named_buffers()}
    for i, moments in enumerate(stepper.optimizer.state.values()):
        state |= {f"optimizer.{i}.{k}": v.clone() for k, v in moments.items() if isinstance(v, torch.Tensor)}
    return state


def differing(one, other):
    assert one.keys() == other.keys()
    return {name for name in one if not torch.equal(one[name], other[name])}


@dataclass(frozen=True)
class Spy:
    """Fixed weights, and a note of what was observed."""

    requires: ClassVar[frozenset[str]] = frozenset({"losses", "slopes"})
    has_merit: ClassVar[bool] = False
    weights: tuple[float, ...] = (0.5, 0.2, 0.3)
    seen: tuple[list, ...] = ([],)

    def understands(self, preference):
        return None

    def init(self, preference):
        return SpyState(torch.zeros((), dtype=torch.float64))

    def update(self, preference, observation, state):
        parts = (observation.losses, observation.gramian, observation.slopes)
        self.seen[0].append(Observation(*(None if part is None else part.clone() for part in parts)))
        weights = torch.tensor(self.weights, dtype=observation.losses.dtype)
        return Decision(weights), SpyState(state.steps + 1)


@dataclass(frozen=True)
class SpyState:
    steps: torch.Tensor


@dataclass(frozen=True)
class GramianSpy(Spy):
    requires: ClassVar[frozenset[str]] = frozenset({"losses", "gramian"})


def spy(**how):
    return Spy(seen=([],), **how)


# what the method is told -------------------------------------------------------------------------------------


def test_losses_of_the_first_half_and_slopes_of_the_second():
    method = spy()
    stepper = make(method, momentum=0.0, norm=False)
    x, before = batch(0), copy.deepcopy(stepper.model)
    out = stepper.step(x)
    torch.testing.assert_close(out.losses, losses_of(before, x[:8]))
    stepper.step(batch(1))
    first, second = method.seen[0]
    assert first.slopes.tolist() == [0, 0, 0]
    torch.testing.assert_close(first.losses, losses_of(before, x[:8]).detach())
    (torch.tensor(method.weights, dtype=torch.float64) * losses_of(before, x[:8])).sum().backward()
    after = copy.deepcopy(before)
    with torch.no_grad():
        for p, q in zip(after.parameters(), before.parameters(), strict=True):
            p.sub_(0.05 * q.grad)
        expected = (losses_of(after, x[8:]) - losses_of(before, x[8:])) / 0.05
    torch.testing.assert_close(second.slopes, expected)


@pytest.mark.parametrize("kind", ["forward", "jacobian"])
def test_infinitesimal_slopes_are_along_the_gradient_before_clipping(kind):
    method = spy()
    stepper = make(method, slopes=kind, clip_norm=1e-3)
    x, model = batch(0), copy.deepcopy(stepper.model)
    stepper.step(x)
    stepper.step(x)
    weights = torch.tensor(method.weights, dtype=torch.float64)
    gradient = torch.autograd.grad((weights * losses_of(model, x[:8])).sum(), list(model.parameters()))
    expected = []
    for i in range(3):
        rows = torch.autograd.grad(losses_of(model, x[8:])[i], list(model.parameters()), allow_unused=True)
        expected.append(-sum((r * g).sum() for r, g in zip(rows, gradient, strict=True) if r is not None))
    torch.testing.assert_close(method.seen[0][1].slopes, torch.stack(expected), rtol=1e-10, atol=1e-12)


def test_forward_and_jacobian_train_alike():
    runs = [make(slopes=kind) for kind in ("forward", "jacobian")]
    for t in range(10):
        for stepper in runs:
            stepper.step(batch(t))
    for one, other in zip(*(run.model.state_dict().values() for run in runs), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_realized_slopes_tend_to_infinitesimal_ones():
    found = {}
    for kind, lr in (("forward", 1e-6), ("realized", 1e-4), ("realized", 1e-6)):
        method = spy()
        stepper = make(method, slopes=kind, lr=lr, momentum=0.0)
        stepper.step(batch(0))
        stepper.step(batch(1))
        found[kind, lr] = method.seen[0][1].slopes
    exact = found["forward", 1e-6]
    far, near = (float((found["realized", lr] - exact).norm() / exact.norm()) for lr in (1e-4, 1e-6))
    assert near < 1e-4
    assert near < 0.1 * far


def test_a_step_size_of_ones_own():
    found = []
    for how in ({}, {"step_size": 0.1}):
        method = spy()
        stepper = make(method, **how)
        stepper.step(batch(0))
        stepper.step(batch(1))
        found.append(method.seen[0][1].slopes)
    torch.testing.assert_close(found[0], 2 * found[1])


def test_a_learning_rate_of_zero():
    method = spy()
    stepper = make(method, lr=0.0)
    stepper.step(batch(0))
    stepper.step(batch(0))
    assert method.seen[0][1].slopes.tolist() == [0, 0, 0]


def test_a_twin_and_a_splitter_and_halves_are_the_same():
    runs = [make(), make(), make(split=lambda x: (x[:8], x[8:]))]
    for t in range(5):
        x = batch(t)
        runs[0].step(x)
        runs[1].step(x[:8], twin=x[8:])
        runs[2].step(x)
    assert differing(everything(runs[0]), everything(runs[1])) == set()
    assert differing(everything(runs[0]), everything(runs[2])) == set()


def test_without_double_sampling_slopes_are_of_the_same_batch():
    method = spy()
    stepper = make(method, slopes="jacobian", double_sampling=False, norm=False)
    x, model = batch(0), copy.deepcopy(stepper.model)
    out = stepper.step(x)
    stepper.step(x)
    torch.testing.assert_close(out.losses, losses_of(model, x))
    K = gramian_of(model, x)
    torch.testing.assert_close(method.seen[0][1].slopes, -K @ torch.tensor(method.weights, dtype=torch.float64))


def gramian_of(model, x):
    rows = []
    for i in range(3):
        found = torch.autograd.grad(losses_of(model, x)[i], list(model.parameters()))
        rows.append(torch.cat([g.flatten() for g in found]))
    J = torch.stack(rows)
    return J @ J.mT


@pytest.mark.parametrize("chunk", [1, 3])
def test_gramian_methods_see_the_whole_batch_and_step_along_the_weighted_gradient(chunk):
    method = GramianSpy(seen=([],))
    stepper = make(method, momentum=0.0, norm=False, chunk=chunk)
    x, model = batch(0), copy.deepcopy(stepper.model)
    stepper.step(x)
    torch.testing.assert_close(method.seen[0][0].gramian, gramian_of(model, x))
    (torch.tensor(method.weights, dtype=torch.float64) * losses_of(model, x)).sum().backward()
    for p, q in zip(stepper.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(p, q - 0.05 * q.grad)


def test_methods_of_values_see_the_whole_batch():
    stepper = make(FereroPI())
    x, model = batch(0), copy.deepcopy(stepper.model)
    torch.testing.assert_close(stepper.step(x).losses, losses_of(model, x))


def test_the_same_as_steering_by_hand():
    stepper = make(FereroPI(), norm=False)
    model, steer = copy.deepcopy(stepper.model), ferero.Steer(PREFERENCE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for t in range(10):
        out = stepper.step(batch(t))
        optimizer.zero_grad()
        steer(losses_of(model, batch(t))).backward()
        optimizer.step()
        torch.testing.assert_close(out.weights, steer.weights, rtol=1e-12, atol=0)
    for p, q in zip(stepper.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-14)
    assert stepper.report().constraints == steer.report().constraints


@pytest.mark.parametrize("method", [FereroSA(gamma=0.1), FereroSA(domain="simplex"), Ferero(), FereroPI()])
def test_it_leads_where_the_preference_wants(method):
    preference = ferero.Preference(f, [f.a - f.b == 0.3])
    stepper = make(method, preference, norm=False, lr=0.02)
    for t in range(400):
        out = stepper.step(batch(t, 64))
    assert abs(float(out.losses[0] - out.losses[1]) - 0.3) < 0.12
    assert stepper.report().steps == 400


# what it gives back ------------------------------------------------------------------------------------------


def test_what_comes_back():
    stepper = make()
    for t in range(3):
        out = stepper.step(batch(t))
    assert out.stepped is True
    assert out.skipped is False
    assert out.losses.shape == out.weights.shape == (3,)
    assert not out.losses.requires_grad
    assert out.multipliers.shape == (5,)
    torch.testing.assert_close(out.violation, PREFERENCE.violation(out.losses))
    torch.testing.assert_close(stepper.weights, out.weights)
    torch.testing.assert_close(stepper.multipliers, out.multipliers)
    assert stepper.report().steps == 3
    assert stepper.violation.shape == (2,)
    assert set(stepper.metrics()) == set(ferero.Steer(PREFERENCE).metrics())


def test_what_came_back_does_not_change_later():
    stepper = make()
    out = stepper.step(batch(0))
    before = [out.losses.clone(), out.weights.clone(), out.multipliers.clone()]
    stepper.step(batch(1))
    assert all(torch.equal(a, b) for a, b in zip(before, (out.losses, out.weights, out.multipliers), strict=True))


def test_a_method_without_multipliers():
    stepper = make(spy())
    assert stepper.step(batch(0)).multipliers is None
    assert stepper.multipliers is None
    assert stepper.metrics()["ferero/merit"] < torch.inf


def test_losses_by_name():
    runs = [make(), make(loss_fn=lambda m, x: dict(zip("cba", losses_of(m, x).flip(0), strict=True)))]
    for t in range(3):
        one, other = (run.step(batch(t)) for run in runs)
        torch.testing.assert_close(one.losses, other.losses)
        torch.testing.assert_close(one.weights, other.weights)


def test_a_loss_that_is_missing_at_times():
    calls = []

    def loss_fn(model, x):
        calls.append(0)
        a, b, c = losses_of(model, x)
        return {"a": a, "b": b, "c": None if stepper.report().steps % 2 else c}

    stepper = make(loss_fn=loss_fn)
    for t in range(6):
        stepper.step(batch(t))
    assert stepper._controller.record.seen.tolist() == [6, 6, 3]
    with pytest.raises(InputError, match=r"Ferero needs the gradient of every loss.*found none of c"):
        make(Ferero(), loss_fn=lambda m, x: dict(zip("ab", losses_of(m, x)[:2], strict=True))).step(batch(0))


# frozen, tied, several groups ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [FereroSA(), Ferero()])
@pytest.mark.parametrize("kind", KINDS)
def test_only_the_optimizers_parameters_count(method, kind):
    torch.manual_seed(0)
    model = Net().double()
    model.trunk.bias.requires_grad_(False)
    groups = [{"params": [model.trunk.weight, model.trunk.bias]}, {"params": model.norm.parameters(), "lr": 0.1}]
    optimizer = torch.optim.SGD(groups, lr=0.05)
    before = copy.deepcopy(model.state_dict())
    stepper = Stepper(model, losses_of, PREFERENCE, optimizer, method=method, slopes=kind)
    for t in range(2):
        assert stepper.step(batch(t)).stepped
    moved = {k for k, v in model.named_parameters() if not torch.equal(v, before[k])}
    assert moved == {"trunk.weight", "norm.weight", "norm.bias"}


# beside the training -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_batch_norm_sees_each_example_once(kind):
    stepper, plain = make(slopes=kind), Net().double()
    plain.load_state_dict(stepper.model.state_dict())
    losses_of(plain, batch(0)[:8])
    stepper.step(batch(0))
    assert stepper.model.norm.num_batches_tracked == 1
    torch.testing.assert_close(stepper.model.norm.running_mean, plain.norm.running_mean)
    torch.testing.assert_close(stepper.model.norm.running_var, plain.norm.running_var)


@pytest.mark.parametrize("kind", KINDS)
def test_the_random_stream_goes_on_as_without_a_second_look(kind):
    stepper = make(slopes=kind, dropout=0.5)
    torch.manual_seed(1)
    stepper.step(batch(0))
    found = torch.rand(3)
    torch.manual_seed(1)
    losses_of(stepper.model, batch(0)[:8])
    assert torch.equal(found, torch.rand(3))


def test_dropout_is_the_same_before_and_after():
    method = spy()
    stepper = make(method, dropout=0.5, lr=1e-9, momentum=0.0)
    for t in range(4):
        stepper.step(batch(t))
    assert all(float(seen.slopes.abs().max()) < 100 for seen in method.seen[0])  # else of the order 1 / lr


def test_dropout_differs_from_step_to_step():
    masks = []

    def loss_fn(model, x):
        masks.append(model.drop(torch.ones(32)))
        return losses_of(model, x)

    stepper = make(loss_fn=loss_fn, dropout=0.5)
    for t in range(3):
        stepper.step(batch(t))
    distinct = {tuple(mask.tolist()) for mask in masks}
    assert len(masks) == 9
    assert len(distinct) == 6  # one for training and one for both looks, at each step


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_ambient", [True, False])
def test_autocast_does_not_show_the_weights_from_before_the_step(kind, is_ambient):
    """The loss is the weight itself, which a step moves by 0.5: a stale cast would say that nothing has moved."""
    torch.manual_seed(0)
    model = nn.Linear(1, 2, bias=False)
    nn.init.constant_(model.weight, 8.0)

    def plain(model, x):
        return model(x).mean(dim=0).float()

    def cast(model, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return plain(model, x)

    method, preference = spy(weights=(0.5, 0.5)), ferero.Preference.pareto(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    stepper = Stepper(model, plain if is_ambient else cast, preference, optimizer, method=method, slopes=kind)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_ambient):
        assert torch.is_autocast_cache_enabled()
        outs = [stepper.step(torch.ones(4, 1)) for _ in range(3)]
    assert [out.losses.tolist() for out in outs] == [[8, 8], [7.5, 7.5], [7, 7]]
    assert [seen.slopes.tolist() for seen in method.seen[0]] == [[0, 0], [-0.5, -0.5], [-0.5, -0.5]]


def test_a_cached_cast_would_have_been_wrong():
    """What the test above guards against is real: torch gives back the old losses inside one autocast block."""
    layer = nn.Linear(1, 1, bias=False)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        before = layer(torch.ones(1, 1)).item()
        with torch.no_grad():
            layer.weight += 100
        assert layer(torch.ones(1, 1)).item() == before


def test_buffers_that_are_replaced_and_not_written_to():
    class Counter(Net):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))
            self.register_buffer("late", None)

        def forward(self, x):
            self.seen = self.seen + len(x)
            self.late = torch.ones(2)
            return super().forward(x)

    model = Counter().double()
    stepper = Stepper(model, losses_of, PREFERENCE, torch.optim.SGD(model.parameters(), lr=0.1), method=FereroSA())
    stepper.step(batch(0))
    assert model.seen == 8
    bad = batch(1)
    bad[0] = torch.nan
    with pytest.raises(NonFiniteError):
        stepper.step(bad)
    assert model.seen == 8


# accumulation, clipping, scaling --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [FereroPI(), FereroSA(gamma=0.1), Ferero()])
def test_two_calls_are_one_step_with_one_decision(method):
    parts = make(method, norm=False, accumulate=2)
    for t in range(2):
        x = batch(t, 32)
        quarters = x.split(8)
        first = parts.step(torch.cat([quarters[0], quarters[2]]))
        assert not first.stepped
        last = parts.step(torch.cat([quarters[1], quarters[3]]))
        assert last.stepped
        assert torch.equal(last.weights, first.weights)
    assert parts.report().steps == 2


def test_gradients_and_slopes_of_a_cycle_are_means():
    found = []
    for k in (1, 2):
        method = spy()
        stepper = make(method, norm=False, accumulate=k)
        x = batch(0, 32)
        if k == 1:
            stepper.step(x)
        else:
            for i in (0, 8):
                stepper.step(torch.cat([x[i : i + 8], x[16 + i : 24 + i]]))
        stepper.step(x)
        found.append((method.seen[0][1].slopes, [p.detach().clone() for p in stepper.model.parameters()]))
    torch.testing.assert_close(found[0][0], found[1][0])


@pytest.mark.parametrize("method", [spy(), GramianSpy()])
def test_a_cycle_moves_like_one_batch(method):
    one, two = make(method, norm=False), make(method, norm=False, accumulate=2)
    x, y = batch(0), batch(1)
    if "gramian" in method.requires:
        one.step(torch.cat([x, y]))
    else:
        one.step(torch.cat([x[:8], y[:8]]), twin=torch.cat([x[8:], y[8:]]))
    two.step(x)
    two.step(y)
    for p, q in zip(one.model.parameters(), two.model.parameters(), strict=True):
        torch.testing.assert_close(p, q)


@pytest.mark.parametrize("method", [spy(), GramianSpy()])
def test_clipping(method):
    stepper = make(method, momentum=0.0, clip_norm=1e-3, lr=1.0)
    before = [p.detach().clone() for p in stepper.model.parameters()]
    stepper.step(batch(0))
    moved = torch.cat([(p.detach() - q).flatten() for p, q in zip(stepper.model.parameters(), before, strict=True)])
    assert float(moved.norm()) == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.parametrize("method", [FereroSA(gamma=0.1), Ferero()])
@pytest.mark.parametrize("kind", KINDS)
def test_a_scaler_changes_nothing(method, kind):
    runs = [
        make(method, slopes=kind, scaler=scaler) for scaler in (None, torch.amp.GradScaler("cpu", init_scale=256.0))
    ]
    for t in range(6):
        for stepper in runs:
            assert stepper.step(batch(t)).stepped
    one, other = (everything(stepper) for stepper in runs)
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("method", [FereroSA(gamma=0.1), Ferero()])
def test_what_the_scaler_skips_changes_nothing(method):
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=10**6)
    stepper = make(method, scaler=scaler)
    stepper.model.float()
    before, scale = everything(stepper), scaler.get_scale()
    out = stepper.step(batch(0).float())
    assert out.skipped is True
    assert out.stepped is False
    assert differing(before, everything(stepper)) == {"memory.record_skipped"}
    assert scaler.get_scale() == scale / 2
    for t in range(40):
        stepper.step(batch(t).float())
    assert stepper.step(batch(0).float()).stepped


def test_a_scaler_survives_an_error():
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)

    def loss_fn(model, x):
        if not torch.is_grad_enabled() and x[0, 0] > 50:
            raise RuntimeError("out of luck")
        return losses_of(model, x)

    stepper, bad = make(scaler=scaler, loss_fn=loss_fn), batch(0)
    bad[8, 0] = 100
    for _ in range(2):
        with pytest.raises(RuntimeError, match="out of luck"):
            stepper.step(bad)
    assert stepper.step(batch(1)).stepped


# what is not finite ----------------------------------------------------------------------------------------------


def spoiled(where):
    x = batch(9)
    x[0 if where == "first" else -1] = torch.nan
    return x


def with_bad_gradient(model, x):
    losses = losses_of(model, x)
    bad = (model.heads.bias.sum() * 0).sqrt() * 0 if x[0, 0] > 50 else 0  # 0, with a NaN as its gradient
    return losses + bad


METHODS = [FereroSA(gamma=0.1), Ferero(), FereroPI()]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("reaction", ["raise", "skip"])
@pytest.mark.parametrize("case", ["losses", "second half", "gradient", "weights"])
def test_nothing_is_half_updated(method, reaction, case):
    if case == "second half" and "slopes" not in method.requires:
        return
    stepper = make(method, on_nonfinite=reaction, loss_fn=with_bad_gradient)
    for t in range(3):
        stepper.step(batch(t))
    x = spoiled("second" if case == "second half" else "first")
    if case == "gradient":
        x = batch(9)
        x[0, 0] = 100.0
    if case == "weights":
        x = batch(9)
        stepper.method = Breaking(method)
        stepper._controller.method = stepper.method
    before = everything(stepper)
    if reaction == "raise":
        with pytest.raises(NonFiniteError, match=r"nothing was updated.*on_nonfinite=\"skip\""):
            stepper.step(x)
        assert differing(before, everything(stepper)) == set()
    else:
        out = stepper.step(x)
        assert out.skipped is True
        assert out.stepped is False
        assert differing(before, everything(stepper)) == {"memory.record_skipped"}
        assert stepper.report().skipped == 1
    stepper.method = stepper._controller.method = method
    assert stepper.step(batch(4)).stepped


class Breaking:
    def __init__(self, method):
        self.method, self.requires = method, method.requires

    def update(self, preference, observation, state):
        decision, state = self.method.update(preference, observation, state)
        return Decision(decision.weights * torch.nan, decision.multipliers), state


def test_the_names_of_what_is_not_finite():
    stepper = make(loss_fn=lambda m, x: losses_of(m, x) / torch.tensor([1.0, 0.0, 1.0]))
    with pytest.raises(NonFiniteError, match="step: not finite: b; nothing was updated"):
        stepper.step(batch(0))


@pytest.mark.parametrize(("bound", "is_named"), [(None, True), (10.0, False)])
def test_multipliers_without_a_bound_are_named(bound, is_named):
    stepper = make(
        loss_fn=lambda m, x: losses_of(m, x) / torch.tensor([1.0, 0.0, 1.0]), method=ferero.FereroSA(bound=bound)
    )
    with pytest.raises(NonFiniteError) as told:
        stepper.step(batch(0))
    assert ("FereroSA(bound=10.0) stops that" in str(told.value)) == is_named


def test_a_bad_batch_is_left_out_of_its_cycle():
    runs = [make(accumulate=2, on_nonfinite="skip") for _ in range(2)]
    for t in range(4):
        for stepper in runs:
            stepper.step(batch(t))
        if t == 2:
            assert runs[0].step(spoiled("first")).skipped
    assert differing(*(everything(stepper) for stepper in runs)) == {"memory.record_skipped"}


def test_an_error_of_the_model_leaves_everything_as_it_was():
    def loss_fn(model, x):
        losses = losses_of(model, x)
        if x[0, 0] > 50:
            raise RuntimeError("out of luck")
        return losses

    stepper = make(loss_fn=loss_fn, accumulate=2)
    stepper.step(batch(0))
    stepper.step(batch(1))
    before, x = everything(stepper), batch(2)
    stepper.step(batch(3))
    x[0, 0] = 100
    with pytest.raises(RuntimeError, match="out of luck"):
        stepper.step(x)
    assert differing(before, everything(stepper)) == set()
    assert all(p.grad is None for p in stepper.model.parameters())


# refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"slopes": "exact"}, InputError, r'slopes: expected one of "realized".*found \'exact\''),
        ({"accumulate": 0}, InputError, "accumulate: expected a whole number >= 1, found 0"),
        ({"chunk": 1.5}, InputError, "chunk: .*found 1.5"),
        ({"clip_norm": -1.0}, InputError, "clip_norm: expected a positive finite number or None, found -1.0"),
        ({"step_size": 0.0}, InputError, "step_size: .*found 0.0"),
        ({"on_nonfinite": "ignore"}, InputError, "on_nonfinite: .*found 'ignore'"),
        ({"split": 2}, InputError, "split: expected a function.*found int"),
        ({"method": FereroSA}, InputError, r"method: expected an instance, found the class; write FereroSA\(\)"),
        ({"method": 3}, InputError, "method: expected a method.*found int"),
        ({"preference": "f.a <= 1"}, InputError, "preference: expected a Preference, found str"),
        ({"preference": ferero.Preference.stack([PREFERENCE, PREFERENCE])}, InputError, "preference: .*stack"),
    ],
)
def test_arguments(how, error, message):
    with pytest.raises(error, match=message):
        make(**how)


def test_models_and_optimizers():
    model = Net().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(InputError, match=r"model: expected a torch\.nn.Module, found function"):
        Stepper(losses_of, losses_of, PREFERENCE, optimizer, method=FereroSA())
    with pytest.raises(InputError, match="optimizer: expected a torch optimizer, found Net"):
        Stepper(model, losses_of, PREFERENCE, model, method=FereroSA())
    model.requires_grad_(False)
    with pytest.raises(InputError, match="optimizer: expected parameters that require a gradient, found none"):
        Stepper(model, losses_of, PREFERENCE, optimizer, method=FereroSA())


def test_metrics_belong_to_steer():
    g = ferero.objectives("ce", "wer", measured=("wer",))
    with pytest.raises(UnsupportedError, match=r"wer can only be measured.*ferero\.Steer"):
        make(preference=ferero.Preference(g, [g.wer <= 0.1]))


def test_batches_and_losses():
    with pytest.raises(InputError, match=r"batch: expected at least two examples.*found 1"):
        make().step(batch(0, 1))
    with pytest.raises(InputError, match="twin: expected None with Ferero, which has no slopes"):
        make(Ferero()).step(batch(0), twin=batch(1))
    with pytest.raises(InputError, match="twin: expected None with double_sampling=False"):
        make(double_sampling=False).step(batch(0), twin=batch(1))
    with pytest.raises(InputError, match=r"losses: expected shape \(3,\)"):
        make(loss_fn=lambda m, x: losses_of(m, x)[:2]).step(batch(0))
    with pytest.raises(UnknownNameError, match="there is no loss 'd'"):
        make(loss_fn=lambda m, x: {"d": losses_of(m, x)[0]}).step(batch(0))
    with pytest.raises(InputError, match="'a' is not attached"):
        make(loss_fn=lambda m, x: losses_of(m, x).detach()).step(batch(0))


# checkpoints --------------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_exact_and_plain():
    stepper = make(dropout=0.3, generator=torch.Generator().manual_seed(5))
    for t in range(5):
        stepper.step(batch(t))
    file = io.BytesIO()
    parts = (stepper.model, stepper.optimizer, stepper)
    torch.save([*(part.state_dict() for part in parts), torch.get_rng_state()], file)
    for t in range(5, 10):
        stepper.step(batch(t))
    file.seek(0)
    *saved, random = torch.load(file, weights_only=True)
    again = make(dropout=0.3, generator=torch.Generator())
    for part, state in zip((again.model, again.optimizer, again), saved, strict=True):
        part.load_state_dict(state)
    torch.set_rng_state(random)
    for t in range(5, 10):
        again.step(batch(t))
    assert differing(everything(stepper), everything(again)) == set()


def test_a_checkpoint_is_a_copy():
    stepper = make()
    stepper.step(batch(0))
    state = stepper.state_dict()
    before = {k: v.clone() for k, v in state["memory"].items()}
    stepper.step(batch(1))
    assert differing(before, state["memory"]) == set()
    assert state["version"] == 3
    assert state["memory"]["has_slopes"] == 1


def test_checkpoints_of_something_else():
    state = make().state_dict()
    g = ferero.objectives("x", "b", "c")
    with pytest.raises(InputError, match=r"expected names \['x', 'b', 'c'\], found \['a', 'b', 'c'\]"):
        make(preference=ferero.Preference(g, [g.c <= 0.25, g.x - g.b == 0.05])).load_state_dict(state)
    with pytest.raises(InputError, match=r"expected rows \[3, 0, 0\], found \[3, 1, 1\]"):
        make(preference=ferero.Preference(f)).load_state_dict(state)
    with pytest.raises(InputError, match="expected method Ferero, found FereroSA"):
        make(Ferero()).load_state_dict(state)
    with pytest.raises(InputError, match="expected version 3, found 2"):
        make().load_state_dict(state | {"version": 2})
    with pytest.raises(InputError, match=r"expected what Stepper\.state_dict"):
        make().load_state_dict({})
    with pytest.raises(InputError, match="saved with none as generator="):
        make(generator=torch.Generator()).load_state_dict(state)
    broken = state | {"memory": state["memory"] | {"slopes": torch.zeros(4)}}
    with pytest.raises(InputError, match=r"expected slopes of shape \(3,\), found \(4,\)"):
        make().load_state_dict(broken)


def test_no_checkpoint_in_the_middle_of_a_cycle():
    stepper = make(accumulate=2)
    stepper.step(batch(0))
    with pytest.raises(InputError, match=r"found 1 of 2 calls; save after a step whose out\.stepped"):
        stepper.state_dict()
    stepper.step(batch(1))
    assert stepper.state_dict()["version"] == 3


def test_the_generator_draws_other_halves_each_time():
    runs = [make(generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    outs = [[run.step(batch(t)).losses for t in range(2)] for run in runs]
    assert all(torch.equal(a, b) for a, b in zip(outs[0], outs[1], strict=True))
    assert not torch.equal(outs[0][0], outs[2][0])
