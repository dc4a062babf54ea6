"""The law by itself: its update by hand, the single loop it comes from, its common factor, and its linear loop."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.methods.runs import PI, closed_loop, draw, feed, normal, quadratic, tensor, weights_of

import ferero
from ferero.methods import Observation
from ferero.methods._channels import channels_of
from ferero.methods._ferero_pi import FereroPI
from ferero.preference import Preference

K_P, K_I = PI.proportional, PI.integral
LINEAR = FereroPI(headroom=0.0)  # what is told of the law without the room that swings take


def parsed(text, *names):
    return Preference.parse(text, names=list(names or ("a", "b")))


# the update, by hand ----------------------------------------------------------------------------------------


def test_the_integral_part_of_a_bound_by_hand():
    """Constant losses, so l = e: u moves by k_I h e, |e| <= near, in [-10, 14]; h is 1 to 10.

    Where the bound holds by less than near it is 0.3 of that.
    """
    quick = FereroPI(integral=0.06, patience=10.0)
    a = tensor([0.0, 0.1, 0.3, 0.49, 0.505, 0.6, 1.0, 4.0])
    losses = torch.stack([a, torch.ones_like(a)], dim=-1).expand(250, len(a), 2)
    e = (a - 0.5) / a.clamp(min=0.5)
    u, age = torch.zeros_like(a), torch.zeros_like(a)
    preference = parsed("a <= 0.5; minimize b")
    state = quick.init(preference)
    for t, values in enumerate(losses):
        age = torch.where((e.abs() >= 0.01) & torch.tensor(t > 0), age + 1, 0.0)
        speed = 1 - (1 - quick.release) * ((e < 0) & (e > -quick.near)).double()
        pace = speed * torch.where(u + quick.proportional * e > 0, (speed * age / quick.patience).clamp(1, 10), 1.0)
        u = (u + quick.integral * pace * e.clamp(-quick.near, quick.near)).clamp(-10, 14)
        _, state = quick.update(preference, Observation(values), state)
        torch.testing.assert_close(state.logits[:, 0], u, rtol=1e-9, atol=1e-9)
    assert float(u.amax()) == 14.0
    assert (state.rate == 0).all()  # exact values are not smoothed


def test_noise_is_smoothed_and_lowers_the_gain():
    noise = normal(250, 16)
    losses = torch.stack([0.5 * (1 + 0.1 * noise), torch.ones_like(noise)], dim=-1)
    _, state = feed(parsed("a <= 0.5; minimize b"), losses)
    assert float(state.rate.exp().median()) < 0.2
    drift = 0.5 + 0.3 * torch.linspace(0, 1, 100, dtype=torch.float64)
    _, state = feed(parsed("a <= 0.5; minimize b"), torch.stack([drift, torch.ones_like(drift)], dim=-1))
    assert float(state.rate) == 0.0


@pytest.mark.slow
def test_noise_is_not_cut_off():
    """Skewed noise of mean 0 whose large values are far beyond `near`: the logits of an equality do not move on."""
    noise = torch.where(normal(4000, 8) > 1, 1.0, 0.0)
    noise = 0.6 * (noise - noise.mean(dim=0))
    losses = torch.stack([1 + noise, torch.ones_like(noise)], dim=-1)
    _, state = feed(parsed("a == 1; minimize b"), losses)
    largest_drift = K_I * 2 * float((noise[noise > 0] - PI.near).mean()) * 4000 * float((noise > 0).double().mean())
    assert largest_drift > 5
    assert float(state.logits[:, 0].abs().amax()) < 0.2 * largest_drift


def test_bounds_share_their_sizes_in_the_proportions_of_the_bounds():
    """Two bounds as wide apart from their losses as can be, of which one is written from below; a difference stays."""
    preference = parsed("a <= 0.01; b >= 100; a - b <= 3; minimize c", "a", "b", "c")
    decisions, state = feed(preference, tensor([4.0, 25.0, 1.0]).expand(3, 3))
    _, *lam = decisions[-1].multipliers.tolist()
    excess = (state.level.amax() - PI.near).clamp(min=0)
    gain = state.logits + PI.proportional * torch.maximum(state.level - excess, state.level.clamp(max=0))
    unit = (gain.exp() / tensor(lam) * decisions[-1].multipliers[0]).tolist()
    assert unit[1] / unit[0] == pytest.approx(100 / 0.01)
    assert unit[0] * unit[1] == pytest.approx(4.0 * 100)
    assert unit[2] == pytest.approx(28.0)


@pytest.fixture(scope="module")
def wound_up():
    """2,000 steps of a = 5 where a <= 0.5 is wanted."""
    preference = parsed("a <= 0.5; minimize b")
    decisions, state = feed(preference, tensor([[5.0, 1.0]]).expand(2000, 2))
    return preference, decisions[-1], state


def test_what_is_hopeless_stays_within_bounds_and_is_told(wound_up):
    preference, decision, state = wound_up
    assert float(state.logits) == 14.0
    assert torch.isfinite(decision.weights).all()
    assert PI.diagnose(preference, state).saturated.tolist() == [True]


@pytest.mark.slow
def test_a_margin_keeps_that_many_standard_errors_below_the_bound():
    """The mean of a at rest, over runs with noise of a tenth; its standard error is that of 32 values: s / sqrt(63)."""
    f, margins, level, noise = ferero.objectives("a", "b"), (0.0, 2.0, 4.0), 0.6, 0.1
    rows = [f.a <= level, *((f.a <= level).with_margin(z) for z in margins[1:])]
    stack = Preference.stack([ferero.Preference(f, [row], minimize=f.b) for row in rows])
    jitter = 1 + noise * normal(2000, 12, 3, 2, seed=2)
    start = (0.1 * normal(20, seed=1)).expand(12, 3, 20)
    run = closed_loop(stack, quadratic, start, 0.05, 2000, see=lambda t, F: F * jitter[t])
    below = (1 - run.losses[1200:, ..., 0].mean(dim=(0, 1)) / level) / (noise / 63**0.5)
    assert 0 < float(below[0]) < 2  # what the slow release leaves by itself
    for z, found in zip(margins[1:], (below - below[0])[1:].tolist(), strict=True):
        assert 0.6 * z < found < 1.5 * z


# the single loop in the entropic geometry -------------------------------------------------------------------


def entropic(e, k_P, k_I):
    """``log lam += gamma (c e + (e_t - e_(t-1)))`` from lam = 1 and e = 0, gamma = k_P and c = k_I / k_P."""
    found, log_lam, before = [], 0.0, 0.0
    for now in e:
        log_lam += k_P * (k_I / k_P * now + (now - before))
        found.append(log_lam)
        before = now
    return np.array(found)


FALLING = 0.5 * (1 + 0.19 * np.exp(-np.arange(90) / 20))
RISING = 0.5 * (1 - 0.19 * np.exp(-np.arange(90) / 20))


def followed(preference, losses):
    """Of every step: multipliers, weights, sizes of what the order and the channels follow, and the units of these."""
    state, found = LINEAR.init(preference), []
    for values in losses:
        decision, state = LINEAR.update(preference, Observation(values), state)
        found.append((decision.multipliers, decision.weights, state.sizes.exp(), state.units.exp()))
    assert (state.rate == 0).all()
    return [torch.stack(part).numpy() for part in zip(*found, strict=True)]


def beside(a, b):
    return torch.stack([tensor(a), torch.full((len(a),), b, dtype=torch.float64)], dim=-1)


@pytest.mark.parametrize(("a", "pace"), [(FALLING, 1.0), (RISING, PI.release)])
def test_a_bound_is_the_single_loop_with_realised_slopes(a, pace):
    """Small violations that move one way only: ``log lam(T) = k_I sum e + k_P e_T``, telescoped."""
    multipliers, _, sizes, units = followed(parsed("a <= 0.5; minimize b"), beside(a, 1.0))
    e = (a - 0.5) / sizes[:, 1]
    wanted = entropic(e, K_P, K_I * pace)
    found = np.log(multipliers[:, 1] / multipliers[:, 0] * units[:, 1])
    assert np.allclose(found, wanted, rtol=0, atol=1e-9)
    assert np.allclose(wanted, K_I * pace * np.cumsum(e) + K_P * e, rtol=0, atol=1e-12)
    assert np.ptp(wanted) > 0.5


@pytest.mark.parametrize("a", [FALLING, RISING])
def test_an_equality_is_the_hyperbolic_sine_of_that_loop(a):
    multipliers, _, sizes, units = followed(parsed("a == 0.5; minimize b"), beside(a, 1.0))
    size = np.maximum(sizes[:, 1], 0.5)  # of a loss below it, that which it should have
    wanted = entropic((a - 0.5) / size, K_P, 2 * K_I)
    found = np.arcsinh(multipliers[:, 1] / multipliers[:, 0] * units[:, 1])
    assert np.allclose(found, wanted, rtol=0, atol=1e-9)
    assert np.ptp(wanted) > 0.5


@pytest.mark.parametrize("a", [FALLING, RISING])
def test_a_ray_multiplies_weights_by_exponentials_of_that_loop(a):
    _, weights, sizes, _ = followed(parsed("a == b"), beside(a, 0.5))
    s, t = sizes[:, 2], sizes[:, 3]
    on = s * t * (s + t) / (s**2 + t**2)  # the point of the ray that is nearest, relative to s and t
    s, t = np.maximum(s, on), np.maximum(t, on)
    e = np.array([s, -t]) * (a - 0.5) / (s**2 + t**2)
    one, other = (entropic(row, K_P, 2 * K_I) for row in e)
    trace = math.exp(-8)
    wanted = (np.exp(one) - trace * np.exp(-one)) / (np.exp(other) - trace * np.exp(-other))
    assert np.allclose(weights[:, 0] / weights[:, 1], wanted, rtol=1e-9, atol=0)
    assert np.ptp(np.log(wanted)) > 0.5


# the common factor ------------------------------------------------------------------------------------------


def test_without_constraints_it_is_a_fixed_combination():
    decisions, _ = feed(parsed("minimize 3 * b + a"), draw(5, 2))
    torch.testing.assert_close(weights_of(decisions), tensor([[1.0, 3.0]]).expand(5, 2))
    F = tensor([1e-3, 1.0, 1e3])
    decisions, _ = feed(Preference.pareto(3), F.expand(5, 3))
    torch.testing.assert_close(decisions[-1].weights, (1 / F) / (1 / F).sum())


@pytest.mark.parametrize(("text", "wanted"), [("minimize b", [0.0, 1.0]), ("minimize 3 * b + 0.01 * a", [0.01, 3.0])])
def test_the_coefficients_of_the_objective_are_the_users_where_no_constraint_is_active(text, wanted):
    quick = FereroPI(release=20.0)  # lets go in 100 steps, not in 5,000
    for unit in (1e-3, 1.0, 1e3):
        preference = parsed(f"a <= {0.5 * unit}; {text}")
        decisions, _ = feed(preference, (unit * tensor([0.42, 1.0])).expand(120, 2), method=quick)
        assert decisions[-1].weights.tolist() == pytest.approx(wanted, abs=1e-3)


def test_bounds_that_hold_from_the_start_leave_the_objective_alone():
    names = [f"f{i}" for i in range(21)]
    text = "; ".join(f"{name} <= 10" for name in names[1:]) + "; minimize f0"
    decisions, _ = feed(parsed(text, *names), torch.ones(10, 21, dtype=torch.float64))
    assert float(decisions[0].weights[0]) == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("text", ["a <= 0.1; b <= 0.1; c <= 0.1; minimize d", "a == 0.1; b <= 0.1; minimize c + d"])
def test_weights_sum_to_those_of_the_plain_sum_at_most(text):
    """Out of reach; sizes are those of constant losses, and differ widely."""
    preference = parsed(text, "a", "b", "c", "d")
    weights = weights_of(feed(preference, tensor([1.0, 2.0, 0.01, 100.0]).expand(600, 4))[0])
    total = weights.abs().sum(dim=-1)
    plain = float(preference.A.abs().sum())
    assert float(total.amax()) == pytest.approx(4 * plain, rel=1e-9)
    assert bool((total >= plain * (1 - 1e-9)).all())


def test_weights_pass_those_of_the_plain_sum_only_while_a_violation_that_outweighs_the_rest_creeps_down():
    """By 2 % a step, up to tenfold; back as soon as it rests. Never more with stretch=1."""
    preference, rest = parsed("a <= 0.1; minimize b"), torch.ones(500, dtype=torch.float64)
    creeping = torch.cat([rest, 1 - 4e-5 * torch.arange(300).double(), 0.988 * rest])
    losses = torch.stack([creeping, torch.ones_like(creeping)], dim=-1)
    total = weights_of(feed(preference, losses)[0]).abs().sum(dim=-1)
    assert float(total[:500].amax()) == pytest.approx(2.0)
    assert float(total[500:800].amax()) == pytest.approx(20.0)
    rising = total[550:600] / total[549:599]
    torch.testing.assert_close(rising, torch.full_like(rising, 1.02), rtol=1e-9, atol=0)
    assert float(total[-1]) == pytest.approx(2.0)
    never = weights_of(feed(preference, losses, method=FereroPI(stretch=1.0))[0])
    assert float(never.abs().sum(dim=-1).amax()) == pytest.approx(2.0)


def test_the_proportional_part_of_a_far_violation_is_that_of_near():
    """At the first step logits are 0: the weight is exp(k_P near) whether the bound is 10 or 1,000 times too low."""
    for bound in (0.1, 1e-3):
        (decision, *_), _ = feed(parsed(f"a <= {bound}; minimize b"), tensor([[1.0, 1.0]]))
        _, lam = decision.multipliers.tolist()
        first = math.exp(PI.proportional * PI.near + K_I * PI.near)
        assert lam / float(decision.multipliers[0]) == pytest.approx(first)


def test_the_proportional_part_keeps_the_difference_of_two_far_violations():
    """0.6 and 0.5 differ as they do; a bound that holds is not touched by a violation elsewhere."""
    preference = parsed("a <= 0.4; b <= 0.5; c <= 1.25; minimize d", "a", "b", "c", "d")
    (decision, *_), state = feed(preference, tensor([[1.0, 1.0, 1.0, 1.0]]))
    _, *lam = decision.multipliers.tolist()
    bounds = tensor([0.4, 0.5, 1.25])  # units are in proportion to them
    parts = (tensor(lam) * bounds).log() - state.logits
    assert float(parts[0] - parts[1]) == pytest.approx(PI.proportional * 0.1)
    assert float(parts[1] - parts[2]) == pytest.approx(PI.proportional * (0.1 + 0.2))


BELOW = parsed("a <= 1; minimize b")
WAVE = 0.3 * torch.sin(torch.arange(600).double() * 2 * math.pi / 40)


def aimed_after(*parts: torch.Tensor) -> tuple[float, float]:
    """The level of a under a <= 1 and what the law aims at, after values of a."""
    a = torch.cat(parts)
    _, state = feed(BELOW, torch.stack([a, torch.ones_like(a)], dim=-1))
    return float(state.level), float(PI._aimed(channels_of(BELOW, torch.device("cpu"), torch.float64), state))


def test_swings_take_room_below_the_bound_and_add_nothing_to_a_larger_violation():
    swinging, constant = 0.6 * (1 + WAVE), torch.ones(300, dtype=torch.float64)
    level, aimed = aimed_after(swinging)
    assert aimed > level + 0.2
    level, aimed = aimed_after(swinging, 4 * constant)
    assert aimed == level > 0.5


def test_what_happens_before_a_bound_first_holds_takes_no_room():
    far, rest = 4 * (1 + WAVE), torch.full((100,), 0.9, dtype=torch.float64)
    level, aimed = aimed_after(far, rest)
    assert aimed == pytest.approx(level, abs=1e-9)
    level, aimed = aimed_after(rest, far[:240], rest)
    assert aimed > level + 0.1


def test_a_bound_that_was_overdone_is_let_go_faster_the_longer_it_holds():
    """As long as it outweighs the objective; then at the pace of any bound that holds."""
    preference = parsed("a <= 1; minimize b")
    _, state = feed(preference, tensor([1.2, 1.0]).expand(600, 2))
    logits = [float(state.logits)]
    for _ in range(2500):
        _, state = feed(preference, tensor([[0.9, 1.0]]), state=state)
        logits.append(float(state.logits))
    steps = -np.diff(logits)
    assert logits[0] == pytest.approx(14.0)
    assert steps[1000] > 5 * steps[0]
    assert steps[-1] == pytest.approx(steps[0], rel=0.3)
    assert -10 < logits[-1] < K_P * 0.1


def test_the_weights_of_a_ray_sum_to_1_on_it_and_keep_their_relative_mean_off_it():
    ray = tensor([1.0, 2.0, 5.0])
    on = feed(Preference.ray(ray), (0.1 * ray).expand(5, 3))[0][-1].weights
    torch.testing.assert_close(on, (1 / ray) / (1 / ray).sum())
    off = weights_of(feed(Preference.ray(ray), draw(50, 3) - 0.3)[0])
    torch.testing.assert_close((off / on).abs().mean(dim=-1), torch.ones(50, dtype=torch.float64))
    assert float((off - on).abs().amax()) > 0.1


# the linear loop --------------------------------------------------------------------------------------------


def linear_loop(eta_h, G, k_P, k_I):
    """Of (x, u): ``x' = x - eta h x - G (u + k_P x)``, ``u' = u + k_I x'``."""
    x = np.array([1 - eta_h - G * k_P, -G])
    return np.array([x, k_I * x + np.array([0.0, 1.0])])


def test_the_polynomial_and_the_conditions_of_jury():
    rng = np.random.default_rng(0)
    is_concave = []
    for _ in range(2000):
        eta_h, G = rng.choice([-1, 1]) * 10 ** rng.uniform(-3, 0.3), 10 ** rng.uniform(-3, 0.7)
        k_P, k_I = 10 ** rng.uniform(-1, 1), rng.choice([-1, 1], p=[0.1, 0.9]) * 10 ** rng.uniform(-3, 0.5)
        loop = linear_loop(eta_h, G, k_P, k_I)
        assert np.trace(loop) == pytest.approx(2 - eta_h - G * k_P - G * k_I, abs=1e-9)
        assert np.linalg.det(loop) == pytest.approx(1 - eta_h - G * k_P, abs=1e-9)
        radius = np.abs(np.linalg.eigvals(loop)).max()
        is_stable = k_I > 0 and G * k_P + eta_h > 0 and G * (2 * k_P + k_I) + 2 * eta_h < 4
        if abs(radius - 1) > 1e-9:
            assert is_stable == (radius < 1)
        if is_stable:
            is_concave.append(eta_h < 0)
    assert 100 < sum(is_concave) < len(is_concave) - 100  # both kinds of fronts


FRONTS = {
    "concave": lambda s: 1 - torch.exp(-torch.stack([s - 1, s + 1], dim=-1).square()),
    "convex": lambda s: torch.stack([s - 1, s + 1], dim=-1).square(),
}
CALM = FereroPI(memory=1e9, headroom=0.0)  # sizes stand still


def derivatives(front, s):
    s = tensor(s)
    F = front(s)
    slope = torch.autograd.functional.jacobian(front, s)
    bend = torch.autograd.functional.jacobian(lambda x: torch.autograd.functional.jacobian(front, x, True), s)
    return F, slope, bend


def at_rest(front, s, kind, method=CALM):
    """A preference whose fixed point is the front's point at s, the state there, and dlam / du."""
    F, slope, _ = derivatives(front, s)
    lam = -float(slope[1] / slope[0]) * float(F[0] / F[1])  # relative: lam / q + 1 / s, times the slopes, is 0
    preference = parsed(f"a {kind} {float(F[0])!r}; minimize b")
    _, state = feed(preference, F.expand(5, 2), method=method)
    u = torch.zeros_like(state.logits)
    u[0] = math.log(lam) if kind == "<=" else math.asinh(lam)
    still = {"logits": u, "updates": torch.full_like(state.updates, 1e9)}
    return preference, replace(state, **still), (lam if kind == "<=" else math.cosh(float(u[0])))


@pytest.mark.parametrize("kind", ["<=", "=="])
@pytest.mark.parametrize("name", FRONTS)
def test_the_law_is_that_loop_around_a_point_of_the_front(name, kind):
    """The Jacobian of one step of SGD on theta with `FereroPI`, by differences, against eta h, G, k_P and k_I."""
    front, eta, d = FRONTS[name], 0.05, 1e-6
    for s in (-0.4, 0.0, 0.3):
        preference, state, slope_of_lam = at_rest(front, s, kind)

        def step(kick, preference=preference, state=state, s=s):
            x = tensor(s) + kick[0]
            logits = state.logits.clone()
            logits[0] += kick[1]
            decision, new = CALM.update(preference, Observation(front(x)), replace(state, logits=logits))
            moved = x - eta * decision.weights @ torch.autograd.functional.jacobian(front, x)
            return torch.stack([moved - s, new.logits[0] - state.logits[0]])

        kicks = -d * torch.eye(2, dtype=torch.float64)  # to the side where a is too large, since a bound has two
        columns = [(step(kick) - step(0 * kick)) / -d for kick in kicks]
        found = torch.stack(columns, dim=-1).numpy()
        F, slope, bend = derivatives(front, s)
        decision, _ = CALM.update(preference, Observation(F), state)
        torch.testing.assert_close(step(torch.zeros(2, dtype=torch.float64)), tensor([0.0, 0.0]), rtol=0, atol=1e-12)
        eta_h = eta * float(decision.weights @ bend)
        G = eta * float(decision.weights[1] * F[1] * slope_of_lam * (slope[0] / F[0]) ** 2)
        wanted = linear_loop(eta_h, G, K_P, K_I * (1 if kind == "<=" else 2))
        assert (eta_h < 0) == (name == "concave")
        assert np.trace(found) == pytest.approx(np.trace(wanted), abs=1e-4)
        assert np.linalg.det(found) == pytest.approx(np.linalg.det(wanted), abs=1e-4)


def speed(s, kind):
    """``h`` and ``G / eta`` at a point of the concave front."""
    F, slope, bend = derivatives(FRONTS["concave"], s)
    preference, state, slope_of_lam = at_rest(FRONTS["concave"], s, kind)
    decision, _ = CALM.update(preference, Observation(F), state)
    G = decision.weights[1] * F[1] * slope_of_lam * (slope[0] / F[0]) ** 2
    return float(decision.weights @ bend), float(G)


def test_the_gain_is_above_what_the_concave_front_asks_for():
    """kappa = -eta h / G, for bounds and equalities from one end of the front to the other."""
    found = [-h / G for h, G in (speed(s, kind) for s in np.linspace(-0.7, 0.7, 15) for kind in ("<=", "=="))]
    assert min(found) > 0
    assert max(found) == pytest.approx(3.8, abs=0.1)
    assert max(found) < 0.8 * K_P


@pytest.mark.parametrize("kind", ["<=", "=="])
def test_a_small_kick_dies_out_where_the_linear_loop_is_stable_and_grows_where_it_is_not(kind):
    """Gains below kappa, in between, and so large that a step overshoots; on the concave front.

    An overshoot alternates, which a bound takes for noise and smooths, so that it is stable for longer.
    """
    s, front, rates = 0.1, FRONTS["concave"], (0.1, 0.3)
    h, G = speed(s, kind)
    seen = set()
    for k_P in (-0.4 * h / G, -2 * h / G) + ((2.5 / (0.3 * G),) if kind == "==" else ()):
        method = FereroPI(proportional=k_P, steady=k_P, headroom=0.0)
        preference, state, _ = at_rest(front, s, kind, method)
        x = torch.full((len(rates),), s - 1e-4, dtype=torch.float64)
        for _ in range(250):
            x = x.requires_grad_()
            F = front(x)
            decision, state = method.update(preference, Observation(F.detach()), state)
            (gradient,) = torch.autograd.grad((decision.weights * F).sum(), x)
            x = (x - tensor(rates) * gradient).detach()
        for eta, away in zip(rates, (x - s).abs().tolist(), strict=True):
            loop = linear_loop(eta * h, eta * G, k_P, K_I * (1 if kind == "<=" else 2))
            is_stable = np.abs(np.linalg.eigvals(loop)).max() < 1
            assert away < 2e-5 if is_stable else away > 2e-3
            seen.add((is_stable, k_P * G > -h))
    assert seen == {(False, False), (True, True)} | ({(False, True)} if kind == "==" else set())


# headroom ---------------------------------------------------------------------------------------------------


def room_of(values, method=PI):
    """What headroom adds to the violation of ``a <= 1``, read from the multiplier, after the values of a."""
    preference, state, bare = parsed("a <= 1; minimize b"), method.init(parsed("a <= 1; minimize b")), []
    for value in values:
        decision, state = method.update(preference, Observation(tensor([value, 1.0])), state)
        lam_f, lam_g = decision.multipliers.tolist()
        gain = float(method._gain(state.rate)[0])
        u = math.log(lam_g / lam_f) - float(state.units[0] - state.units[1])
        bare.append((u - float(state.logits[0])) / gain - float(state.level[0]))
    return bare[-1]


@pytest.mark.parametrize("period", [10, 20, 40])
def test_a_bound_keeps_clear_by_three_times_its_own_swings(period):
    """Of a sine ``A sin(w t)`` the mean product of successive rises is ``A^2 ((pi - w) cos w + sin w) / 4 pi``."""
    t, amplitude = np.arange(1500), 0.05
    room = room_of(0.9 + amplitude * np.sin(2 * np.pi * t / period))
    w, b = 2 * np.pi / period, 1 / 60
    passed = abs((1 - b) * (1 - np.exp(-1j * w)) / (1 - (1 - b) * np.exp(-1j * w)))  # by taking off the running mean
    swings = ((np.pi - w) * np.cos(w) + np.sin(w)) / (4 * np.pi)
    noise = (1 - np.cos(w)) / 2 * (1 / (2 * np.pi) + 1 / np.sqrt(300))  # what is taken for noise
    assert room == pytest.approx(3 * passed * amplitude * math.sqrt(swings - noise), rel=0.05)


@pytest.mark.slow
def test_noise_of_batches_takes_little_room_and_exact_values_none():
    rooms = [room_of(0.9 + 0.05 * np.random.default_rng(seed).normal(size=700)) for seed in range(3)]
    assert np.median(rooms) < 0.005
    assert max(rooms) < 0.03
    assert room_of(np.full(400, 0.9)) == pytest.approx(0.0, abs=1e-12)
    assert room_of(0.9 + 0.05 * np.sin(np.arange(1200) / 3), FereroPI(headroom=0.0)) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.slow
def test_with_headroom_a_small_kick_dies_out_as_well():
    s, front, rates = 0.1, FRONTS["concave"], (0.1, 0.3)
    method = FereroPI(memory=1e9)
    preference, state, _ = at_rest(front, s, "<=", method)
    x = torch.full((len(rates),), s - 1e-4, dtype=torch.float64)
    away = []
    for _ in range(6000):
        x = x.requires_grad_()
        F = front(x)
        decision, state = method.update(preference, Observation(F.detach()), state)
        (gradient,) = torch.autograd.grad((decision.weights * F).sum(), x)
        x = (x - tensor(rates) * gradient).detach()
        away.append((x - s).abs().amax())
    assert max(away) < 1e-3
    assert away[-1] < 1e-6
