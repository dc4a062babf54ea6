"""Cones: two descriptions that agree, the order they make, and what is refused."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.spatial import ConvexHull

from ferero.errors import ConeError, InputError
from ferero.geometry import Cone

ROOT5 = np.sqrt(5.0)


def rotation(rng, m):
    return np.linalg.qr(rng.normal(size=(m, m)))[0]


def pointed_rays(rng, m, k):
    """k columns with positive sums: they generate a pointed cone, with an interior where k >= m."""
    noise = rng.normal(size=(m, k))
    return np.ones((m, 1)) + noise - noise.mean(axis=0)


def is_combination(Y, y):
    """Membership in {Y c : c >= 0}, by a linear program: SciPy's nnls is wrong once in some ten thousand."""
    return linprog(np.zeros(Y.shape[1]), A_eq=Y, b_eq=y).status == 0


def same_rows(X, Y, atol=1e-9):
    """Equality of two sets of unit rows, whatever their order."""
    X, Y = np.asarray(X), np.asarray(Y)
    return X.shape == Y.shape and (np.abs(X[:, None] - Y).max(axis=2).min(axis=1) <= atol).all()


def is_contradictory(A):
    """Gordan's alternative to an interior: some u >= 0 with sum 1 and A^T u = 0."""
    k, m = A.shape
    system = np.vstack([A.T, np.ones(k)])
    return linprog(np.zeros(k), A_eq=system, b_eq=np.append(np.zeros(m), 1.0)).status == 0


# ---- the matrix ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given_as",
    [
        lambda A: A.tolist(),
        lambda A: A,
        lambda A: A.astype(np.float16),
        lambda A: A.astype(np.int64),
        lambda A: np.asfortranarray(A)[::-1][::-1],
        torch.from_numpy,
        lambda A: torch.from_numpy(A).half(),
        lambda A: torch.from_numpy(A).bfloat16().requires_grad_(),
        lambda A: [torch.from_numpy(row) for row in A],
    ],
)
def test_matrix_has_unit_rows_in_order_whatever_the_type(given_as):
    A = np.array([[3.0, 4.0, 0.0], [0.0, 2.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 7.0]])
    cone = Cone(given_as(A))
    assert cone.matrix.dtype == torch.float64
    assert not cone.matrix.requires_grad
    assert cone.m == 3
    np.testing.assert_allclose(cone.matrix, A / np.linalg.norm(A, axis=1, keepdims=True), atol=1e-15)


def test_inputs_are_untouched_and_not_shared():
    A = torch.tensor([[2.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    before = A.clone()
    cone = Cone(A)
    assert torch.equal(A, before)
    A.zero_()
    assert cone.matrix[0, 0] == 1.0
    Y = np.array([[2.0, -1.0], [-1.0, 2.0]])
    Y.setflags(write=False)
    cone = Cone.from_rays(Y)
    start, target = torch.ones(2), torch.tensor([0.0, 2.0])
    cone.allowing_ascent(start, target)
    assert torch.equal(start, torch.ones(2))
    assert torch.equal(target, torch.tensor([0.0, 2.0]))
    assert cone.matrix.shape == (2, 2)


def test_cone_is_frozen_copies_and_pickles():
    cone = Cone.from_rays([[2, -1], [-1, 2]])
    with pytest.raises(AttributeError):
        cone.matrix = torch.eye(2)
    for twin in (copy.deepcopy(cone), pickle.loads(pickle.dumps(cone))):
        assert torch.equal(twin.matrix, cone.matrix)
        assert torch.equal(twin.rays, cone.rays)


@pytest.mark.parametrize("scale", [1e-300, 1e-10, 1e10, 1e300])
def test_scale_of_a_row_is_irrelevant(scale):
    A = np.array([[1.0, 2.0], [2.0, 1.0]])
    np.testing.assert_allclose(Cone(A * [[scale], [1.0]]).matrix, A / ROOT5, rtol=1e-15)


@pytest.mark.parametrize("m", [1, 2, 3, 6, 40])
def test_orthant_is_its_own_dual(m):
    cone = Cone.orthant(m)
    assert torch.equal(cone.matrix, torch.eye(m, dtype=torch.float64))
    assert torch.equal(cone.rays, torch.eye(m, dtype=torch.float64))
    assert repr(cone) == f"Cone.orthant({m})"


def test_repr_reads_as_the_cone():
    assert repr(Cone([[1, 2], [2, 1]])) == "Cone([[0.4472, 0.8944], [0.8944, 0.4472]])"
    assert repr(Cone.orthant(40).allowing_ascent(np.ones(40), np.arange(40))) == "Cone(40 rows, m=40)"


# ---- from rays, and back ---------------------------------------------------------------------------------


def test_issue_example():
    assert same_rows(Cone.from_rays([[2, -1], [-1, 2]]).matrix, np.array([[1, 2], [2, 1]]) / ROOT5, atol=1e-15)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(seed=st.integers(0, 2**31), m=st.integers(1, 6), extra=st.integers(0, 8))
def test_from_rays_is_the_set_of_combinations(seed, m, extra):
    rng = np.random.default_rng(seed)
    Y = pointed_rays(rng, m, m + extra)
    cone = Cone.from_rays(Y)
    inside = Y @ rng.exponential(size=(m + extra, 20))
    assert cone.contains(inside.T).all()
    assert cone.contains(Y.T).all()
    for y in rng.normal(size=(10, m)) + 0.5:
        assert cone.contains(y).item() == is_combination(Y, y)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(seed=st.integers(0, 2**31), m=st.integers(2, 5), extra=st.integers(0, 8))
def test_both_directions_agree(seed, m, extra):
    rng = np.random.default_rng(seed)
    cone = Cone.from_rays(pointed_rays(rng, m, m + extra))
    remembered, found = cone.rays, Cone(cone.matrix).rays
    assert same_rows(remembered.T, found.T)
    assert same_rows(Cone.from_rays(found).matrix, cone.matrix)
    np.testing.assert_allclose(torch.linalg.vector_norm(found, dim=0), 1.0, rtol=1e-14)


@pytest.mark.parametrize(("m", "k"), [(2, 5), (3, 30), (4, 25), (5, 20), (6, 16), (8, 14)])
def test_facets_agree_with_qhull(m, k):
    rng = np.random.default_rng(m)
    section = rng.normal(size=(k, m - 1))
    cone = Cone.from_rays(np.vstack([np.ones(k), section.T]))
    if m == 2:
        expected = np.array([[-section.min(), 1.0], [section.max(), -1.0]])
        hull_rays = np.array([section.argmin(), section.argmax()])
    else:
        hull = ConvexHull(section)
        expected = -hull.equations[:, [-1, *range(m - 1)]]
        hull_rays = hull.vertices
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert same_rows(cone.matrix, expected)
    points = np.hstack([np.ones((k, 1)), section])[np.sort(hull_rays)]
    assert same_rows(cone.rays.T, points / np.linalg.norm(points, axis=1, keepdims=True))


@pytest.mark.parametrize("m", [3, 4, 5, 6])
def test_degenerate_cones_give_each_facet_once(m):
    rng = np.random.default_rng(m)
    Q = rotation(rng, m)
    cube = np.array([[1.0, *signs] for signs in itertools.product([-1.0, 1.0], repeat=m - 1)])
    axes = np.vstack([np.eye(m - 1), -np.eye(m - 1)])
    cross = np.hstack([np.ones((len(axes), 1)), axes])
    over_cube, over_cross = Cone.from_rays((cube @ Q).T), Cone.from_rays((cross @ Q).T)
    assert same_rows(over_cube.matrix, cross @ Q / np.sqrt(2))  # the two are dual to each other
    assert same_rows(over_cross.matrix, cube @ Q / np.sqrt(m))
    assert same_rows(Cone(over_cross.matrix).rays.T, cross @ Q / np.sqrt(2))


def test_redundant_and_repeated_rays_change_nothing():
    rng = np.random.default_rng(3)
    Y = pointed_rays(rng, 4, 7)
    plain = Cone.from_rays(Y)
    more = np.hstack([Y, 3.7 * Y[:, 2:4], Y @ rng.exponential(size=(7, 5)), Y[:, :2].sum(axis=1, keepdims=True)])
    for columns in (more, more[:, rng.permutation(more.shape[1])]):
        cone = Cone.from_rays(columns)
        assert same_rows(cone.matrix, plain.matrix)
        assert same_rows(cone.rays.T, plain.rays.T)


def test_redundant_rows_are_kept_and_change_no_ray():
    A = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 2.0]])
    cone = Cone(A)
    assert cone.matrix.shape == (4, 2)
    assert same_rows(cone.rays.T, np.eye(2))


def test_permuting_the_losses_permutes_the_cone():
    rng = np.random.default_rng(5)
    Y, order = pointed_rays(rng, 5, 9), rng.permutation(5)
    assert same_rows(Cone.from_rays(Y[order]).matrix, Cone.from_rays(Y).matrix[:, order])


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scaling_a_loss_scales_the_cone(scale):
    rng = np.random.default_rng(6)
    Y, D = pointed_rays(rng, 3, 6), np.array([1.0, scale, 1.0])
    expected = Cone.from_rays(Y).matrix.numpy() / D
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert same_rows(Cone.from_rays(Y * D[:, None]).matrix, expected)


def test_half_space_from_rays_is_one_row_and_has_no_rays():
    cone = Cone.from_rays([[1, -1, 0], [0, 0, 1]])
    assert torch.equal(cone.matrix, torch.tensor([[0.0, 1.0]], dtype=torch.float64))
    with pytest.raises(ConeError, match=r"rays: the cone is not pointed .* rank 1 and not m = 2"):
        _ = cone.rays
    with pytest.raises(ConeError, match="not pointed"):
        _ = Cone([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]).rays


def test_wedge_that_is_not_pointed_gives_its_facets():
    rng = np.random.default_rng(8)
    Q = rotation(rng, 3)
    wedge = np.array([[0, 0, 1], [0, 0, -1], [2, -1, 0], [-1, 2, 0], [1, 1, 5]]) @ Q
    expected = np.array([[1, 2, 0], [2, 1, 0]]) @ Q / ROOT5
    assert same_rows(Cone.from_rays(wedge.T).matrix, expected)


def test_forty_losses():
    rng = np.random.default_rng(40)
    Y = np.eye(40) + 0.1 * rng.random((40, 40))
    cone = Cone.from_rays(Y)
    assert cone.matrix.shape == (40, 40)
    off = (cone.matrix.numpy() @ Y) * ~np.eye(40, dtype=bool)
    np.testing.assert_allclose(off, 0.0, atol=1e-13)
    assert same_rows(Cone(cone.matrix).rays.T, (Y / np.linalg.norm(Y, axis=0)).T)


def test_thin_cones_are_cones():
    cone = Cone.from_rays([[1.0, 1.0], [0.0, 1e-9]])
    assert cone.contains([1.0, 5e-10]).item()
    assert not cone.contains([1.0, 2e-9]).item()
    assert Cone(cone.matrix).contains([1.0, 5e-10]).item()


# ---- interior --------------------------------------------------------------------------------------------


@settings(deadline=None, derandomize=True, max_examples=80)
@given(seed=st.integers(0, 2**31), m=st.integers(1, 4), k=st.integers(1, 7))
def test_interior_agrees_with_its_alternative(seed, m, k):
    A = np.random.default_rng(seed).integers(-2, 3, size=(k, m)).astype(float)
    A = A[A.any(axis=1)]
    if len(A) == 0:
        return
    if is_contradictory(A):
        with pytest.raises(ConeError, match="no interior"):
            Cone(A)
    else:
        assert Cone(A).matrix.shape == A.shape


def test_no_interior_names_the_rows_that_contradict():
    with pytest.raises(ConeError, match=r"A: .* no interior, since rows \[1, 3\] contradict each other .*change or"):
        Cone([[1.0, 0.0], [1.0, 2.0], [3.0, 1.0], [-2.0, -4.0]])
    with pytest.raises(ConeError, match=r"rows \[0, 1, 2\]"):
        Cone([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])


# ---- order -----------------------------------------------------------------------------------------------


def test_contains_is_batched_and_relative():
    cone = Cone.from_rays([[2, -1], [-1, 2]])
    y = torch.tensor([[[2.0, -1.0], [1.0, 1.0]], [[-1.0, -1.0], [2.0, -1.0 - 1e-6]]], dtype=torch.float64)
    expected = torch.tensor([[True, True], [False, False]])
    for scale in (1e-200, 1e-10, 1.0, 1e10, 1e300):
        assert torch.equal(cone.contains(y * scale), expected)
    assert cone.contains([0.0, 0.0]).item()
    assert cone.contains(torch.zeros(0, 2)).shape == (0,)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_contains_allows_for_the_rounding_of_the_type(dtype):
    rng = np.random.default_rng(1)
    cone = Cone.from_rays(pointed_rays(rng, 3, 5))
    assert cone.contains(cone.rays.T.to(dtype)).all()
    assert not cone.contains((cone.rays.T - 0.3).to(dtype)).any()


def test_what_is_not_finite_is_in_no_cone_and_dominates_nothing():
    bad = torch.tensor([[torch.inf, 1.0], [torch.nan, 1.0], [-torch.inf, 1.0]])
    assert not Cone.orthant(2).contains(bad).any()
    assert not Cone([[1.0]]).contains([[torch.inf]]).any()
    assert not Cone.orthant(2).dominates(bad, torch.tensor([torch.nan, 0.0])).any()


@pytest.mark.parametrize("cone", [Cone.orthant(2), Cone([[1, 2], [2, 1]]), Cone([[1, 1]]), Cone([[1, 0], [1, -1]])])
def test_dominance_is_a_strict_partial_order(cone):
    grid = torch.tensor(list(itertools.product(range(4), repeat=2)), dtype=torch.float64)
    weak = cone.dominates(grid[:, None], grid[None])
    strict = cone.dominates(grid[:, None], grid[None], strict=True)
    assert weak.shape == (16, 16)
    assert (strict <= weak).all()
    for order in (weak, strict):
        assert not order.diagonal().any()
        assert not (order & order.T).any()
        reached = (order.float() @ order.float()) > 0
        assert (reached <= order).all()


def test_dominance_is_exact():
    cone = Cone.orthant(2)
    assert cone.dominates([1.0, 1.0], [1.0, 1.0 + 2**-52]).item()
    assert not cone.dominates([1.0, 1.0], [1.0, 1.0 + 2**-52], strict=True).item()
    assert not cone.dominates([1.0, 1.0 + 2**-52], [1.0, 1.0]).item()
    assert not cone.dominates([1.0, 1.0], [1.0, 1.0]).item()
    assert not Cone([[1.0, 1.0]]).dominates([0.0, 1.0], [1.0, 0.0]).item()


def test_a_larger_cone_dominates_more():
    rng = np.random.default_rng(11)
    points = torch.from_numpy(rng.normal(size=(40, 3)))
    small = Cone.orthant(3)
    large = small.allowing_ascent([1.0, 0.0, 0.3], [0.0, 0.5, 0.0])
    assert (small.dominates(points[:, None], points) <= large.dominates(points[:, None], points)).all()


# ---- controlled ascent -----------------------------------------------------------------------------------


@settings(deadline=None, derandomize=True, max_examples=60)
@given(seed=st.integers(0, 2**31), m=st.integers(1, 6), extra=st.integers(0, 4))
def test_allowing_ascent_is_the_cone_with_one_more_ray(seed, m, extra):
    rng = np.random.default_rng(seed)
    Y = pointed_rays(rng, m, m + extra)
    cone, start, target = Cone.from_rays(Y), rng.normal(size=m), rng.normal(size=m)
    ascent = start - target
    if not (cone.matrix.numpy() @ ascent > 0).any():
        with pytest.raises(ConeError, match=r"no better than start in any loss .* so that no proper cone is left"):
            cone.allowing_ascent(start, target)
        return
    larger = cone.allowing_ascent(start, target)
    assert larger.contains(ascent).item()
    assert larger.contains(Y.T).all()
    both = np.column_stack([Y, ascent])
    for y in rng.normal(size=(10, m)):
        assert larger.contains(y).item() == is_combination(both, y)
    assert same_rows(larger.matrix, Cone(cone.matrix).allowing_ascent(start, target).matrix, atol=1e-8)


def test_allowing_ascent_by_hand():
    cone = Cone.orthant(2).allowing_ascent(start=[1.0, 1.0], target=[0.4, 1.8])
    assert same_rows(cone.matrix, [[1.0, 0.0], [0.8, 0.6]], atol=1e-15)
    assert same_rows(cone.rays.T, [[0.0, 1.0], [0.6, -0.8]], atol=1e-15)


def test_allowing_ascent_that_is_allowed_already():
    cone = Cone([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    assert torch.equal(cone.allowing_ascent([2.0, 1.0], [1.0, 1.0]).matrix, cone.matrix)
    half_space = Cone([[1.0, 2.0]])
    assert torch.equal(half_space.allowing_ascent([2.0, 0.0], [0.0, 0.5]).matrix, half_space.matrix)


def test_allowing_ascent_on_cones_that_are_not_pointed():
    with pytest.raises(ConeError, match="no better than start"):
        Cone([[1.0, 2.0]]).allowing_ascent([0.0, 0.0], [1.0, 1.0])
    wedge = Cone([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    larger = wedge.allowing_ascent([0.6, 0.0, 9.0], [0.0, 0.8, 0.0])
    assert same_rows(larger.matrix, [[1.0, 0.0, 0.0], [0.8, 0.6, 0.0]])


def test_allowing_ascent_twice():
    rng = np.random.default_rng(2)
    steps = rng.normal(size=(2, 5)) + 0.4
    cone = Cone.orthant(5)
    for step in steps:
        cone = cone.allowing_ascent(step, np.zeros(5))
    assert same_rows(cone.matrix, Cone.from_rays(np.vstack([np.eye(5), steps]).T).matrix)


def test_allowing_ascent_with_forty_losses():
    rng = np.random.default_rng(40)
    ascent = rng.normal(size=40)
    rising, falling = (ascent < 0).sum(), (ascent > 0).sum()
    cone = Cone.orthant(40).allowing_ascent(ascent, np.zeros(40))
    assert cone.matrix.shape == (falling + rising * falling, 40)
    both = np.column_stack([np.eye(40), ascent])
    assert cone.contains(both.T).all()
    assert (cone.matrix >= 0).all()
    for y in ascent + 0.3 * rng.normal(size=(20, 40)) + 0.3:
        assert cone.contains(y).item() == is_combination(both, y)
    assert cone.rays.shape == (40, 41)


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e150])
def test_allowing_ascent_does_not_see_the_scale(scale):
    start, target = np.array([1.0, 1.0, 0.2]), np.array([0.4, 1.8, 0.3])
    scaled = Cone.orthant(3).allowing_ascent(scale * start, scale * target)
    assert same_rows(scaled.matrix, Cone.orthant(3).allowing_ascent(start, target).matrix, atol=1e-14)


@pytest.mark.parametrize("target", [[1.0, 1.0], [0.0, 1.0], [5.0, 1e-30]])
def test_allowing_ascent_to_a_target_that_improves_nothing(target):
    with pytest.raises(ConeError, match=r"target: .*no better than start in any loss.*choose a target"):
        Cone.orthant(2).allowing_ascent([0.0, 0.0], target)


# ---- refusals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: Cone([1.0, 2.0]), InputError, r"A: expected a matrix \(k, m\), .* found shape \(2,\)"),
        (lambda: Cone(3.0), InputError, r"A: expected a matrix .* found shape \(\)"),
        (lambda: Cone("text"), InputError, "A: expected an array of real numbers, found dtype <U4"),
        (lambda: Cone([[1.0], [1.0, 2.0]]), InputError, "A: expected an array of numbers"),
        (lambda: Cone([[1j]]), InputError, "A: expected an array of real numbers"),
        (
            lambda: Cone(torch.ones(1, 1) * 1j),
            InputError,
            "A: expected real numbers, found dtype torch.complex64",
        ),
        (
            lambda: Cone([[1.0, np.nan]]),
            InputError,
            r"A: expected finite numbers, found nan at index \(0, 1\)",
        ),
        (lambda: Cone([[np.inf, 1.0]]), InputError, "A: expected finite numbers, found inf"),
        (
            lambda: Cone([[1.0, 0.0], [0.0, 0.0]]),
            ConeError,
            "A: expected no zero row, found row 1 zero; .* remove",
        ),
        (
            lambda: Cone(np.ones((0, 2))),
            ConeError,
            r"A: expected at least one row, found none in shape \(0, 2\)",
        ),
        (lambda: Cone(np.ones((2, 0))), ConeError, r"A: expected at least one row"),
        (lambda: Cone([[1.0], [-1.0]]), ConeError, r"no interior, since rows \[0, 1\]"),
        (
            lambda: Cone.orthant(0),
            InputError,
            "m: expected the number of losses, an integer of at least 1, found 0",
        ),
        (lambda: Cone.orthant(2.5), InputError, "m: expected .* found 2.5"),
        (
            lambda: Cone.from_rays([1.0, 2.0]),
            InputError,
            r"Y: expected a matrix \(m, k\), one column per ray",
        ),
        (
            lambda: Cone.from_rays([[1.0, np.nan]]),
            InputError,
            r"Y: expected finite numbers, found nan at index \(0, 1\)",
        ),
        (lambda: Cone.from_rays(np.ones((2, 0))), ConeError, "Y: expected at least one column"),
        (
            lambda: Cone.from_rays([[1.0, 0.0], [0.0, 0.0]]),
            ConeError,
            "Y: expected no zero column, found column 1",
        ),
        (
            lambda: Cone.from_rays([[1.0], [2.0]]),
            ConeError,
            "no interior, since they span only 1 of 2 dimensions; add",
        ),
        (lambda: Cone.from_rays([[1, 2, 1], [1, 2, 0], [1, 2, 0]]), ConeError, "span only 2 of 3"),
        (
            lambda: Cone.from_rays([[1, 0, -1], [0, 1, -1]]),
            ConeError,
            "Y: these 3 rays generate the whole space",
        ),
        (lambda: Cone.from_rays([[1.0, -1.0]]), ConeError, "generate the whole space, .*; remove"),
        (lambda: Cone.from_rays([[1, -1, 0, 0], [0, 0, 1, -1]]), ConeError, "generate the whole space"),
        (lambda: Cone.orthant(2).contains([1.0]), InputError, r"y: expected shape \(..., 2\).* found \(1,\)"),
        (lambda: Cone.orthant(2).contains(1.0), InputError, r"y: expected shape"),
        (lambda: Cone.orthant(2).dominates([1.0, 1.0], [1.0]), InputError, r"v: expected shape \(..., 2\)"),
        (
            lambda: Cone.orthant(2).dominates(torch.ones(3, 2), torch.ones(4, 2)),
            InputError,
            r"u, v: expected shapes that broadcast, found \(3, 2\) and \(4, 2\)",
        ),
        (
            lambda: Cone.orthant(2).allowing_ascent([1.0], [1.0, 2.0]),
            InputError,
            r"start: expected losses of shape \(2,\)",
        ),
        (
            lambda: Cone.orthant(2).allowing_ascent([1.0, 2.0], [np.nan, 2.0]),
            InputError,
            "target: expected finite",
        ),
        (
            lambda: Cone.orthant(2).allowing_ascent([1, 2], [1, 2]),
            InputError,
            "target: .* differ from start, found them equal",
        ),
    ],
)
def test_refusals_name_the_argument(make, error, text):
    with pytest.raises(error, match=text):
        make()
