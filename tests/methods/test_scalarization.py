import dataclasses
import io

import numpy as np
import pytest
import torch

import ferero
from ferero.errors import InputError, NonFiniteError, UnsupportedError
from ferero.methods import Observation
from ferero.methods._baselines.scalarization import (
    LinearScalarization,
    ScalarizationState,
    SmoothTchebycheff,
    Tchebycheff,
)
from ferero.preference import Preference
from ferero_lab.problems.exponential import Exponential

RAY = Preference.ray([1.0, 3.0])
SHIFTED = Preference.ray([1.0, 3.0], through=[0.5, 0.25])
METHODS = [
    LinearScalarization(),
    LinearScalarization((1.0, 2.0)),
    Tchebycheff(),
    Tchebycheff(weights=(1.0, 2.0), ideal=(-1.0, 0.5)),
    Tchebycheff(ideal="tracked"),
    SmoothTchebycheff(),
    SmoothTchebycheff(0.5, (1.0, 2.0), (-1.0, 0.5)),
    SmoothTchebycheff(ideal="tracked"),
]
SMOOTH = [LinearScalarization(), SmoothTchebycheff(), SmoothTchebycheff(0.5, (1.0, 2.0), (-1.0, 0.5))]
every_method = pytest.mark.parametrize("method", METHODS, ids=repr)


def run(method, preference, steps):
    state, decisions = method.init(preference), []
    for losses in steps:
        observation = losses if isinstance(losses, Observation) else Observation(losses)
        decision, state = method.update(preference, observation, state)
        decisions.append(decision.weights)
    return decisions, state


def once(method, preference, losses, present=None):
    return run(method, preference, [Observation(losses, present=present)])[0][0].tolist()


def test_by_hand():
    F = [2.0, 1.0]  # r = (3/4, 1/4): r F = (1.5, 0.25)
    assert once(LinearScalarization(), RAY, F) == pytest.approx([0.75, 0.25])
    assert once(Tchebycheff(), RAY, F) == pytest.approx([0.75, 0.0])
    e = np.exp((0.25 - 1.5) / 0.2)
    assert once(SmoothTchebycheff(0.2), RAY, F) == pytest.approx([0.75 / (1 + e), 0.25 * e / (1 + e)])


def test_without_a_ray_all_losses_count_the_same():
    pareto = Preference.pareto(4)
    assert once(LinearScalarization(), pareto, [4.0, 3.0, 2.0, 1.0]) == [0.25] * 4
    assert once(Tchebycheff(), pareto, [4.0, 3.0, 2.0, 1.0]) == [0.25, 0.0, 0.0, 0.0]


def test_given_weights_are_normalised_and_kept_as_given():
    method = LinearScalarization([1, 3])
    assert once(method, RAY, [1.0, 1.0]) == [0.25, 0.75]
    assert method == LinearScalarization(np.array([1.0, 3.0])) == LinearScalarization(torch.tensor([1, 3]))
    assert hash(method) == hash(LinearScalarization((1.0, 3.0)))
    assert dataclasses.replace(method) == method
    assert once(Tchebycheff(weights=(0.0, 5.0)), RAY, [9.0, 1.0]) == [0.0, 1.0]


def test_the_ideal_is_where_the_ray_starts_unless_given():
    F = [1.0, 2.0]  # r (F - z) = (0.375, 0.4375); without z (0.75, 0.5)
    assert once(Tchebycheff(), RAY, F) == pytest.approx([0.75, 0.0])
    assert once(Tchebycheff(), SHIFTED, F) == pytest.approx([0.0, 0.25])
    assert once(Tchebycheff(ideal=[0.5, 0.25]), RAY, F) == pytest.approx([0.0, 0.25])
    assert once(Tchebycheff(ideal=[0.0, 0.0]), SHIFTED, F) == pytest.approx([0.75, 0.0])


@pytest.mark.parametrize("kind", [Tchebycheff, SmoothTchebycheff])
def test_a_tracked_ideal_is_the_smallest_value_so_far(kind):
    method, pareto = kind(ideal="tracked"), Preference.pareto(2)
    steps = [[3.0, 5.0], [4.0, 4.0], [2.0, 4.5]]
    weights, state = run(method, pareto, steps)
    assert state.lowest.tolist() == [2.0, 4.0]
    for i, weight in enumerate(weights):
        lowest = np.min(steps[: i + 1], axis=0)
        assert weight.tolist() == pytest.approx(once(kind(ideal=lowest), pareto, steps[i]))
    assert weights[0].tolist() == [0.25, 0.25]  # both are at their best


def test_what_is_not_tracked_is_not_kept():
    _, state = run(Tchebycheff(), RAY, [[1.0, 2.0]])
    assert state.seen.tolist() == state.lowest.tolist() == [0.0, 0.0]


def test_equal_worst_losses_share():
    pareto = Preference.pareto(3)
    assert once(Tchebycheff(), pareto, [2.0, 1.0, 2.0]) == pytest.approx([1 / 6, 0.0, 1 / 6])
    assert once(Tchebycheff(), pareto, [0.0, 0.0, 0.0]) == pytest.approx([1 / 9] * 3)


def test_smooth_lies_between_the_two_others():
    F = torch.tensor([0.9, 1.0, 0.4], dtype=torch.float64)
    pareto = Preference.pareto(3)
    assert once(SmoothTchebycheff(1e-6), pareto, F) == pytest.approx(once(Tchebycheff(), pareto, F), abs=1e-12)
    linear = once(LinearScalarization(), pareto, F)
    assert [3 * w for w in once(SmoothTchebycheff(1e6), pareto, F)] == pytest.approx(linear, rel=1e-5)


@pytest.mark.parametrize("method", SMOOTH, ids=repr)
def test_weights_are_the_gradient_of_the_merit(method):
    F, h = torch.tensor([0.7, 1.1], dtype=torch.float64), 1e-6
    for preference in (RAY, Preference.pareto(2)):
        shifts = h * torch.eye(2, dtype=torch.float64)
        gradient = method.change(preference, F - shifts, F + shifts) / (2 * h)
        assert once(method, preference, F) == pytest.approx(gradient.tolist(), rel=1e-7)


def test_changes_of_the_merit():
    before, after = np.array([2.0, 1.0]), np.array([0.5, 4.0])
    r = np.array([0.75, 0.25])
    assert float(LinearScalarization().change(RAY, before, after)) == pytest.approx(r @ (after - before))
    assert float(Tchebycheff().change(RAY, before, after)) == pytest.approx(max(r * after) - max(r * before))
    for mu in (0.01, 0.3, 100.0):
        smooth = lambda F, mu=mu: mu * np.logaddexp.reduce(r * F / mu)  # noqa: E731
        found = SmoothTchebycheff(mu).change(RAY, before, after)
        assert float(found) == pytest.approx(smooth(after) - smooth(before), rel=1e-9)


def test_a_small_change_is_not_lost_beside_a_large_value():
    change = SmoothTchebycheff().change(Preference.pareto(2), [1e3, 1e3], [1e3 - 2.0**-40, 1e3])
    assert float(change) == pytest.approx(-(2.0**-40) / 4, rel=1e-6)


def test_changes_come_in_batches():
    rng = np.random.default_rng(0)
    before, after = rng.uniform(0, 2, (4, 3, 2)), rng.uniform(0, 2, (4, 3, 2))
    members = [RAY, Preference.ray([1.0, 1.0]), SHIFTED]
    for method in (Tchebycheff(), SmoothTchebycheff(0.2)):
        together = method.change(Preference.stack(members), before, after)
        for i, member in enumerate(members):
            torch.testing.assert_close(together[:, i], method.change(member, before[:, i], after[:, i]))


def test_a_missing_loss_takes_no_part():
    F = [2.0, float("nan")]
    here = [True, False]
    assert once(LinearScalarization(), RAY, F, here) == pytest.approx([0.75, 0.25])
    assert once(Tchebycheff(), RAY, F, here) == pytest.approx([0.75, 0.0])
    assert once(SmoothTchebycheff(), RAY, F, here) == pytest.approx([0.75, 0.0])
    assert once(SmoothTchebycheff(mu=50.0), RAY, F, here) == pytest.approx([0.75, 0.0])
    for method in (Tchebycheff(), SmoothTchebycheff()):
        assert once(method, RAY, [float("nan")] * 2, [False, False]) == pytest.approx([0.0, 0.0])


def test_a_missing_loss_is_not_tracked():
    method = Tchebycheff(ideal="tracked")
    steps = [Observation([2.0, -9.0], present=[True, False]), Observation([1.0, 3.0]), Observation([2.0, 4.0])]
    weights, state = run(method, Preference.pareto(2), steps)
    assert state.lowest.tolist() == [1.0, 3.0]
    assert weights[2].tolist() == [0.25, 0.25]


@every_method
def test_a_stack_equals_a_loop(method):
    rng = np.random.default_rng(1)
    members = [RAY, Preference.ray([2.0, 1.0]), Preference.ray([0.0, 1.0])]
    F = rng.uniform(0, 2, (5, 4, 3, 2))
    together, _ = run(method, Preference.stack(members), F)
    for i, member in enumerate(members):
        for j in range(4):
            alone, _ = run(method, member, F[:, j, i])
            for a, b in zip(together, alone, strict=True):
                torch.testing.assert_close(a[j, i], b)


@every_method
def test_permuted_losses_have_permuted_weights(method):
    rng = np.random.default_rng(2)
    order = [2, 0, 3, 1]
    ray, F = rng.uniform(0.5, 2, 4), rng.uniform(0, 2, (3, 4))
    F[2, 1] = F[2, 3] = 5.0
    values = {"weights": rng.uniform(0, 1, 4), "ideal": rng.uniform(-1, 0, 4)}
    given = {k: v for k, v in values.items() if not isinstance(getattr(method, k), str | None)}
    plain = dataclasses.replace(method, **given)
    permuted = dataclasses.replace(method, **{k: v[order] for k, v in given.items()})
    wanted, _ = run(plain, Preference.ray(ray), F)
    found, _ = run(permuted, Preference.ray(ray[order]), F[:, order])
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b[order])


@every_method
def test_inputs_are_untouched(method):
    F = torch.tensor([2.0, 1.0], dtype=torch.float64, requires_grad=True)
    state = method.init(RAY)
    kept = dataclasses.asdict(state)
    kept = {name: value.clone() for name, value in kept.items()}
    first, _ = method.update(RAY, Observation(F), state)
    second, _ = method.update(RAY, Observation(F), state)
    assert torch.equal(first.weights, second.weights)
    assert not first.weights.requires_grad
    assert F.tolist() == [2.0, 1.0]
    assert all(torch.equal(getattr(state, name), value) for name, value in kept.items())


@every_method
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_weights_have_the_losses_type(method, dtype):
    weights, state = run(method, RAY, [torch.tensor([2.0, 1.0]).to(dtype)] * 2)
    assert weights[1].dtype == dtype
    assert state.lowest.dtype == torch.float64


@every_method
def test_no_value_is_looked_at_outside_the_cpu(method):
    present = torch.ones(2, dtype=torch.bool, device="meta")  # a tensor without values: any look at one raises
    for here in (None, present):
        observation = Observation(torch.ones(2, device="meta"), present=here)
        decision, state = method.update(RAY, observation, method.init(RAY))
        decision, _ = method.update(RAY, observation, state)
        assert decision.weights.device.type == "meta"


@every_method
def test_the_state_survives_saving(method):
    _, state = run(method, RAY, [[1.0, 0.5], [0.5, 0.75]])
    buffer = io.BytesIO()
    torch.save(dataclasses.asdict(state), buffer)
    buffer.seek(0)
    loaded = ScalarizationState(**torch.load(buffer, weights_only=True))
    later = Observation([0.9, 0.7])
    a, _ = method.update(RAY, later, state)
    b, _ = method.update(RAY, later, loaded)
    assert torch.equal(a.weights, b.weights)


@pytest.mark.parametrize("kind", [LinearScalarization, Tchebycheff, SmoothTchebycheff])
def test_one_loss(kind):
    assert once(kind(), Preference.pareto(1), [0.3]) == [1.0]


def test_they_declare_themselves():
    for method in METHODS:
        assert method.requires == {"losses"}
        assert method.has_merit is not isinstance(method, Tchebycheff)
        assert method.understands(RAY) is method.understands(Preference.pareto(3)) is None
        assert (method.understands(SHIFTED) is None) is not isinstance(method, LinearScalarization)
        assert "cone=" in method.understands(Preference.pareto(2, cone=ferero.Cone([[1.0, 0.5], [0.0, 1.0]])))
        with pytest.raises(UnsupportedError, match="knows no constraint but"):
            method.init(Preference.parse("f1 <= 1", names=["f1", "f2"]))


@pytest.mark.parametrize("kind", [LinearScalarization, Tchebycheff, SmoothTchebycheff])
def test_bad_weights_are_refused(kind):
    with pytest.raises(InputError, match=r"weights: expected numbers >= 0, not all of them 0, found \[-1.0, 2.0\]"):
        kind(weights=[-1, 2])
    with pytest.raises(InputError, match=r"weights: expected numbers >= 0, not all of them 0, found \[0.0, 0.0\]"):
        kind(weights=[0, 0])
    with pytest.raises(InputError, match=r"weights: expected one number for each loss, found shape \(1, 2\)"):
        kind(weights=[[1, 2]])
    with pytest.raises(InputError, match=r"weights: expected finite numbers"):
        kind(weights=[1, np.nan])
    with pytest.raises(InputError, match=r"weights: expected 2 numbers, one for each of f1, f2, found 3"):
        kind(weights=[1, 2, 3]).init(RAY)


def test_bad_settings_are_refused():
    for mu in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InputError, match=r"mu: expected a positive finite number"):
            SmoothTchebycheff(mu)
    with pytest.raises(InputError, match=r'ideal: expected None, a number .* or "tracked" .* found \'utopia\''):
        Tchebycheff(ideal="utopia")
    with pytest.raises(InputError, match=r"ideal: expected 2 numbers, one for each of f1, f2, found 1"):
        Tchebycheff(ideal=[0.0]).init(RAY)


def test_bad_observations_are_refused():
    for method in METHODS:
        with pytest.raises(NonFiniteError, match="losses: expected finite numbers"):
            once(method, RAY, [np.inf, 1.0])
        with pytest.raises(InputError, match=r"losses: expected shape \(..., 2\)"):
            once(method, RAY, [1.0, 1.0, 1.0])
    with pytest.raises(InputError, match=r"after: expected shape \(..., 2\)"):
        LinearScalarization().change(RAY, [1.0, 1.0], [1.0])
    with pytest.raises(UnsupportedError, match=r'ideal="tracked"\) has no fixed merit; give ideal='):
        SmoothTchebycheff(ideal="tracked").change(RAY, [1.0, 1.0], [1.0, 1.0])


CENTRES = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], dtype=torch.float64)


def quadratic(x):
    return (x - CENTRES).square().sum(dim=-1)


@pytest.mark.parametrize("ray", [[1.0, 1.0], [1.0, 3.0], [4.0, 1.0]])
def test_a_weighted_sum_ends_where_the_weights_are_normal_to_a_convex_front(ray):
    x0 = torch.tensor([0.5, 2.0, -1.0], dtype=torch.float64)
    preference = Preference.ray(ray)
    r = ferero.minimize(quadratic, x0, preference, method=LinearScalarization(), step=0.1, max_iter=200, tol=1e-9)
    shares = torch.tensor([ray[1], ray[0]], dtype=torch.float64) / sum(ray)
    torch.testing.assert_close(r.x, shares @ CENTRES, rtol=0, atol=1e-6)
    J = 2 * (r.x - CENTRES)
    torch.testing.assert_close(shares @ J, torch.zeros(3, dtype=torch.float64), rtol=0, atol=1e-6)


def test_a_weighted_sum_ends_at_an_end_of_a_concave_front():
    problem = Exponential()
    starts = problem.starts("easy", 4, torch.Generator().manual_seed(0))
    for x0, ray in zip(starts, [[1.0, 1.0], [1.0, 2.0], [2.0, 1.0], [3.0, 2.0]], strict=True):
        r = ferero.minimize(
            problem, x0, Preference.ray(ray), method=LinearScalarization(), step=0.5, max_iter=300, tol=1e-9
        )
        assert float(r.losses.min()) <= 0.05
        assert float(r.losses.max()) >= 0.9


@pytest.mark.parametrize("kind", [Tchebycheff, SmoothTchebycheff])
def test_the_worst_loss_ends_near_the_ray_on_a_concave_front(kind):
    problem = Exponential()
    method = kind() if kind is Tchebycheff else kind(mu=0.005)
    starts = problem.starts("easy", 3, torch.Generator().manual_seed(1))
    for x0, ray in zip(starts, [[1.0, 1.0], [1.0, 2.0], [3.0, 1.0]], strict=True):
        r = ferero.minimize(problem, x0, Preference.ray(ray), method=method, step=0.03, max_iter=300, tol=1e-9)
        assert float(ferero.ray_error(r.losses, torch.tensor(ray, dtype=torch.float64))) <= 1.0
        assert float(problem.distance_to_front(r.losses[None])) <= 1e-2
