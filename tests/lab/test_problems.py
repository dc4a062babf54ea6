"""Each problem's truth, checked against the problem itself."""

import numpy as np
import pytest
import torch
from scipy.optimize import nnls

from ferero.errors import InputError, UnknownNameError
from ferero.geometry import nondominated
from ferero_lab import problems
from ferero_lab.problems.problem import lattice, uniform

ALL = [
    *(problems.get(name) for name in problems.names()),
    problems.Exponential(q=3, scale=(2.0, 1e3)),
    problems.ConvexQuadratics(m=5, n=4, scale=(1.0, 2.0, 3.0, 4.0, 5.0), seed=1),
    problems.ConvexQuadratics(m=1, n=3),
    problems.DTLZ2(m=4),
    problems.ConvexDTLZ2(m=2),
]
each = pytest.mark.parametrize("problem", ALL, ids=lambda p: f"{p.name}-{p.m}-{p.n}")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def some_shares(problem, count=40):
    return uniform(problem.m, count, generator())


def far_points(problem, count=200):
    start = problem.starts(problem.start_kinds[0], count, generator(1))
    return torch.func.vmap(problem)(start)


@each
def test_shapes_and_dtypes(problem):
    theta = problem.starts(problem.start_kinds[0], 3, generator())
    assert theta.shape == (3, problem.n)
    assert theta.dtype == torch.float64
    losses = problem(theta[0])
    assert losses.shape == (problem.m,) == problem.ideal.shape == problem.reference_point.shape
    assert losses.dtype == torch.float64
    assert problem(theta[0].float()).dtype == torch.float32
    assert problem.names == tuple(f"f{i + 1}" for i in range(problem.m))
    assert problem.rays(7, generator()).shape == (7, problem.m)


@each
def test_vmap_gives_what_single_calls_give(problem):
    theta = problem.starts(problem.start_kinds[0], 4, generator())
    together = torch.func.vmap(problem)(theta)
    torch.testing.assert_close(together, torch.stack([problem(t) for t in theta]), rtol=1e-12, atol=1e-14)
    slopes = torch.func.vmap(torch.func.jacrev(problem))(theta)
    assert slopes.shape == (4, problem.m, problem.n)
    assert slopes.isfinite().all()


@each
def test_the_front_is_what_the_solutions_give(problem):
    shares = torch.cat([some_shares(problem), torch.eye(problem.m, dtype=torch.float64)])
    losses = torch.func.vmap(problem)(problem.solutions(shares))
    torch.testing.assert_close(losses, problem.image(shares), rtol=1e-9, atol=1e-9 * float(problem.image(shares).max()))


@each
def test_solutions_are_stationary(problem):
    """There is w in the simplex with gradF w = 0."""
    for theta in problem.solutions(some_shares(problem, 10)):
        gradients = torch.func.jacrev(problem)(theta).numpy()
        gradients = gradients / max(np.abs(gradients).max(), 1e-300)
        _, residual = nnls(np.vstack([gradients.T, np.ones(problem.m)]), np.append(np.zeros(problem.n), 1.0))
        assert residual < 1e-6


@each
def test_the_front_is_nondominated_and_within_its_bounds(problem):
    front = problem.front(60)
    assert len(front) >= (60 if problem.m > 1 else 1)
    assert front.dtype == torch.float64
    assert (front < problem.reference_point + 1e-12).all()
    assert (front >= problem.ideal - 1e-12).all()
    torch.testing.assert_close(front.amin(dim=0), problem.ideal, rtol=0, atol=1e-9)
    attained = torch.cat([front, far_points(problem)])
    assert nondominated(attained)[: len(front)].all()


@each
def test_nothing_near_the_front_dominates_it(problem):
    theta = problem.solutions(some_shares(problem, 20))
    moved = theta.repeat(20, 1) + 0.02 * torch.randn(400, problem.n, generator=generator(), dtype=torch.float64)
    losses, front = torch.func.vmap(problem)(moved), torch.func.vmap(problem)(theta)
    assert not (losses[:, None] < front[None] - 1e-9).all(dim=-1).any()


@each
def test_distance_is_zero_on_the_front(problem):
    front = problem.image(some_shares(problem, 100))
    assert problem.distance_to_front(front).max() < 1e-7 * (1 + float(front.max()))
    assert problem.distance_to_front(problem.front(30)).max() < 1e-7 * (1 + float(front.max()))


@pytest.mark.parametrize("problem", [p for p in ALL if p.m == 2], ids=lambda p: f"{p.name}-{p.n}")
def test_distance_agrees_with_a_dense_front(problem):
    points = torch.cat([far_points(problem, 50), -far_points(problem, 10), problem.ideal[None]])
    front = problem.front(20_001)
    dense = torch.cdist(points, front, compute_mode="donot_use_mm_for_euclid_dist").amin(dim=1)
    found = problem.distance_to_front(points)
    assert found.shape == (61,)
    assert (found <= dense + 1e-9).all()
    assert (found >= dense - front.diff(dim=0).norm(dim=1).max()).all()


@pytest.mark.parametrize("problem", [p for p in ALL if p.m == 3], ids=lambda p: p.name)
def test_distance_is_no_larger_than_that_to_a_fine_front(problem):
    points = far_points(problem, 40)
    fine = torch.cdist(points, problem.front(50_000)).amin(dim=1)
    found = problem.distance_to_front(points.reshape(8, 5, 3)).reshape(-1)
    assert (found <= fine + 1e-9).all()
    assert (fine - found).max() < 2e-3


def test_distance_to_the_sphere_counts_the_missing_part():
    sphere = problems.DTLZ2()
    points = torch.tensor([[0.0, 0.0, 3.0], [-1.0, 0.0, 1.0], [-1.0, -1.0, -2.0], [2.0, 2.0, 1.0]])
    expected = [2.0, 1.0, (4 + 1 + 4) ** 0.5, 2.0]
    assert sphere.distance_to_front(points).tolist() == pytest.approx(expected)


def test_start_families_of_the_exponential_problem():
    problem = problems.Exponential()
    easy = problem.starts("easy", 500, generator())
    assert easy.abs().max() <= 0.3
    hard, mixed = problem.starts("hard", 500, generator()), problem.starts("hard-mixed", 500, generator())
    for start in (hard, mixed):
        assert start.abs().min() >= 0.15
        assert start.abs().max() <= 0.5
    assert (hard.sign() == hard[:, :1].sign()).all()
    assert 150 < (hard[:, 0] > 0).sum() < 350
    assert not (mixed.sign() == mixed[:, :1].sign()).all(dim=1).any()
    normal = torch.func.vmap(problem)(problem.starts("normal", 500, generator()))
    assert normal.median() > 1 - 1e-6
    assert torch.equal(easy, problem.starts("easy", 500, generator()))
    with pytest.raises(InputError, match="kind: expected one of easy, normal, hard, hard-mixed, found 'odd'"):
        problem.starts("odd", 1)


@pytest.mark.parametrize("problem", [problems.Exponential(), problems.ExponentialThree()], ids=lambda p: p.name)
def test_gradients_survive_on_the_plateau(problem):
    theta = problem.starts("normal", 20, generator())
    slopes = torch.func.vmap(torch.func.jacrev(problem))(theta)
    squares = (theta[:, None] - problem.centres).square().sum(dim=2)
    expected = 2 * (theta[:, None] - problem.centres) * torch.exp(-squares)[:, :, None]
    torch.testing.assert_close(slopes, expected, rtol=1e-9, atol=0)


def test_the_exponential_front_is_the_papers():
    problem = problems.Exponential()
    front = problem.front(3)
    assert front[1].tolist() == pytest.approx([1 - np.exp(-1.0)] * 2)
    assert front[0].tolist() == pytest.approx([1 - np.exp(-4.0), 0.0])


def test_triangle_of_the_three_losses():
    problem = problems.ExponentialThree()
    assert torch.cdist(problem.centres, problem.centres)[0].tolist() == pytest.approx([0, 2, 2], abs=1e-7)
    torch.testing.assert_close(problem.centres.norm(dim=1), torch.full((3,), 2.0, dtype=torch.float64).sqrt())
    with pytest.raises(InputError, match="multiple of 3, found 31"):
        problems.ExponentialThree(q=31)


def test_the_missed_ray_is_met_nowhere_and_its_closest_point_is_right():
    problem = problems.MissedRay()
    losses = torch.func.vmap(problem)(3 * torch.randn(20_000, problem.n, generator=generator(), dtype=torch.float64))
    across = torch.tensor([-problem.ray[1], problem.ray[0]])
    distances = (losses @ across).abs()
    assert distances.min() > problem.violation - 1e-12
    assert float(problem.closest @ across) == pytest.approx(problem.violation)
    assert problem.distance_to_front(problem.closest) < 1e-9
    assert (torch.nn.functional.normalize(losses, dim=1) @ problem.ray).max() < np.cos(np.pi / 12) + 1e-12


def test_zdt_is_the_published_function_off_its_front_too():
    theta = torch.linspace(-1.2, 1.4, 30, dtype=torch.float64)
    x = (1 + theta.sin()) / 2
    g = 1 + 9 * x[1:].sum() / 29
    for problem, second in ((problems.ZDT1(), 1 - (x[0] / g).sqrt()), (problems.ZDT2(), 1 - (x[0] / g).square())):
        torch.testing.assert_close(problem(theta), torch.stack([x[0], g * second]))


def test_zdt_gradients_stay_finite_at_the_bound():
    for problem in (problems.ZDT1(), problems.ZDT2()):
        corner = torch.full((problem.n,), -torch.pi / 2, dtype=torch.float64)
        assert problem(corner).tolist() == pytest.approx([0.0, 1.0])
        assert torch.func.jacrev(problem)(corner).isfinite().all()


def test_lattice_sums_to_one_and_is_distinct():
    points = lattice(4, 100)
    assert len(points) >= 100
    assert len(points.unique(dim=0)) == len(points)
    torch.testing.assert_close(points.sum(dim=1), torch.ones(len(points), dtype=torch.float64))
    assert len(lattice(2, 11)) == 11


def test_unknown_names_and_bad_sizes():
    assert len(problems.names()) == len(set(problems.names()))
    with pytest.raises(UnknownNameError, match=r"expected one of exponential, .*found 'zdt9'"):
        problems.get("zdt9")
    with pytest.raises(InputError, match="scale: expected 3 positive numbers"):
        problems.ConvexQuadratics(scale=(1.0, 2.0))
    with pytest.raises(InputError, match="m, n: expected positive integers"):
        problems.ConvexQuadratics(m=0)
    with pytest.raises(InputError, match="distance_parameters: expected 2, 1 or more"):
        problems.DTLZ2(m=1)
