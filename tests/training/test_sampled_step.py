"""Steps on samples of large families: the law is that of the whole, and what they cost is their own size."""

from __future__ import annotations

import dataclasses
import io
import time

import pytest
import torch

import ferero
from ferero.errors import NonFiniteError, UnsupportedError
from ferero.methods import _sample as sample_module
from ferero.methods._sample import SampledState
from ferero.training import Controller, Steer

N = 7
f = ferero.objectives("ce", group=N, other=N)
KINDS = {
    "bounds": [f.group <= 0.4],
    "both sides": [f.group <= 0.6, f.group >= 0.2, f.ce <= 0.7],
    "pairs": [f.group - f.other <= 0.1, f.other[2] <= 0.5],
    "beside a loss": [f.group <= f.ce + 0.1, f.other <= 0.5],
    "beside a mean": [f.group - f.group.mean() <= 0.1, f.other.mean() <= 0.4],
    "margins": [(f.group <= 0.4).with_margin(1.64), f.other <= 0.6],
}
every_kind = pytest.mark.parametrize("constraints", KINDS.values(), ids=KINDS)
EVERY_ROW = (
    "level",
    "surprise",
    "variance",
    "rate",
    "usual",
    "deviation",
    "swings",
    "jitter",
    "anchor",
    "age",
    "logits",
)
OF_ROWS = (*EVERY_ROW, "updated", "updates", "sizes", "units", "before", "earlier", "seen", "latest", "arrived")


@pytest.fixture
def pair(monkeypatch):
    """A controller that steps on samples, and one that does not, of the same preference."""

    def make(constraints, minimize=f.ce):
        preference = ferero.Preference(f, constraints, minimize=minimize)
        whole = Controller(preference)
        monkeypatch.setattr(sample_module, "LARGE", 0)
        sampled = Controller(preference)
        monkeypatch.undo()
        assert isinstance(sampled.state.method, SampledState)
        assert not isinstance(whole.state.method, SampledState)
        return sampled, whole

    return make


def values(step, noise=0.2):
    generator = torch.Generator().manual_seed(step)
    return 0.5 + noise * torch.randn(2 * N + 1, generator=generator, dtype=torch.float64)


@every_kind
def test_where_all_arrive_it_is_the_law_of_the_whole(pair, constraints):
    sampled, whole = pair(constraints)
    for step in range(60):
        torch.testing.assert_close(sampled.step(values(step)), whole.step(values(step)), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(sampled.multipliers, whole.multipliers, rtol=1e-9, atol=1e-12)
    for name, tensor in whole.state.tensors().items():
        torch.testing.assert_close(sampled.get_buffer(name), tensor, rtol=1e-9, atol=1e-12)
    assert [row.status for row in sampled.report().constraints] == [row.status for row in whole.report().constraints]


@every_kind
def test_rows_learn_from_samples_what_they_learn_in_the_whole(pair, constraints):
    """Only the weights' common factor, the limit and the largest violation are those of the sample."""
    sampled, whole = pair(constraints, minimize=f.ce)
    for step in range(80):
        present = torch.rand(2 * N + 1, generator=torch.Generator().manual_seed(1000 + step)) < 0.4
        found = sampled.step(values(step), present=present)
        whole.step(values(step), present=present)
        assert bool(found.isfinite().all())
    for name in OF_ROWS:
        mine, other = (getattr(one.state.method, name) for one in (sampled, whole))
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12, msg=name)
    for field in dataclasses.fields(whole.record):
        if field.name == "turns":  # in the whole it decays at every step, here at every value
            continue
        mine, other = (getattr(one.record, field.name) for one in (sampled, whole))
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-12, msg=field.name)


def test_steps_on_the_whole_leave_the_sums_for_samples(pair):
    """As on a GPU, where the whole is faster; the state may then move to the CPU."""
    sampled, _ = pair(KINDS["both sides"])
    other, _ = pair(KINDS["both sides"])
    state = other.state.method
    for step in range(10):
        sampled.step(values(step))
        _, state = other.method.update(other.preference, ferero.Observation(values(step)), state)
    for field in dataclasses.fields(state):
        mine, whole = (getattr(one, field.name) for one in (sampled.state.method, state))
        torch.testing.assert_close(mine, whole, rtol=1e-9, atol=1e-12, msg=field.name)


@pytest.mark.parametrize("refresh", [5, 10_000])
def test_running_totals_are_the_sums(pair, monkeypatch, refresh):
    sampled, _ = pair(KINDS["both sides"])
    monkeypatch.setattr(sample_module, "_REFRESH", refresh)
    for step in range(40):
        sampled.step(values(step), present=torch.rand(2 * N + 1, generator=torch.Generator().manual_seed(step)) < 0.3)
    state = sampled.state.method
    bound = torch.tensor([0.6] * N + [0.2] * N + [0.7], dtype=torch.float64).log()
    known = state.updates[1:] > 0
    expected = [
        state.raw.abs().sum(),
        (state.seen > 0).sum(),
        ((state.units[1:] - bound) * known).sum(),
        known.sum(),
        torch.tensor(40),
    ]
    torch.testing.assert_close(state.totals, torch.stack([x.double() for x in expected]), rtol=1e-12, atol=1e-12)


def test_the_order_and_the_units_of_members_do_not_matter(pair):
    order = torch.cat([torch.tensor([0]), 1 + torch.randperm(N), torch.arange(N + 1, 2 * N + 1)])
    one, _ = pair(KINDS["bounds"])
    other, _ = pair(KINDS["bounds"])
    third, _ = pair([f.group <= 400.0])
    units = torch.ones(2 * N + 1, dtype=torch.float64)
    units[1 : N + 1] = 1000.0
    for step in range(40):
        present = torch.rand(2 * N + 1, generator=torch.Generator().manual_seed(step)) < 0.5
        present[0] = True
        found = one.step(values(step), present=present)
        permuted = other.step(values(step)[order], present=present[order])
        torch.testing.assert_close(permuted, found[order], rtol=1e-9, atol=1e-12)
        scaled = third.step(values(step) * units, present=present) * units
        here = present.clone()
        here[N + 1 :] = False
        torch.testing.assert_close((scaled / scaled[0])[here], (found / found[0])[here], rtol=1e-9, atol=1e-12)


def test_what_is_observed_and_what_is_not_finite(pair):
    sampled, whole = pair(KINDS["both sides"])
    for one in (sampled, whole):
        for step in range(5):
            one.step(values(step))
        one.observe(torch.full((2 * N + 1,), 0.7, dtype=torch.float64))
        one.step(values(9))
    torch.testing.assert_close(sampled.losses, whole.losses)
    torch.testing.assert_close(sampled.weights, whole.weights)
    before = {name: tensor.clone() for name, tensor in sampled.state_dict().items()}
    assert not bool(sampled.step(torch.full((2 * N + 1,), torch.nan)).any())
    after = sampled.state_dict()
    assert {name for name in after if not torch.equal(before[name], after[name])} == {"record_skipped"}


def test_a_metric_counts_from_its_first_measurement_on(monkeypatch):
    g = ferero.objectives("ce", rate=3, measured=("rate",))
    preference = ferero.Preference(g, [g.rate <= 0.1], minimize=g.ce)
    whole = Controller(preference)
    monkeypatch.setattr(sample_module, "LARGE", 0)
    sampled = Controller(preference)
    for one in (sampled, whole):
        for _ in range(3):
            one.step({"ce": 1.0, "rate": [0.5, 0.6, 0.7]})
        one.observe({"rate": [0.2, 0.3, 0.4]})
        one.step({"ce": 1.0, "rate": [0.5, 0.6, 0.7]})
    torch.testing.assert_close(sampled.weights, whole.weights)


# large ---------------------------------------------------------------------------------------------------


def large(n=20_000):
    g = ferero.objectives("ce", group=n)
    return ferero.Preference(g, [g.group <= 0.1], minimize=g.ce)


def run(steer, steps, n=20_000):
    found = []
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        ids = torch.randperm(n, generator=generator)[:32]
        x = torch.rand(33, generator=generator, dtype=torch.float64).requires_grad_()
        loss = steer({"ce": x[0] * 1, "group": x[1:] * 1}, index={"group": ids})
        loss.backward()
        found.append((loss.item(), x.grad.tolist()))
    return found


def test_a_large_state_resumes_exactly():
    whole, first = Steer(large()), Steer(large())
    expected = run(whole, range(30))
    assert run(first, range(15)) == expected[:15]
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = Steer(large())
    second.load_state_dict(torch.load(file))
    assert run(second, range(15, 30)) == expected[15:]


def test_what_is_read_of_a_sample_is_what_is_read_of_the_whole():
    """By index, by NaN or by counts; in the graph of each the same weights."""
    n = 5000
    g = ferero.objectives("ce", group=n)
    steers = [Steer(ferero.Preference(g, [g.group <= 0.1], minimize=g.ce)) for _ in range(3)]
    for step in range(6):
        generator = torch.Generator().manual_seed(step)
        x = torch.rand(n + 1, generator=generator, dtype=torch.float64).requires_grad_()
        ids = torch.randperm(n, generator=generator)[:20]
        here = torch.zeros(n).index_fill(0, ids, 1.0)
        ways = (
            ({"ce": x[0] * 1, "group": x[1:][ids]}, {"index": {"group": ids}}),
            ({"ce": x[0] * 1, "group": torch.where(here > 0, x[1:], torch.nan)}, {}),
            ({"ce": x[0] * 1, "group": x[1:] * 1}, {"counts": {"group": here, "ce": 3}}),
        )
        grads = []
        for steer, (losses, more) in zip(steers, ways, strict=True):
            x.grad = None
            steer(losses, **more).backward()
            grads.append(x.grad)
        assert torch.equal(grads[0], grads[1])
        assert torch.equal(grads[0], grads[2])
        assert int((grads[0] != 0).sum()) == 21
    assert torch.equal(steers[0].weights, steers[2].weights)


def test_repeated_calls_on_a_sample_keep_its_weights():
    steer = Steer(large())
    run(steer, range(3))
    x = torch.rand(5, dtype=torch.float64, requires_grad=True)
    optimizer, seen = torch.optim.LBFGS([x], max_iter=4), []

    def closure():
        optimizer.zero_grad()
        loss = steer({"ce": x[0].square(), "group": x[1:].square()}, index={"group": [5, 3, 9, 7]})
        loss.backward()
        seen.append(steer.weights.clone())
        return loss

    optimizer.step(closure)
    assert len(seen) > 1
    assert all(torch.equal(seen[0], other) for other in seen)
    steer.eval()
    assert steer({"ce": x[0], "group": x[1:]}, index={"group": [5, 3, 9, 7]}).item() == pytest.approx(
        float(seen[0][[0, 6, 4, 10, 8]] @ x.detach())
    )
    steer.train()
    with pytest.raises(NonFiniteError, match=r"losses: group\[9\] not finite"):
        steer({"ce": x[0] * 1, "group": x[1:] / torch.tensor([1.0, 1.0, 0.0, 1.0])}, index={"group": [5, 3, 9, 7]})


def test_micro_batches_of_a_large_family():
    steer = Steer(large(), every=2)
    run(steer, range(5))
    assert int(steer.record.arrived.max()) == 3
    assert int((steer.record.seen[1:] > 0).sum()) == pytest.approx(128, abs=2)


def test_a_refused_batch_of_a_large_family_changes_nothing():
    steer = Steer(large(), on_nonfinite="skip")
    run(steer, range(3))
    before = {name: tensor.clone() for name, tensor in steer.state_dict().items()}
    x = torch.tensor([1.0, float("inf")], requires_grad=True)
    steer({"ce": x[0] * 1, "group": x[1:] * 1}, index={"group": [3]})
    after = steer.state_dict()
    assert {name for name in after if not torch.equal(before[name], after[name])} == {"record_skipped"}


def test_one_for_each_of_a_hundred_thousand_examples():
    steer = Steer(large(100_000))
    held = sum(tensor.numel() * tensor.element_size() for tensor in steer.buffers())
    assert held < 60e6
    few = Steer(large(5000))

    def seconds(one, n):
        run(one, range(5), n)
        times = []
        for _ in range(3):
            start = time.process_time()
            run(one, range(20), n)
            times.append(time.process_time() - start)
        return min(times)

    assert seconds(steer, 100_000) < 4 * seconds(few, 5000)  # 20 times as many constraints
    report = steer.report()
    assert report.families[0].size == 100_000
    assert len(str(report).splitlines()) < 10


def test_another_preference_is_refused_where_it_is_large():
    steer = Steer(large())
    with pytest.raises(UnsupportedError, match="ask: expected preferences of at most 4096 inequalities, found 20000"):
        steer.ask(large())


def test_bounds_on_examples_are_met():
    torch.manual_seed(0)
    n = 6000
    g = ferero.objectives("ce", group=n)
    steer = Steer(ferero.Preference(g, [g.group <= 0.25], minimize=g.ce))
    features = torch.randn(n, 8, dtype=torch.float64)
    target = features @ torch.randn(8, dtype=torch.float64) * 0.3
    model = torch.nn.Linear(8, 1).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(400):
        ids = torch.randperm(n)[:64]
        off = (model(features[ids])[:, 0] - target[ids]).square()
        loss = steer({"ce": model.weight.square().sum(), "group": off}, index={"group": ids})
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        off = (model(features)[:, 0] - target).square()
    assert float((off <= 0.25).double().mean()) > 0.9
