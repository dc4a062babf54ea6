"""Whatever a training loop does around it: precision, compilation, accumulation, copies, checkpoints."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn

import ferero
from ferero.errors import NonFiniteError

f = ferero.objectives("a", "b", "c")
PREFERENCE = ferero.Preference(f, [f.c <= 0.25, f.a - f.b == 0.05])


class Model(nn.Module):
    """Three regressions on a shared layer, steered inside or outside."""

    def __init__(self, inside=True, **how):
        super().__init__()
        torch.manual_seed(0)
        self.trunk, self.heads = nn.Linear(6, 8), nn.Linear(8, 3)
        self.inside, self.steer = inside, ferero.Steer(PREFERENCE, **how)

    def losses(self, x):
        y = torch.stack([torch.sin(x[:, i] + i) + 0.5 * x[:, i + 1] for i in range(3)], dim=1)
        return (self.heads(torch.tanh(self.trunk(x))).float() - y).square().mean(dim=0)

    def forward(self, x):
        return self.steer(self.losses(x)) if self.inside else self.losses(x)

    def loss(self, x):
        return self(x) if self.inside else self.steer(self(x))


def batch(step):
    return torch.randn(16, 6, generator=torch.Generator().manual_seed(step))


def train(model, steps=range(20), loss=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in steps:
        (model.loss(batch(step)) if loss is None else loss(batch(step))).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def state_of(module):
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def differing(one, other):
    assert one.keys() == other.keys()
    return {name for name in one if not torch.equal(one[name], other[name])}


def are_wide(steer):
    return all(b.dtype == torch.float64 for b in steer.buffers() if b.is_floating_point())


# precision -------------------------------------------------------------------------------------------------


def test_bfloat16_autocast():
    model, plain = Model(), train(Model())

    def loss(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model.loss(x)

    train(model, loss=loss)
    assert are_wide(model.steer)
    assert torch.allclose(model.steer.weights, plain.steer.weights, atol=0.05)


def test_the_controller_itself_is_not_autocast():
    losses = torch.rand(30, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    plain, cast = ferero.Steer(PREFERENCE), ferero.Steer(PREFERENCE)
    for row in losses:
        plain(row)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            cast(row)
    assert differing(state_of(plain), state_of(cast)) == set()


def test_half_precision_losses_are_tracked_wider():
    steer = ferero.Steer(PREFERENCE)
    losses = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float16, requires_grad=True)
    loss = steer(losses * 1)
    loss.backward()
    assert loss.dtype == torch.float32
    assert losses.grad.dtype == torch.float16
    assert are_wide(steer)


def test_grad_scaler():
    scaler, model, plain = torch.amp.GradScaler("cpu", init_scale=2.0**8), Model(), train(Model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(20):
        scaler.scale(model.loss(batch(step))).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1e6)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    assert scaler.is_enabled()
    for name, tensor in plain.state_dict().items():
        assert torch.allclose(tensor.double(), model.state_dict()[name].double(), rtol=1e-4, atol=1e-5), name


def test_grad_scaler_with_float16():
    scaler, model = torch.amp.GradScaler("cpu"), Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(20):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = model.loss(batch(step))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    shares = [one.steer.weights / one.steer.weights.sum() for one in (model, train_plainly(20))]
    assert torch.allclose(*shares, atol=0.05)


def train_plainly(steps):
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        optimizer.zero_grad()
        model.loss(batch(step)).backward()
        optimizer.step()
    return model


@pytest.mark.parametrize("change", [nn.Module.half, nn.Module.bfloat16, nn.Module.float, lambda m: m.to(torch.half)])
def test_a_narrow_model_keeps_a_wide_state(change):
    model = train(Model())
    before = state_of(model.steer)
    change(model)
    assert differing(before, state_of(model.steer)) == set()
    assert are_wide(model.steer)


def test_from_the_meta_device():
    with torch.device("meta"):
        model = Model()
    model.to_empty(device="cpu")
    assert differing(state_of(model.steer), state_of(ferero.Steer(PREFERENCE))) == set()


# compilation -----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
)  # dynamo looks at it
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiled(inside, backend):
    torch.compiler.reset()
    plain, model, graphs = train(Model(inside)), Model(inside), []
    compiled = torch.compile(model, backend=backend)

    def loss(x):
        graphs.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
        return compiled(x) if inside else model.steer(compiled(x))

    train(model, loss=loss)
    assert graphs[2] == graphs[-1] > 0
    for name, tensor in plain.state_dict().items():
        assert torch.allclose(tensor.double(), model.state_dict()[name].double(), rtol=1e-4, atol=1e-5), name


@pytest.mark.parametrize("how", ["raise", "skip"])
def test_compiled_and_not_finite(how):
    torch.compiler.reset()
    model = train(Model(on_nonfinite=how))
    compiled, before = torch.compile(model, backend="eager"), state_of(model)
    bad = torch.full((16, 6), torch.nan)
    if how == "raise":
        with pytest.raises(NonFiniteError, match="nothing was updated"):
            compiled(bad)
    else:
        compiled(bad).backward()
        assert not any(parameter.grad is not None and parameter.grad.isnan().any() for parameter in model.parameters())
    assert differing(before, state_of(model)) == ({"steer.record_skipped"} if how == "skip" else set())


# accumulation ----------------------------------------------------------------------------------------------


def test_every_two_moves_once_for_two_batches_on_their_mean():
    """Weights hold for two calls, then move by the mean of the two; a steer of its own sees exactly those means."""
    rows = torch.rand(9, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    steer, reference = ferero.Steer(PREFERENCE, every=2), ferero.Steer(PREFERENCE)
    reference(rows[0])
    for step in range(4):
        steer(rows[2 * step])
        assert torch.equal(steer.weights, reference.weights)
        steer(rows[2 * step + 1])
        assert torch.equal(steer.weights, reference.weights)
        reference(rows[2 * step : 2 * step + 2].mean(dim=0))
    assert steer.calls == 8


def test_micro_batches_are_weighed_by_their_counts():
    rows = torch.rand(3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    steer = ferero.Steer(PREFERENCE, every=2)
    for row, count in zip(rows, (1, 3, 1), strict=True):
        steer(row * 1, counts=count)
    assert torch.allclose(steer.record_latest, (rows[0] + 3 * rows[1]) / 4)


def test_gradients_of_micro_batches_are_those_of_the_whole_batch():
    parts, whole = Model(every=2), Model()
    for part in batch(0).chunk(2):
        (parts.loss(part) / 2).backward()
    (whole.losses(batch(0)) @ parts.steer.weights.float()).backward()
    for one, other in zip(parts.parameters(), whole.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad, atol=1e-6)


def test_a_skipped_micro_batch_does_not_shift_the_cycle():
    steer = ferero.Steer(PREFERENCE, every=2, on_nonfinite="skip")
    weights = []
    for step in range(6):
        row = torch.tensor([1.0 + step, 2.0, torch.nan if step == 2 else 1.0], requires_grad=True)
        steer(row * 1)
        weights.append(steer.weights.clone())
    assert torch.equal(weights[2], weights[3])
    assert torch.equal(weights[4], weights[5])
    assert not torch.equal(weights[3], weights[4])


# loops -----------------------------------------------------------------------------------------------------


@pytest.mark.xfail(reason="a - b == 0.05 is 40 % off after 300 steps: both losses fall from 1 to 0.05 meanwhile")
def test_clipping_schedulers_and_two_optimizers():
    model = Model()
    optimizers = [torch.optim.AdamW(model.trunk.parameters(), lr=0.03), torch.optim.SGD(model.heads.parameters(), 0.1)]
    schedulers = [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 300) for optimizer in optimizers]
    for step in range(300):
        model.loss(batch(step)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        for optimizer, scheduler in zip(optimizers, schedulers, strict=True):
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
    assert model.steer.report().status in {"met", "met_within_noise"}
    assert not list(model.steer.parameters())


def test_evaluation_does_not_move_the_state():
    model = train(Model())
    before = state_of(model)
    with torch.no_grad():
        model.loss(batch(0))
    with torch.inference_mode():
        model.loss(batch(0))
    model.eval()
    loss = model.loss(batch(0))
    loss.backward()
    assert differing(before, state_of(model)) == set()
    assert torch.isclose(loss.double(), model.steer.weights @ model.losses(batch(0)).double(), rtol=1e-5)


def test_a_step_between_evaluation_and_its_backward():
    model = train(Model())
    losses = torch.ones(3, dtype=torch.float64, requires_grad=True)
    loss = model.steer.eval()(losses)
    model.steer.train()(losses * 2)
    loss.backward()


# copies and checkpoints ------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_goes_on_alike_and_alone(copied):
    model = train(Model())
    twin, before = copied(model), state_of(model)
    train(twin, range(20, 30))
    assert differing(before, state_of(model)) == set()
    assert differing(state_of(train(model, range(20, 30))), state_of(twin)) == set()


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("assign", [False, True])
def test_state_dict_round_trip(assign):
    model, twin = train(Model()), Model()
    found = twin.load_state_dict(through_a_file(model.state_dict()), strict=True, assign=assign)
    assert not found.missing_keys
    assert not found.unexpected_keys
    assert are_wide(twin.steer)
    assert differing(state_of(train(model, range(20, 30))), state_of(train(twin, range(20, 30)))) == set()


@pytest.mark.parametrize("restored", [copy.deepcopy, "state_dict"])
@pytest.mark.parametrize("every", [1, 2])
def test_an_observation_that_waits_is_saved(restored, every):
    model = train(Model(every=every))
    model.steer.observe(c=0.5)
    if restored == "state_dict":
        twin = Model(every=every)
        twin.load_state_dict(through_a_file(model.state_dict()))
    else:
        twin = restored(model)
    assert differing(state_of(train(model, range(20, 24))), state_of(train(twin, range(20, 24)))) == set()
    assert model.steer.correction_observed.tolist() == [0, 0, 1]


def test_an_observation_before_the_first_step_waits_for_it():
    steer = ferero.Steer(PREFERENCE)
    steer.observe(c=0.5)
    for _ in range(3):
        steer(torch.ones(3, requires_grad=True) * 1)
    assert steer.correction_observed.tolist() == [0, 0, 1]


def test_averaged_models_may_average_buffers():
    model = train(Model())
    average = torch.optim.swa_utils.AveragedModel(model, use_buffers=True)
    for _ in range(2):
        average.update_parameters(model)


# batches that are not finite -------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("how", ["raise", "skip"])
def test_a_batch_that_is_not_finite_changes_nothing(how, every, value):
    model = train(Model(on_nonfinite=how, every=every))
    model.steer.observe(c=0.5)
    before, bad = state_of(model), batch(0)
    bad[0, 0] = value
    if how == "raise":
        with pytest.raises(NonFiniteError, match="nothing was updated"):
            model.loss(bad)
    else:
        model.loss(bad).backward()
        assert all(parameter.grad is None for parameter in model.parameters())
    changed = differing(before, state_of(model)) - {"steer.calls"}
    assert changed == ({"steer.record_skipped"} if how == "skip" else set())


@pytest.mark.parametrize("losses", [{}, {"a": None, "b": None, "c": None}])
def test_a_batch_without_losses_is_no_obstacle(losses):
    steer = ferero.Steer(PREFERENCE)
    steer(losses).backward()
    assert not steer.method_seen.any()
