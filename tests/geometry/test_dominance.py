"""Non-dominated filtering: against the definition, under any cone, and at size."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ferero.errors import InputError, NonFiniteError
from ferero.geometry import Cone, nondominated
from ferero.geometry import _dominance as dominance

CONES = {
    "none": lambda m: None,
    "orthant": Cone.orthant,
    "wide": lambda m: Cone(np.eye(m) + 0.5),
    "narrow": lambda m: Cone.from_rays(np.eye(m) + 0.5),
    "many rows": lambda m: Cone(np.vstack([np.eye(m) + 0.5, np.eye(m), np.ones((1, m))])),
    "sum": lambda m: Cone(np.ones((1, m))),
}


def by_definition(points, cone):
    points = torch.as_tensor(points, dtype=torch.float64)
    cone = cone or Cone.orthant(points.shape[1])
    return ~torch.stack([cone.dominates(points, point).any() for point in points])


@pytest.mark.parametrize("name", CONES)
@settings(deadline=None, derandomize=True, max_examples=25)
@given(seed=st.integers(0, 2**31), n=st.integers(1, 60), m=st.integers(1, 5))
def test_agrees_with_the_definition(name, seed, n, m):
    points, cone = np.random.default_rng(seed).normal(size=(n, m)), CONES[name](m)
    mask = nondominated(points, cone)
    assert mask.shape == (n,)
    assert mask.dtype == torch.bool
    assert mask.any()
    assert torch.equal(mask, by_definition(points, cone))


@pytest.mark.parametrize("name", ["none", "wide", "sum"])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_ties_and_duplicates_on_a_grid(name, offset):
    grid = np.array([*itertools.product(range(-3, 4), repeat=2)] * 3, dtype=float)
    points = np.random.default_rng(0).permutation(grid[grid.sum(axis=1) >= -1]) + offset
    cone = CONES[name](2)
    assert torch.equal(nondominated(points, cone), by_definition(points, cone))


def test_equal_points_are_all_kept():
    points = [[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [2.0, 2.0], [1.0, 2.0]]
    assert nondominated(points).tolist() == [True, True, True, False, True]
    assert nondominated(np.ones((7, 3))).all()


def test_order_of_the_points_is_irrelevant():
    rng = np.random.default_rng(1)
    points, order = rng.normal(size=(300, 3)), rng.permutation(300)
    assert torch.equal(nondominated(points)[order], nondominated(points[order]))


def test_a_larger_cone_keeps_fewer():
    points = np.random.default_rng(2).normal(size=(500, 3))
    kept = [nondominated(points, CONES[name](3)) for name in ("narrow", "orthant", "wide", "sum")]
    kept = [mask.sum().item() for mask in (kept[3], kept[2], kept[1], kept[0])]
    assert kept == sorted(kept)
    assert kept[0] == 1


@pytest.mark.parametrize("scale", [1e-200, 1e-10, 1e10, 1e300])
def test_scale_is_irrelevant(scale):
    points = np.random.default_rng(3).normal(size=(100, 3))
    assert torch.equal(nondominated(points * scale, Cone(np.eye(3) + 0.5)), nondominated(points, Cone(np.eye(3) + 0.5)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64])
def test_types_and_inputs_untouched(dtype):
    points = torch.tensor([[1, 4], [2, 2], [4, 1], [4, 4]], dtype=dtype)
    before = points.clone()
    assert nondominated(points).tolist() == [True, True, True, False]
    assert torch.equal(points, before)


def test_no_points_and_one_point():
    assert nondominated(np.ones((0, 3))).shape == (0,)
    assert nondominated([[5.0]]).tolist() == [True]
    assert nondominated([[5.0], [4.0], [4.0]]).tolist() == [False, True, True]


def test_forty_losses():
    points = np.random.default_rng(4).normal(size=(200, 40))
    points[7] = points[5] + 1.0
    mask = nondominated(points)
    assert not mask[7]
    assert mask.sum() == 199


@pytest.mark.parametrize("kept", ["few", "all"])
def test_twenty_thousand_points_without_quadratic_memory(kept, monkeypatch):
    points = np.random.default_rng(5).normal(size=(20_000, 3))
    if kept == "all":
        points = -np.abs(points) / np.linalg.norm(points, axis=1, keepdims=True)
    sizes = []

    def recording(floor, ceiling):
        sizes.append(floor.shape[1] * ceiling.shape[1])
        return possible_pairs(floor, ceiling)

    possible_pairs = dominance._possible_pairs
    monkeypatch.setattr(dominance, "_possible_pairs", recording)
    mask = nondominated(points)
    assert max(sizes) <= 1_000_000
    front = points[mask.numpy()]
    assert mask.all() if kept == "all" else len(front) < 200
    for point in points[~mask.numpy()][::500]:
        assert ((front <= point).all(axis=1) & (front < point).any(axis=1)).any()


@pytest.mark.parametrize(
    ("points", "cone", "error", "text"),
    [
        ([1.0, 2.0], None, InputError, r"points: expected shape \(n, m\), found \(2,\)"),
        (np.ones((3, 0)), None, InputError, r"points: expected shape \(n, m\), found \(3, 0\)"),
        (np.ones((3, 2)), Cone.orthant(3), InputError, r"points: expected shape \(n, 3\), found \(3, 2\)"),
        (
            [[1.0, 2.0], [np.nan, 1.0]],
            None,
            NonFiniteError,
            r"points: expected finite .* nan at index \(1, 0\)",
        ),
        ([[1.0, np.inf]], None, NonFiniteError, "points: expected finite numbers, found inf"),
        ([["a"]], None, InputError, "points: expected an array of real numbers"),
    ],
)
def test_refusals_name_the_argument(points, cone, error, text):
    with pytest.raises(error, match=text):
        nondominated(points, cone)
