"""The controller: what it must not depend on, stacks, missing losses, types, extreme values, saved states."""

from __future__ import annotations

import dataclasses
import io
import math
from dataclasses import replace

import pytest
import torch
from tests.methods.runs import PI, draw, feed, normal, tensor, weights_of

from ferero.errors import InputError, NonFiniteError
from ferero.methods import Observation
from ferero.methods._ferero_pi import FereroPI, FereroPIState
from ferero.preference import Preference

M = 4
EVERY_LOSS, EXPRESSION = torch.eye(M, dtype=torch.float64), tensor([[1.0, 0.5, 0.0, 0.0]])
B_G, OFFSETS_G = tensor([[1.0, 0.0, -0.7, 0.0], [0.0, 0.0, 0.0, 1.0], [0.3, 1.0, 0.0, 0.5]]), tensor([0.0, -0.9, -1.5])
B_H, OFFSETS_H = tensor([[1.0, -0.5, 0.0, 0.3], [0.0, 1.0, -3.0, 0.0]]), tensor([0.05, -0.3])
RAY = tensor([[1.0, -0.5, 0.0, 0.0], [0.0, 1.0, -3.0, 0.0], [0.0, 0.0, 1.0, -0.4]])
KINDS = {
    "inequalities": {"A": EVERY_LOSS, "B_g": B_G, "b_g": OFFSETS_G},
    "inequalities, expression": {"A": EXPRESSION, "B_g": B_G, "b_g": OFFSETS_G},
    "ray": {"A": EVERY_LOSS, "B_h": RAY, "b_h": torch.zeros(3)},
    "differences": {"A": EVERY_LOSS, "B_h": B_H, "b_h": OFFSETS_H},
    "equalities, expression": {"A": EXPRESSION, "B_h": B_H, "b_h": OFFSETS_H},
    "one equality, expression": {"A": EXPRESSION, "B_h": B_H[:1], "b_h": OFFSETS_H[:1]},
    "mixture": {"A": EVERY_LOSS, "B_g": B_G[:2], "b_g": OFFSETS_G[:2], "B_h": B_H, "b_h": OFFSETS_H},
    "mixture, expression": {"A": EXPRESSION, "B_g": B_G[:2], "b_g": OFFSETS_G[:2], "B_h": B_H, "b_h": OFFSETS_H},
}
PREFERENCES = {kind: Preference.from_matrices(**matrices) for kind, matrices in KINDS.items()}
STACK = Preference.stack(list(PREFERENCES.values()))
USUAL = tensor([1.0, 0.6, 0.4, 0.9])


def usual_losses(steps, *batch, seed=0):
    """Noise of a fifth about losses that drift, each its own way."""
    shape = (steps, *(1 for _ in batch), M)
    drift = torch.exp(-torch.linspace(0, 1, steps, dtype=torch.float64)[:, None] * tensor([1.0, 0.2, -0.5, 0.1]))
    return (USUAL * drift).reshape(shape) * (1 + 0.2 * normal(steps, *batch, M, seed=seed))


def is_finite(state):
    return all(bool(torch.isfinite(getattr(state, field.name)).all()) for field in dataclasses.fields(state))


# what it must not depend on ---------------------------------------------------------------------------------

UNITS = (tensor([1e-6, 1e6, 1.0, 1e3]), tensor([1e6, 1e6, 1e-6, 1e-6]))
ORDER = torch.tensor([2, 0, 3, 1])


def in_units(matrices, units):
    return {name: value / units if value.ndim == 2 else value for name, value in matrices.items()}


def in_order(matrices):
    """Losses in another order, and inequalities too."""
    found = {name: value[:, ORDER] if value.ndim == 2 else value for name, value in matrices.items()}
    return found | {name: found[name].flip(0) for name in ("B_g", "b_g") if name in found}


def in_basis(matrices, seed):
    if "B_h" not in matrices:
        return matrices
    R = normal(len(matrices["B_h"]), len(matrices["B_h"]), seed=seed)  # condition numbers up to 32
    return matrices | {"B_h": R @ matrices["B_h"], "b_h": R @ matrices["b_h"].double()}


@pytest.fixture(scope="module")
def rewritten():
    """Weights (500, kinds, 6, m) on the same losses: as written, in two units, in another order, in two bases."""
    F = usual_losses(500)
    written = []
    for matrices in KINDS.values():
        written += [matrices, *(in_units(matrices, c) for c in UNITS), in_order(matrices)]
        written += [in_basis(matrices, seed) for seed in range(2)]
    seen = torch.stack([F, F * UNITS[0], F * UNITS[1], F[:, ORDER], F, F], dim=1).repeat(1, len(KINDS), 1)
    decisions, _ = feed(Preference.stack([Preference.from_matrices(**one) for one in written]), seen)
    return dict(zip(KINDS, weights_of(decisions).unflatten(1, (len(KINDS), 6)).unbind(1), strict=True))


def shares(weights):
    return weights / weights.abs().sum(dim=-1, keepdim=True)


@pytest.mark.parametrize("kind", KINDS)
def test_units_change_the_weights_by_one_common_factor(rewritten, kind):
    """Loss i in units c_i: the controller sees c F, the preference is rewritten as B / c, and c w is the same."""
    weights = rewritten[kind]
    for i, units in enumerate(UNITS):
        torch.testing.assert_close(shares(weights[:, 1 + i] * units), shares(weights[:, 0]), rtol=0, atol=1e-9)
    assert float(shares(weights[:, 0]).std(dim=0).amax()) > 0.005  # it was not a constant that agreed


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_the_losses_and_of_the_rows_does_not_matter(rewritten, kind):
    weights = rewritten[kind]
    torch.testing.assert_close(weights[:, 3], weights[:, 0][:, ORDER], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "B_h" in KINDS[kind]])
def test_the_basis_of_the_equalities_does_not_matter(rewritten, kind):
    weights = rewritten[kind]
    for i in (4, 5):
        torch.testing.assert_close(weights[:, i], weights[:, 0], rtol=1e-9, atol=1e-9)


def test_the_lengths_of_inequalities_do_not_matter():
    F = usual_losses(100)
    lengths = tensor([1e-6, 1.0, 1e5])
    other = Preference.from_matrices(A=EVERY_LOSS, B_g=B_G * lengths[:, None], b_g=OFFSETS_G * lengths)
    ours, theirs = feed(PREFERENCES["inequalities"], F)[0], feed(other, F)[0]
    torch.testing.assert_close(weights_of(theirs), weights_of(ours), rtol=1e-9, atol=0)


def test_equalities_that_repeat_each_other_count_once():
    F = usual_losses(120)
    again = torch.cat([B_H, 2 * B_H, B_H.sum(dim=0, keepdim=True)])
    other = Preference.from_matrices(
        A=EVERY_LOSS, B_h=again, b_h=torch.cat([OFFSETS_H, 2 * OFFSETS_H, OFFSETS_H.sum()[None]])
    )
    ours, theirs = feed(PREFERENCES["differences"], F)[0], feed(other, F)[0]
    torch.testing.assert_close(weights_of(theirs), weights_of(ours), rtol=0, atol=1e-5)


def test_a_row_of_zeros_says_nothing():
    F, rows = usual_losses(30), torch.cat([torch.zeros(1, M), RAY])
    other = Preference.from_matrices(A=EVERY_LOSS, B_h=rows)
    ours, theirs = feed(PREFERENCES["ray"], F)[0], feed(other, F)[0]
    torch.testing.assert_close(weights_of(theirs), weights_of(ours), rtol=1e-9, atol=1e-9)


# stacks and batches -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stacked():
    """Losses (100, kinds, m), the decisions on a stack, and its last state."""
    F = usual_losses(100, len(KINDS), seed=3)
    return F, *feed(STACK, F)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stack_equals_a_loop(stacked, kind):
    """Members with 1 or 4 rows of the order, 0 to 3 inequalities and 0 to 3 equalities."""
    F, together, state = stacked
    i, member = list(KINDS).index(kind), PREFERENCES[kind]
    alone, state_alone = feed(member, F[:, i])
    torch.testing.assert_close(weights_of(together)[:, i], weights_of(alone), rtol=1e-12, atol=1e-12)
    m_g, m_h, k = member.m_g, member.m_h, len(member.A)
    found, alone_found = together[-1].multipliers[i], alone[-1].multipliers
    parts = [found[:k], found[M : M + m_g], found[M + STACK.m_g : M + STACK.m_g + m_h]]
    torch.testing.assert_close(torch.cat(parts), alone_found, rtol=1e-9, atol=1e-12)
    logits = [state.logits[i, :m_g]] + ([state.logits[i, STACK.m_g :]] if m_h else [])
    torch.testing.assert_close(torch.cat(logits), state_alone.logits, rtol=1e-12, atol=1e-12)
    one = PI.diagnose(STACK, state).saturated[i]
    assert one[:m_g].tolist() == PI.diagnose(member, state_alone).saturated[:m_g].tolist()
    assert not one[m_g : STACK.m_g].any()  # padding
    assert not one[STACK.m_g + m_h :].any()


def test_leading_dimensions_equal_a_loop():
    F = usual_losses(40, 3, len(KINDS), seed=4)
    together = weights_of(feed(STACK, F)[0])
    of_one = weights_of(feed(PREFERENCES["mixture"], F)[0])
    assert together.shape == of_one.shape == (40, 3, len(KINDS), M)
    for i in range(3):
        torch.testing.assert_close(together[:, i], weights_of(feed(STACK, F[:, i])[0]), rtol=1e-12, atol=1e-12)
    alone = feed(PREFERENCES["mixture"], F[:, 2, 5])[0]
    torch.testing.assert_close(of_one[:, 2, 5], weights_of(alone), rtol=1e-12, atol=1e-12)


# multipliers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_weights_are_those_of_the_multipliers(kind):
    preference = PREFERENCES[kind]
    k, m_g = len(preference.A), preference.m_g
    decisions, _ = feed(preference, usual_losses(60, 5, seed=1))
    multipliers = torch.stack([decision.multipliers for decision in decisions])
    rows = torch.cat([preference.A, preference.B_g, preference.B_h])
    torch.testing.assert_close(multipliers @ rows, weights_of(decisions), rtol=1e-9, atol=1e-9)
    assert (multipliers[..., k : k + m_g] >= 0).all()
    if "expression" in kind:  # a part of it that no constraint takes away
        assert (multipliers[..., :k] > 0).all()


def test_a_loss_that_is_minimised_twice():
    preference = Preference.from_matrices(A=[[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]], B_h=[[1.0, -1.0]])
    decision = feed(preference, draw(20, 2))[0][-1]
    rows = torch.cat([preference.A, preference.B_h])
    torch.testing.assert_close(decision.multipliers @ rows, decision.weights, rtol=1e-9, atol=1e-9)


# missing losses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_missing_losses_hold_weights_and_logits(unit):
    preference = Preference.from_matrices(A=[[0.0, 1.0]], B_g=[[1.0, 0.0]], b_g=[-0.5 * unit])
    F = unit * tensor([1.0, 1.0])
    before, state = feed(preference, [F] * 60)
    after, held = feed(preference, [F] * 20, present=[[False, True]] * 20, state=state)
    for decision in after:
        assert float(decision.weights[0]) == float(before[-1].weights[0])
    for name in ("logits", "level", "variance", "rate", "age", "anchor", "surprise"):
        assert torch.equal(getattr(held, name), getattr(state, name)), name
    on, _ = PI.update(preference, Observation(F), state)
    late, _ = PI.update(preference, Observation(F), held)
    torch.testing.assert_close(late.weights, on.weights, rtol=1e-9, atol=0)  # as if nothing had been in between


@pytest.mark.parametrize("kind", ["ray", "sum"])
def test_a_constraint_waits_for_all_its_losses_and_then_moves_once(kind):
    """In turn as all at once: what is complete at every third step moves then, by as much."""
    preference = {
        "ray": Preference.ray([1.0, 1.0, 1.0]),
        "sum": Preference.from_matrices(B_g=[[1.0, 1.0, -2.5]]),
    }[kind]
    in_turn, at_once, moved = PI.init(preference), PI.init(preference), []
    for t in range(12):
        before = in_turn.logits
        here = [t % 3 == i for i in range(3)]
        _, in_turn = PI.update(preference, Observation([2.0, 1.0, 1.0], present=here), in_turn)
        moved.append(not torch.equal(before, in_turn.logits))
        if t % 3 == 2:
            _, at_once = PI.update(preference, Observation([2.0, 1.0, 1.0]), at_once)
    assert moved == [False, False, True] * 4
    torch.testing.assert_close(in_turn.logits, at_once.logits, rtol=1e-12, atol=0)
    torch.testing.assert_close(in_turn.level, at_once.level, rtol=1e-12, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_that_never_came(kind):
    """Constraints that name it stay where they are; the others, and all weights, go on."""
    preference = PREFERENCES[kind]
    F, here = usual_losses(40), [[True, True, True, False]] * 40
    decisions, state = feed(preference, F, present=here)
    assert is_finite(state)
    assert torch.isfinite(weights_of(decisions)).all()
    rows = torch.cat([preference.B_g, preference.B_h])
    is_waiting = rows[:, 3] != 0
    assert torch.equal(state.updated == 0, is_waiting)
    moved = state.logits != 0
    assert torch.equal(moved[: preference.m_g], ~is_waiting[: preference.m_g])
    later, _ = feed(preference, F, state=state)
    assert torch.isfinite(weights_of(later)).all()


@pytest.mark.parametrize("A", [[[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0]]])
def test_units_do_not_matter_while_a_loss_is_missing(A):
    found = []
    for unit in (1e-6, 1.0, 1e6):
        preference = Preference.from_matrices(A=A, B_g=[[1.0, 0.0]], b_g=[-0.5 * unit])
        decisions, _ = feed(preference, unit * draw(20, 2), present=[[True, False]] * 20)
        found.append(decisions[-1].weights)
    torch.testing.assert_close(torch.stack(found), found[1].expand(3, 2), rtol=1e-6, atol=0)


# values and types -------------------------------------------------------------------------------------------

EXTREME = tensor([1e160, 1e308, 1e-320, 0.0, -1e100])
WHEN = (0, 1, 2, 40)


def test_extreme_values_leave_everything_finite():
    """One batch at any time, in any loss, of any kind of preference; weights also in single precision."""
    F = usual_losses(60)[:, None, None, None, None].repeat(1, len(WHEN), len(EXTREME), M, len(KINDS), 1)
    for i, t in enumerate(WHEN):
        for j in range(M):
            F[t, i, :, j, :, j] = EXTREME[:, None]
    state = PI.init(STACK)
    for values in F:
        decision, state = PI.update(STACK, Observation(values), state)
        assert torch.isfinite(decision.weights.float()).all()
        assert torch.isfinite(decision.multipliers).all()
        assert is_finite(state)
        PI.diagnose(STACK, state)


def test_nothing_but_extreme_values_leave_everything_finite():
    """Any of them at any time, of any sign, some missing."""
    generator = torch.Generator().manual_seed(5)
    state = PI.init(STACK)
    choices = torch.cat([EXTREME, -EXTREME, tensor([1.0, 1e-8, 1e8])])
    for _ in range(120):
        chosen = torch.randint(len(choices), (8, len(KINDS), M), generator=generator)
        present = torch.rand(8, len(KINDS), M, generator=generator) > 0.2
        decision, state = PI.update(STACK, Observation(choices[chosen], present=present), state)
        assert torch.isfinite(decision.weights.float()).all()
        assert is_finite(state)
        assert float(state.logits.amin()) >= -10
        assert float(state.logits.amax()) <= 14


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_losses_that_are_always_zero_or_negative(value):
    decisions, state = feed(STACK, torch.full((50, len(KINDS), M), value))
    assert torch.isfinite(weights_of(decisions)).all()
    assert is_finite(state)
    up = feed(Preference.ray([1.0, 1.0]), tensor([[value, value + 1]] * 20))[0][-1].weights
    assert up[1] > up[0]  # the loss that is too large counts more, also below zero


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_weights_have_the_losses_type_and_are_computed_in_float64(dtype):
    F = usual_losses(30, len(KINDS)).to(dtype)
    decisions, state = feed(STACK, F)
    assert decisions[-1].weights.dtype == dtype
    assert decisions[-1].multipliers.dtype == state.logits.dtype == torch.float64
    exact, _ = feed(STACK, F.double())
    assert torch.equal(weights_of(decisions), weights_of(exact).to(dtype))
    largest = torch.full((3, len(KINDS), M), torch.finfo(dtype).max, dtype=dtype)
    assert torch.isfinite(weights_of(feed(STACK, largest)[0]).float()).all()


def test_nothing_is_changed_in_place():
    preference, F = PREFERENCES["mixture"], draw(3, M)
    _, state = feed(preference, F)
    kept = {f.name: getattr(state, f.name).clone() for f in dataclasses.fields(state)}
    seen = F.clone()
    for _ in range(2):
        PI.update(preference, Observation(F[0], present=[True, False, True, True]), state)
        PI.update(preference, Observation(F[0]), state)
    assert torch.equal(F, seen)
    for name, value in kept.items():
        assert torch.equal(getattr(state, name), value), name


# states -----------------------------------------------------------------------------------------------------


def test_the_state_survives_saving_bit_for_bit():
    F = usual_losses(60, len(KINDS))
    whole, last = feed(STACK, F)
    _, state = feed(STACK, F[:30])
    buffer = io.BytesIO()
    torch.save({f.name: getattr(state, f.name) for f in dataclasses.fields(state)}, buffer)
    buffer.seek(0)
    state = FereroPIState(**torch.load(buffer, weights_only=True))
    again, end = feed(STACK, F[30:], state=state)
    assert torch.equal(weights_of(again), weights_of(whole[30:]))
    assert torch.equal(PI.diagnose(STACK, end).saturated, PI.diagnose(STACK, last).saturated)


def test_a_state_loaded_in_another_type_goes_on():
    """Saved with a model in half the precision, or used where losses have a leading dimension more."""
    F = usual_losses(40, len(KINDS))
    whole = weights_of(feed(STACK, F)[0])
    _, state = feed(STACK, F[:30])
    single = FereroPIState(*(getattr(state, f.name).float() for f in dataclasses.fields(state)))
    again, end = feed(STACK, F[30:], state=single)
    assert end.logits.dtype == torch.float64
    torch.testing.assert_close(weights_of(again), whole[30:], rtol=1e-4, atol=1e-5)
    spread, end = feed(STACK, F[30:, None].expand(10, 3, len(KINDS), M), state=state)
    assert end.logits.shape[:2] == (3, len(KINDS))
    torch.testing.assert_close(weights_of(spread), whole[30:, None].expand(10, 3, -1, -1), rtol=1e-12, atol=0)
    assert PI.diagnose(STACK, end).saturated.shape == (3, len(KINDS), STACK.m_g + STACK.m_h)


def test_a_state_on_another_device_moves_to_that_of_the_losses():
    _, state = feed(STACK, usual_losses(3, len(KINDS)))
    moved = state.like(torch.empty(len(KINDS), M, device="meta"), torch.float32)
    for field in dataclasses.fields(moved):
        value = getattr(moved, field.name)
        assert (value.device.type, value.dtype, value.shape) == (
            "meta",
            torch.float32,
            getattr(state, field.name).shape,
        )
    assert state.like(torch.empty(len(KINDS), M), torch.float64) is state


# settings and observations ----------------------------------------------------------------------------------


def test_it_declares_itself():
    assert PI.requires == {"losses"}
    assert not PI.has_merit
    assert all(PI.understands(preference) is None for preference in PREFERENCES.values())
    with pytest.raises(dataclasses.FrozenInstanceError):
        PI.integral = 2.0


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(FereroPI)])
def test_bad_settings_are_refused(name):
    least = {"headroom": 0, "stretch": 1}.get(name)
    wanted = "a positive finite number" if least is None else f"a finite number from {least} on"
    for value in (-1.0, math.inf, math.nan) + (() if least == 0 else (0.0,)):
        with pytest.raises(InputError, match=rf"{name}: expected {wanted}, found {value}"):
            replace(PI, **{name: value})


def test_bad_observations_are_refused():
    ray = Preference.ray([1.0, 1.0])
    with pytest.raises(InputError, match=r"losses: expected shape \(\.\.\., 2\), one number for each of f1, f2"):
        PI.update(ray, Observation([1.0, 1.0, 1.0]), PI.init(ray))
    with pytest.raises(NonFiniteError, match=r"losses: expected finite numbers, found nan at index \(0,\)"):
        PI.update(ray, Observation([math.nan, 1.0]), PI.init(ray))
    with pytest.raises(InputError, match=r"present: expected shape \(\.\.\., 2\) for 2 losses, found \(1,\)"):
        Observation([1.0, 1.0], present=[True])
    decision, _ = PI.update(ray, Observation([math.nan, 1.0], present=[False, True]), PI.init(ray))
    assert torch.isfinite(decision.weights).all()  # what is not present is not read
