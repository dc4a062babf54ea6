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
    assert state.losses is None


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
    with pytest.raises(InputError, match=r"losses: the adaptive domain needs A F >= 0 .* from -1"):
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
