import dataclasses
import io

import numpy as np
import pytest
import torch

from ferero.errors import InputError, NonFiniteError
from ferero.methods import FereroSA, FereroSAState, Observation
from ferero.preference import Preference

WANTED = Preference.parse("f1 <= 0.5; f1 - f2 == 0.25")


def run(method, preference, observations):
    state, decisions = method.init(preference), []
    for observation in observations:
        decision, state = method.update(preference, observation, state)
        decisions.append(decision)
    return decisions, state


def test_two_steps_by_hand_on_the_simplex():
    method = FereroSA(gamma=0.1, c_g=2.0, c_h=3.0, domain="simplex")
    first, second, third = run(
        method,
        WANTED,
        [
            Observation([1.0, 0.5]),
            Observation([0.8, 0.6], slopes=[-1.0, 0.5]),
            Observation([0.4, 0.6], slopes=[-2.0, 0.0]),
        ],
    )[0]
    assert first.multipliers.tolist() == [0.5, 0.5, 0.0, 0.0]
    assert first.weights.tolist() == [0.5, 0.5]
    # slopes of the first step with its losses: G = 0.5, H = 0.25
    f = [0.5 + 0.1 * -1.0, 0.5 + 0.1 * 0.5]  # (0.4, 0.55), sum 0.95: projected by adding 0.025 to each
    g = 0.0 + 0.1 * (2.0 * 0.5 - 1.0)
    h = 0.0 + 0.1 * (3.0 * 0.25 - 1.5)
    assert second.multipliers.tolist() == pytest.approx([f[0] + 0.025, f[1] + 0.025, g, h])
    assert second.weights.tolist() == pytest.approx([f[0] + 0.025 + g + h, f[1] + 0.025 - h])
    # slopes of the second step with its losses: G = 0.3, H = -0.05
    f = [0.425 - 0.2, 0.575]  # sum 0.8: 0.1 to each
    g = max(0.0, 0.0 + 0.1 * (2.0 * 0.3 - 2.0))
    h = h + 0.1 * (3.0 * -0.05 - 2.0)
    assert third.multipliers.tolist() == pytest.approx([f[0] + 0.1, f[1] + 0.1, g, h])


def test_two_steps_by_hand_in_the_adaptive_domain():
    decisions, state = run(
        FereroSA(gamma=0.5),
        Preference.pareto(2),
        [Observation([1.0, 3.0]), Observation([1.0, 1.0], slopes=[-1.0, 0.0])],
    )
    assert decisions[0].multipliers.tolist() == [1.0, 1.0]
    # (0.5, 1) projected onto {lam.(1, 1) = 2}, the domain of the new losses
    assert decisions[1].multipliers.tolist() == pytest.approx([0.75, 1.25])
    assert state.losses.tolist() == [1.0, 1.0]


def test_multipliers_stay_in_their_domain():
    rng = np.random.default_rng(0)
    method, state = FereroSA(gamma=5.0, bound=2.0), None
    state = method.init(WANTED)
    for _ in range(30):
        F = rng.uniform(0.1, 2, 2)
        _, state = method.update(WANTED, Observation(F, slopes=rng.standard_normal(2) * 10), state)
        lam = state.multipliers
        assert float(lam[:2] @ torch.tensor(F)) == pytest.approx(F.sum())
        assert (lam[:3] >= 0).all()
        assert (lam[2:].abs() <= 2.0).all()


def test_nothing_is_changed_in_place():
    method = FereroSA()
    state = method.init(WANTED)
    observation = Observation([1.0, 0.5])
    _, after = method.update(WANTED, observation, state)
    kept = after.multipliers.clone(), after.losses.clone()
    later = Observation([0.9, 0.5], slopes=[-1.0, -1.0])
    once, _ = method.update(WANTED, later, after)
    twice, _ = method.update(WANTED, later, after)
    assert torch.equal(once.weights, twice.weights)
    assert torch.equal(after.multipliers, kept[0])
    assert torch.equal(after.losses, kept[1])
    assert torch.equal(state.losses, torch.zeros(2).double())
    assert torch.equal(observation.losses, torch.tensor([1.0, 0.5]).double())


def test_a_stack_equals_a_loop():
    rng = np.random.default_rng(1)
    members = [
        WANTED,
        Preference.pareto(2),
        Preference.ray([1.0, 2.0]),
        Preference.from_matrices(A=[[1.0, 1.0]]),
    ]
    F, slopes = rng.uniform(0.2, 1, (4, 4, 2)), rng.standard_normal((4, 4, 2))
    for method in (FereroSA(bound=1.0), FereroSA(domain="simplex")):
        together, state = run(
            method,
            Preference.stack(members),
            [Observation(f, slopes=s) for f, s in zip(F, slopes, strict=True)],
        )
        for i, member in enumerate(members):
            alone, _ = run(method, member, [Observation(f[i], slopes=s[i]) for f, s in zip(F, slopes, strict=True)])
            for a, b in zip(together, alone, strict=True):
                torch.testing.assert_close(a.weights[i], b.weights)
        padded = state.multipliers[3, 1:]
        assert (padded == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_weights_have_the_losses_type(dtype):
    steps = [
        Observation(torch.tensor([1.0, 0.5]).to(dtype)),
        Observation(torch.tensor([1.0, 0.5]).to(dtype), slopes=[-1.0, 0.0]),
    ]
    decisions, state = run(FereroSA(), WANTED, steps)
    assert decisions[1].weights.dtype == dtype
    assert state.multipliers.dtype == state.losses.dtype == torch.float64


def test_the_state_survives_saving():
    _, state = run(FereroSA(), WANTED, [Observation([1.0, 0.5])])
    buffer = io.BytesIO()
    torch.save(dataclasses.asdict(state), buffer)
    buffer.seek(0)
    loaded = FereroSAState(**torch.load(buffer, weights_only=True))
    later = Observation([0.9, 0.5], slopes=[-1.0, -1.0])
    a, _ = FereroSA().update(WANTED, later, state)
    b, _ = FereroSA().update(WANTED, later, loaded)
    assert torch.equal(a.weights, b.weights)


def test_leading_dimensions_equal_a_loop():
    rng = np.random.default_rng(2)
    F, slopes = rng.uniform(0.2, 1, (4, 3, 5, 2)), rng.standard_normal((4, 3, 5, 2))
    for method in (FereroSA(gamma=0.3, bound=1.0), FereroSA(gamma=0.3, domain="simplex")):
        together, state = run(method, WANTED, [Observation(f, slopes=s) for f, s in zip(F, slopes, strict=True)])
        assert state.multipliers.shape == (3, 5, 4)
        for i, j in np.ndindex(3, 5):
            steps = [Observation(f[i, j], slopes=s[i, j]) for f, s in zip(F, slopes, strict=True)]
            alone, _ = run(method, WANTED, steps)
            for a, b in zip(together, alone, strict=True):
                torch.testing.assert_close(a.weights[i, j], b.weights)


def test_the_first_step_does_not_use_slopes():
    method = FereroSA(gamma=1.0)
    with_slopes, _ = run(method, WANTED, [Observation([1.0, 0.5], slopes=[-7.0, 3.0])])
    without, _ = run(method, WANTED, [Observation([1.0, 0.5])])
    assert torch.equal(with_slopes[0].weights, without[0].weights)


def test_permuted_losses_have_permuted_weights():
    rng = np.random.default_rng(3)
    order = [2, 0, 1]
    B_g, B_h = torch.tensor([[1.0, 0.0, 2.0]]), torch.tensor([[1.0, -1.0, 0.5]])
    one = Preference.from_matrices(A=torch.eye(3), B_g=B_g, b_g=[-0.5], B_h=B_h, b_h=[0.1])
    other = Preference.from_matrices(A=torch.eye(3), B_g=B_g[:, order], b_g=[-0.5], B_h=B_h[:, order], b_h=[0.1])
    F, slopes = rng.uniform(0.2, 1, (5, 3)), rng.standard_normal((5, 3))
    for domain in ("adaptive", "simplex"):
        method = FereroSA(gamma=0.3, domain=domain)
        plain, _ = run(method, one, [Observation(f, slopes=s) for f, s in zip(F, slopes, strict=True)])
        moved, _ = run(method, other, [Observation(f[order], slopes=s[order]) for f, s in zip(F, slopes, strict=True)])
        for a, b in zip(plain, moved, strict=True):
            torch.testing.assert_close(a.weights[order], b.weights)


@pytest.mark.parametrize("domain", ["adaptive", "simplex"])
def test_one_loss(domain):
    steps = [Observation([2.0], slopes=[-3.0])] * 3
    decisions, _ = run(FereroSA(domain=domain), Preference.pareto(1), steps)
    assert [d.weights.tolist() for d in decisions] == [[1.0]] * 3


def test_zero_slopes_move_no_multiplier_of_the_order():
    decisions, _ = run(FereroSA(gamma=1.0), Preference.pareto(3), [Observation([1.0, 0.0, 2.0], slopes=[0.0] * 3)] * 4)
    assert decisions[-1].weights.tolist() == [1.0, 1.0, 1.0]


def test_a_missing_loss_keeps_its_value_and_has_no_slope():
    method = FereroSA(gamma=0.3)
    first, there = Observation([1.0, 0.5]), [True, False]
    partial = Observation([0.8, 99.0], slopes=[-1.0, 99.0], present=there)
    whole = Observation([0.8, 0.5], slopes=[-1.0, 0.0])
    last = Observation([0.7, 0.4], slopes=[-1.0, 0.2])
    ours, state = run(method, WANTED, [first, partial, last])
    theirs, _ = run(method, WANTED, [first, whole, last])
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a.weights, b.weights)
    assert state.seen.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("domain", ["adaptive", "simplex"])
def test_a_row_waits_until_all_its_losses_have_been_seen(domain):
    method = FereroSA(gamma=0.3, domain=domain)
    only_second = Observation([np.nan, 0.5], slopes=[0.0, -1.0], present=[False, True])
    decisions, state = run(method, WANTED, [Observation([np.nan, np.nan], present=[False, False]), *[only_second] * 3])
    assert all(d.weights.isfinite().all() for d in decisions)
    assert state.multipliers[2:].tolist() == [0.0, 0.0]
    _, state = method.update(WANTED, Observation([1.0, 0.5], slopes=[-1.0, 0.0]), state)
    assert state.multipliers[2:].tolist() == [0.0, 0.0]
    _, state = method.update(WANTED, Observation([1.0, 0.5], slopes=[0.0, 0.0]), state)
    assert state.multipliers[2:].tolist() == pytest.approx([0.3 * 0.5, 0.3 * 0.25])


def test_it_declares_itself():
    method = FereroSA()
    assert method.requires == {"losses", "slopes"}
    assert not method.has_merit
    assert method.understands(WANTED) is None


@pytest.mark.parametrize("name", ["gamma", "c_g", "c_h", "bound"])
def test_bad_settings_are_refused(name):
    with pytest.raises(InputError, match=rf"{name}: expected a positive finite number, found -1"):
        FereroSA(**{name: -1})


def test_bad_observations_are_refused():
    method = FereroSA()
    with pytest.raises(InputError, match=r'domain: expected "adaptive" or "simplex"'):
        FereroSA(domain="box")
    with pytest.raises(InputError, match=r"losses: the adaptive domain needs A F >= 0.* from -1"):
        method.update(WANTED, Observation([-1.0, 2.0]), method.init(WANTED))
    _, state = method.update(WANTED, Observation([1.0, 2.0]), method.init(WANTED))
    with pytest.raises(InputError, match=r"observation: FereroSA reads slopes, found None"):
        method.update(WANTED, Observation([1.0, 2.0]), state)
    with pytest.raises(NonFiniteError, match=r"slopes: expected finite numbers"):
        method.update(WANTED, Observation([1.0, 2.0], slopes=[np.inf, 0.0]), state)


def test_it_solves_the_subprogram_where_the_losses_stand_still():
    J = torch.tensor([[1.0, 0.2, 0.0], [-0.3, 1.0, 0.5]], dtype=torch.float64)
    F, K = torch.tensor([0.6, 0.5], dtype=torch.float64), J @ J.T
    method = FereroSA(gamma=0.2)
    decision, state = method.update(WANTED, Observation(F), method.init(WANTED))
    for _ in range(3000):
        decision, state = method.update(WANTED, Observation(F, slopes=-K @ decision.weights), state)
    slopes = -K @ decision.weights
    assert float(slopes[0]) <= -0.1 + 1e-6
    assert float(slopes[0] - slopes[1]) == pytest.approx(0.15, abs=1e-6)
