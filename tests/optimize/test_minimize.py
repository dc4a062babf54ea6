"""The point asked for is found, from anywhere, in any units, or the reason why not is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize as scipy_minimize
from tests.optimize.exponential import CENTRE, distance_to_front, exponential, quadratics, random_rays, starts
from torch import Tensor

from ferero.errors import InputError, UnsupportedError
from ferero.fronts import ray_error
from ferero.geometry import Cone
from ferero.methods import Ferero, FereroSA
from ferero.optimize import Progress, Result, certify, minimize, minimize_many
from ferero.preference import Preference, objectives


def is_found(result: Result, ray: np.ndarray) -> bool:
    losses = result.losses.numpy()
    return bool(ray_error(losses, ray) < 0.1) and distance_to_front(losses) < 0.01


# arriving ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "most"), [("normal", 25), ("easy", 10), ("hard", 16)])
def test_every_ray_is_reached_from_every_kind_of_start(kind: str, most: int) -> None:
    rays = random_rays(40, 1)
    results = [minimize(exponential, x0, Preference.ray(r)) for x0, r in zip(starts(kind, 40, 2), rays, strict=True)]
    assert all(is_found(result, ray) for result, ray in zip(results, rays, strict=True))
    assert np.median([result.evaluations for result in results]) <= most
    assert all(result.success for result in results)


def test_the_answer_passes_the_independent_certificate() -> None:
    x0 = starts("easy", 1, 5)[0]
    p = Preference.ray([1.0, 2.0])
    result = minimize(exponential, x0, p)
    assert certify(exponential, result.x, p, x0=x0).worst < 1e-6
    assert result.kkt.worst <= 1e-6


def test_a_constrained_optimum_agrees_with_an_independent_solver() -> None:
    f = objectives("a", "b", "c")
    p = Preference(f, [f.a <= 0.3, f.b - f.c == 0.2], minimize=f.b + f.c)

    def values(x: np.ndarray) -> np.ndarray:
        return quadratics(torch.from_numpy(x)).numpy()

    reference = scipy_minimize(
        lambda x: values(x)[1] + values(x)[2],
        np.zeros(5),
        method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": lambda x: 0.3 - values(x)[0]},
            {"type": "eq", "fun": lambda x: values(x)[1] - values(x)[2] - 0.2},
        ],
        options={"ftol": 1e-14},
    )
    result = minimize(quadratics, torch.zeros(5, dtype=torch.float64), p)
    assert result.status == "converged"
    np.testing.assert_allclose(result.x.numpy(), reference.x, atol=1e-5)


def test_one_objective_is_ordinary_minimisation() -> None:
    result = minimize(
        lambda x: ((x - 2).square().sum() + 1)[None],
        torch.zeros(4, dtype=torch.float64),
        Preference.pareto(1),
    )
    assert result.success
    torch.testing.assert_close(result.x, torch.full((4,), 2.0, dtype=torch.float64), atol=1e-5, rtol=0)


def test_forty_objectives_along_a_ray() -> None:
    centres = torch.from_numpy(np.random.default_rng(0).standard_normal((40, 45)))
    ray = (centres - centres.mean(dim=0)).square().sum(dim=1)
    result = minimize(
        lambda x: (x - centres).square().sum(dim=1), torch.zeros(45, dtype=torch.float64), Preference.ray(ray)
    )
    assert result.success, result.message
    assert float(ray_error(result.losses, ray)) < 1e-3


def test_many_parameters_use_the_limited_metric() -> None:
    n = 2000
    target = torch.linspace(-1, 1, n, dtype=torch.float64)
    fun = lambda x: torch.stack([(x - target).square().mean(), (x + target).square().mean()])  # noqa: E731
    result = minimize(fun, torch.ones(n, dtype=torch.float64), Preference.ray([1.0, 3.0]))
    assert result.success
    assert float(ray_error(result.losses, [1.0, 3.0])) < 1e-3


@pytest.mark.parametrize(
    "build",
    [
        lambda f: Preference(f, [f.f1 <= 0.3]),
        lambda f: Preference(f, [f.f1 - f.f2 == 0.2]),
        lambda f: Preference(f, [f.f1 == 0.5]),
        lambda f: Preference(f, [f.f1 <= 0.4], minimize=f.f2),
        lambda f: Preference.pareto(2),
        lambda f: Preference.from_weights([0.3, 0.7]),
        lambda f: Preference.ray([1.0, 1.0], through=[0.2, 0.1]),
        lambda f: Preference.between([0.1, 0.9], [0.9, 0.3]),
        lambda f: Preference.ray([1.0, 2.0], cone=Cone([[1.0, 0.5], [0.5, 1.0]])),
    ],
)
def test_every_kind_of_preference_is_met_and_stationary(build: object) -> None:
    p = build(objectives("f1", "f2"))  # type: ignore[operator]
    for x0 in starts("easy", 5, 7):
        result = minimize(exponential, x0, p)
        assert result.status == "converged", result.message
        assert bool(p.is_satisfied(result.losses, atol=1e-5))


def test_a_held_objective_does_not_stop_the_others() -> None:
    """c == 0.9 fixes c; a and b must still end on their trade-off, not wherever c was first met."""
    f = objectives("a", "b", "c")
    result = minimize(
        quadratics, torch.tensor([2.0, -1.0, 0.5, 1.0, 1.0], dtype=torch.float64), Preference(f, [f.c == 0.9])
    )
    assert result.success
    torch.testing.assert_close(result.x[3:], torch.zeros(2, dtype=torch.float64), atol=1e-5, rtol=0)


# steps ------------------------------------------------------------------------------------------------


def test_no_step_makes_a_line_worse() -> None:
    """On a ray the merit is the largest loss relative to it; it falls at every step."""
    for x0, ray in zip(starts("hard", 10, 3), random_rays(10, 4), strict=True):
        history = minimize(exponential, x0, Preference.ray(ray)).history
        merit = (history.losses / ray).max(axis=1)
        assert (np.diff(merit) < 0).all()


@pytest.mark.parametrize("factor", [2.0, 1e6])
@pytest.mark.parametrize("kind", ["easy", "hard", "normal"])
def test_the_trajectory_is_the_same_in_any_units_of_a_loss(factor: float, kind: str) -> None:
    scale = torch.tensor([1.0, factor], dtype=torch.float64)
    x0, ray = starts(kind, 1, 11)[0], random_rays(1, 12)[0]
    plain, scaled = [], []
    minimize(exponential, x0, Preference.ray(ray), callback=lambda step: plain.append(step.x))
    rescaled = Preference.ray(scale.numpy() * ray)
    minimize(lambda x: scale * exponential(x), x0, rescaled, callback=lambda step: scaled.append(step.x))
    assert len(plain) == len(scaled)
    for a, b in zip(plain, scaled, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("factor", [1e-3, 1e4])
def test_the_trajectory_is_the_same_in_any_units_of_the_parameters(factor: float) -> None:
    x0 = starts("easy", 1, 13)[0]
    p = Preference.ray([1.0, 2.0])
    plain = minimize(exponential, x0, p)
    scaled = minimize(lambda x: exponential(x / factor), factor * x0, p)
    assert plain.evaluations == scaled.evaluations
    np.testing.assert_allclose(plain.history.losses, scaled.history.losses, rtol=1e-6, atol=1e-9)


def test_the_order_of_the_losses_does_not_matter() -> None:
    f, g = objectives("a", "b", "c"), objectives("c", "b", "a")
    x0 = torch.tensor([2.0, -1.0, 0.5, 1.0, 1.0], dtype=torch.float64)
    plain = minimize(quadratics, x0, Preference(f, [f.a <= 0.4, f.b - f.c == 0.1]))
    turned = minimize(lambda x: quadratics(x).flip(0), x0, Preference(g, [g.a <= 0.4, g.b - g.c == 0.1]))
    torch.testing.assert_close(plain.losses, turned.losses.flip(0), atol=1e-5, rtol=0)


def test_a_plateau_whose_slope_the_losses_cannot_show_is_left() -> None:
    x0 = 6.5 * CENTRE + torch.linspace(-0.3, 0.3, 20, dtype=torch.float64)  # 1 - F underflows to 0 here
    assert float(exponential(x0)[1]) == 1.0
    result = minimize(exponential, x0, Preference.ray([1.0, 1.0]))
    assert is_found(result, np.array([1.0, 1.0]) / 2**0.5), result


# the paper's fixed step -------------------------------------------------------------------------------


def test_the_fixed_step_replays_algorithm_1() -> None:
    """Two steps by hand with the weights of the subprogram."""
    x = starts("easy", 1, 1)[0]
    p, method = Preference.ray([1.0, 1.0]), Ferero()
    seen: list[Tensor] = []
    minimize(exponential, x, p, method=method, step=0.05, max_iter=2, callback=lambda step: seen.append(step.x))
    from ferero.subprogram import solve_subprogram

    for found in seen:
        y = x.clone().requires_grad_()
        losses = exponential(y)
        J = torch.stack([torch.autograd.grad(loss, y, retain_graph=True)[0] for loss in losses])
        x = x - 0.05 * solve_subprogram(p, losses.detach(), J @ J.T).weights @ J
        torch.testing.assert_close(found, x, atol=1e-10, rtol=0)


def test_single_loop_runs_with_a_fixed_step_and_refuses_auto() -> None:
    p = Preference.ray([1.0, 1.0])
    with pytest.raises(UnsupportedError, match=r"FereroSA has no merit.*step=0\.05"):
        minimize(exponential, CENTRE, p, method=FereroSA())
    result = minimize(exponential, starts("easy", 1, 3)[0], p, method=FereroSA(gamma=0.5), step=0.1, max_iter=400)
    assert float(ray_error(result.losses, [1.0, 1.0])) < 1.0


@pytest.mark.slow
def test_with_the_papers_setting_the_opened_cone_succeeds_more_often_than_the_orthant() -> None:
    """Algorithm 2 from 100 hard starts: step 0.6, c_h = 0.01, 200 iterations; success: 5 degrees, 0.05 of the front.

    The paper does not print gamma, and the outcome turns on it. Of the values tried, 1.0 and 0.6 favour the opened cone
    and 0.1 moves neither; away from the paper's c_h, at c_h = 0.1 and gamma = 0.5, the orthant is the better one.
    """
    rays = random_rays(100, 21)
    opened = orthant = 0
    for x0, ray in zip(starts("hard", 100, 22), rays, strict=True):
        losses = exponential(x0).numpy()
        target = ray * (losses @ ray)
        for general in (True, False):
            cone = Cone.orthant(2)
            if general and not (target >= losses).all():
                cone = cone.allowing_ascent(losses, target)
            method = FereroSA(gamma=1.0, c_h=0.01)
            p = Preference.ray(ray, cone=cone)
            result = minimize(exponential, x0, p, method=method, step=0.6, max_iter=200)
            near = float(ray_error(result.losses, ray)) < 5.0 and distance_to_front(result.losses.numpy()) < 0.05
            opened += near and general
            orthant += near and not general
    assert opened > orthant


@pytest.mark.parametrize(("method", "step"), [(Ferero(), 0.05), (FereroSA(gamma=0.05), 0.05)])
@pytest.mark.slow
def test_the_averaged_kkt_merit_falls_like_one_over_t(method: object, step: float) -> None:
    """Theorems 1 and 3 on a convex quadratic: fitted slope of the average of |d|^2 + |H|^2 over log T."""
    p = Preference.ray([1.0, 1.2, 1.4])
    x0 = torch.tensor([2.0, -1.0, 0.5, 1.0, 1.0], dtype=torch.float64)
    result = minimize(quadratics, x0, p, method=method, step=step, max_iter=2000, tol=1e-14)  # type: ignore[arg-type]
    merit = []
    for losses, weights, length in zip(
        result.history.losses[:-1], result.history.weights, result.history.length, strict=True
    ):
        del weights
        merit.append((length / step) ** 2 + float(p.violation(losses).square().sum()))
    averaged = np.cumsum(merit) / np.arange(1, len(merit) + 1)
    times = np.arange(1, len(merit) + 1)
    late = times > len(times) // 10
    slope = np.polyfit(np.log(times[late]), np.log(averaged[late]), 1)[0]
    assert slope <= -0.9


# not arriving -----------------------------------------------------------------------------------------


def test_what_cannot_be_had_is_named_with_the_closest_point() -> None:
    f = objectives("f1", "f2")
    result = minimize(exponential, starts("easy", 1, 3)[0], Preference(f, [f.f1 <= 0.3, f.f2 <= 0.3]))
    assert result.status == "unattainable"
    assert not result.success
    assert "<= 0.3 (by 0.4" in result.message
    assert distance_to_front(result.losses.numpy()) < 1e-2


def test_a_ray_that_misses_everything_is_unattainable() -> None:
    """f2 >= 1 + f1, so the ray f1 = 2 f2 cannot be met; the closest point is where the ratio is largest."""

    def fun(x: Tensor) -> Tensor:
        first = x.square().sum() + 0.5
        return torch.stack([first, first + 1 + (x - 1).square().sum()])

    result = minimize(fun, torch.tensor([0.3, -0.4], dtype=torch.float64), Preference.ray([2.0, 1.0]))
    assert result.status == "unattainable"
    assert "F along" in result.message


def test_max_iter_is_said_and_kept() -> None:
    result = minimize(exponential, starts("normal", 1, 3)[0], Preference.ray([1.0, 2.0]), max_iter=3)
    assert (result.status, result.iterations) == ("max_iter", 3)
    assert "Raise max_iter" in result.message


def test_non_finite_losses_end_the_run_with_the_last_finite_point() -> None:
    start = torch.zeros(2, dtype=torch.float64)
    result = minimize(lambda x: x.sum() * torch.tensor([float("nan"), 1.0]), start, Preference.pareto(2))
    assert result.status == "non_finite"
    result = minimize(
        lambda x: torch.stack(
            [x.square().sum() + 1, (x - 1).square().sum() + torch.where(x.sum() > 1.2, torch.nan, 0.0)]
        ),
        start,
        Preference.ray([1.5, 1.0]),
    )
    assert np.isfinite(result.losses.numpy()).all()


def test_zero_gradients_are_stationary_or_unattainable_never_an_exception() -> None:
    constant = lambda x: torch.stack([0 * x.sum() + 1, 0 * x.sum() + 2])  # noqa: E731
    assert minimize(constant, torch.ones(3), Preference.pareto(2)).status == "converged"
    assert minimize(constant, torch.ones(3), Preference.ray([1.0, 1.0])).status == "unattainable"


# what goes in comes out -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_come_back_in_their_own_shape_and_dtype(dtype: torch.dtype) -> None:
    x0 = torch.full((2, 3), 0.5, dtype=dtype)
    kept = x0.clone()
    result = minimize(
        lambda x: torch.stack([(x - 1).square().sum(), (x + 1).square().sum()]),
        x0,
        Preference.ray([1.0, 1.0]),
        tol=1e-4,
    )
    assert result.success
    assert (result.x.shape, result.x.dtype) == (x0.shape, dtype)
    torch.testing.assert_close(x0, kept)


@pytest.mark.parametrize("with_jac", [True, False])
def test_numpy_in_numpy_out(with_jac: bool) -> None:
    fun = lambda x: np.array([((x - 1) ** 2).sum(), ((x + 1) ** 2).sum()])  # noqa: E731
    jac = (lambda x: np.stack([2 * (x - 1), 2 * (x + 1)])) if with_jac else None
    result = minimize(fun, np.array([0.5, -2.0]), Preference.ray([1.0, 2.0]), jac=jac)
    assert result.success
    assert isinstance(result.x, np.ndarray)
    assert isinstance(result.losses, np.ndarray)
    assert result.losses[1] / result.losses[0] == pytest.approx(2.0, rel=1e-5)


def test_every_call_of_fun_is_counted() -> None:
    calls = 0

    def fun(x: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        return np.array([((x - 1) ** 2).sum(), ((x + 1) ** 2).sum()])

    result = minimize(fun, np.array([0.5, -2.0]), Preference.ray([1.0, 2.0]))
    assert result.evaluations == calls


def test_negative_losses_are_refused_by_name_and_taken_with_a_lower_bound() -> None:
    fun = lambda x: quadratics(x)[:2] - 3.0  # noqa: E731
    x0 = torch.tensor([0.4, 0.4, 0.1, 0.0, 0.2], dtype=torch.float64)
    with pytest.raises(InputError, match="lower="):
        minimize(fun, x0, Preference.pareto(2))
    assert minimize(fun, x0, Preference.pareto(2), lower=-3.0).success
    assert minimize(fun, x0, Preference.pareto(2), method=Ferero(domain="simplex")).success


def test_callbacks_see_progress_and_may_stop() -> None:
    seen: list[Progress] = []

    def watch(step: Progress) -> None:
        seen.append(step)
        if len(seen) == 2:
            raise StopIteration

    result = minimize(exponential, starts("easy", 1, 3)[0], Preference.ray([1.0, 2.0]), callback=watch)
    assert [step.iteration for step in seen] == [1, 2]
    assert result.iterations == 2
    assert "stopped by the callback" in result.message


def test_the_cone_that_was_used_is_told() -> None:
    f = objectives("f1", "f2")
    x0 = starts("hard", 1, 3)[0]
    opened = minimize(exponential, x0, Preference(f, [f.f1 - f.f2 == 0.0, f.f1 <= 0.9]), max_iter=1).cone
    assert opened.matrix.shape == (2, 2)
    assert not torch.equal(opened.matrix, torch.eye(2, dtype=torch.float64))
    for line in (Preference.ray([1.0, 1.0]), Preference(f, [f.f1 - f.f2 == 0.0])):
        used = minimize(exponential, x0, line, max_iter=1).cone.matrix
        torch.testing.assert_close(used, torch.eye(2, dtype=torch.float64))


@pytest.mark.slow
def test_equalities_that_describe_a_line_are_met_on_a_bent_front() -> None:
    f = objectives("mass", "sag", "cost")

    def beam(x: np.ndarray) -> np.ndarray:
        width, length, grade = np.exp(x)
        mass = width**2 * length + 0.05 * length**2 + 0.05 / length
        return np.array([mass, 0.1 * length**3 / width**4, grade + 1 / (grade * width) + 0.1 * mass])

    ends = []
    for seed in range(12):
        random = np.random.default_rng(seed)
        reached, start = beam(0.5 * random.normal(size=3)), 0.5 * random.normal(size=3)
        apart = [f.sag - f.mass == float(reached[1] - reached[0]), f.cost - f.mass == float(reached[2] - reached[0])]
        found = minimize(beam, start, Preference(f, apart), max_iter=600)
        ends.append(found.status)
        if found.success:
            off = (found.losses - reached) - (found.losses - reached)[0]
            assert np.abs(off).max() < 1e-4 * reached.max()
    assert ends.count("converged") >= 11


@pytest.mark.parametrize("m", [2, 3, 5])
def test_equalities_that_describe_a_line_are_followed_as_one(m: int) -> None:
    generator = torch.Generator().manual_seed(m)
    names = objectives(*(f"f{i}" for i in range(m)))
    for _ in range(12):
        roots = torch.randn(m, 6, 6, dtype=torch.float64, generator=generator)
        centres = torch.randn(m, 6, dtype=torch.float64, generator=generator)

        def fun(x: torch.Tensor, roots: torch.Tensor = roots, centres: torch.Tensor = centres) -> torch.Tensor:
            return (roots @ (x - centres)[:, :, None]).square().sum(dim=(1, 2))

        best = fun(centres.mean(dim=0))
        apart = [names[i] - names[0] == float(best[i] - best[0]) for i in range(1, m)]
        start = 2 * torch.randn(6, dtype=torch.float64, generator=generator)
        found = minimize(fun, start, Preference(names, apart))
        assert found.status == "converged"
        assert found.iterations < 60
        assert float((found.losses - best - (found.losses - best)[0]).abs().max()) < 1e-4 * float(best.max())
        assert (found.losses <= best * (1 + 1e-6)).all()


def test_many_at_once_equals_one_by_one() -> None:
    rays, points = random_rays(12, 31), starts("easy", 12, 32)
    preferences = [Preference.ray(ray) for ray in rays]
    together = minimize_many(exponential, torch.stack(points), preferences)
    for result, x0, p in zip(together, points, preferences, strict=True):
        alone = minimize(exponential, x0, p)
        assert result.status == alone.status == "converged"
        torch.testing.assert_close(result.losses, alone.losses, atol=1e-6, rtol=0)
        assert len(result.history) == result.iterations


def test_a_function_that_cannot_be_vmapped_is_looped() -> None:
    def stubborn(x: Tensor) -> Tensor:
        return exponential(x) * (1.0 if x.sum().item() < 1e9 else 2.0)

    results = minimize_many(stubborn, starts("easy", 1, 3)[0], [Preference.ray(ray) for ray in random_rays(5, 33)])
    assert all(result.success for result in results)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": "armijo"}, 'step: expected "auto" or a positive number'),
        ({"step": -1.0}, 'step: expected "auto" or a positive number'),
        ({"max_iter": -1}, "max_iter: expected a non-negative integer"),
        ({"tol": 0.0}, "tol: expected a positive number"),
        ({"lower": [1.0, 2.0, 3.0]}, r"lower: expected one number or shape \(2,\)"),
        ({"preference": Preference.pareto(3)}, "expected 3 losses, as the preference names them"),
        ({"preference": "f1 <= 1"}, "preference: expected a Preference, found str; Preference.parse"),
        ({"preference": Preference.stack([Preference.pareto(2)] * 2)}, "use ferero.trace"),
        ({"x0": torch.full((20,), torch.nan)}, "x0: expected finite numbers"),
        ({"x0": torch.zeros(0)}, "x0: expected at least one parameter"),
        ({"x0": torch.arange(20)}, "x0: expected a floating point tensor"),
        ({"fun": lambda x: x.sum()}, r"shape \(m,\), found shape \(\)"),
        ({"fun": lambda x: [x.sum(), x.sum()]}, "stack them"),
        ({"fun": lambda x: torch.ones(2)}, "carry no gradient"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(change: dict[str, object], message: str) -> None:
    call: dict[str, object] = {
        "fun": exponential,
        "x0": CENTRE * 0.5,
        "preference": Preference.ray([1.0, 1.0]),
    } | change
    with pytest.raises(InputError, match=message):
        minimize(**call)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "value"), [("c_g", 0.5), ("c_h", 0.5), ("bound", 0.01), ("solver", "batched")])
def test_settings_that_the_search_would_not_read_are_refused(name: str, value: object) -> None:
    """With a fixed step they act; with step="auto", which has its own, they say so."""
    f = objectives("a", "b")
    x0, wanted = starts("easy", 1, 5)[0], Preference(f, [f.a <= 0.3, f.b - f.a == 0.2])
    method = Ferero(**{name: value})  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match=rf'{name}: step="auto" sets it by itself, found {value!r}; leave it at'):
        minimize(exponential, x0, wanted, method=method)
    if name != "solver":  # which only decides how the same answer is found
        paths = [minimize(exponential, x0, wanted, method=one, step=0.05, max_iter=3).x for one in (Ferero(), method)]
        assert not torch.equal(*paths)
