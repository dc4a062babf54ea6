"""Evenly spread rays: exact numbers, inside the orthant, further apart than chance."""

import math
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ferero.errors import InputError
from ferero.preference import spread


def smallest_angle(rays):
    cosines = (rays @ rays.T).fill_diagonal_(-1)
    return float(cosines.max().clamp(-1, 1).arccos())


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.integers(1, 20), st.integers(1, 60))
def test_exactly_n_positive_unit_rows(m, n):
    rays = spread(m, n)
    assert rays.shape == (n, m)
    assert rays.dtype == torch.float64
    torch.testing.assert_close(rays.norm(dim=1), torch.ones(n, dtype=torch.float64))
    assert rays.min() >= math.sin(math.pi / 20) * math.sqrt(2 / max(m, 2)) * (1 - 1e-12)
    assert torch.equal(rays, spread(m, n))


def test_two_losses_get_equal_angles():
    rays = spread(2, 7)
    angles = torch.atan2(rays[:, 1], rays[:, 0])
    expected = torch.linspace(math.pi / 20, 9 * math.pi / 20, 7, dtype=torch.float64)
    torch.testing.assert_close(angles, expected)
    torch.testing.assert_close(
        spread(2, 3, low=0.1, high=0.3)[1],
        torch.tensor([math.cos(0.2), math.sin(0.2)]).double(),
        rtol=0,
        atol=1e-7,
    )


@pytest.mark.parametrize("m", [1, 2, 3, 7, 20])
def test_one_ray_is_the_diagonal(m):
    torch.testing.assert_close(spread(m, 1), torch.full((1, m), m**-0.5, dtype=torch.float64))


@pytest.mark.parametrize(("m", "n"), [(3, 10), (3, 100), (4, 30), (6, 50), (10, 100), (20, 200), (3, 400), (4, 400)])
def test_further_apart_than_chance(m, n):
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(21, n, m, generator=generator, dtype=torch.float64).abs()
    random = [smallest_angle(torch.nn.functional.normalize(x, dim=1)) for x in points]
    assert smallest_angle(spread(m, n)) >= 2 * sorted(random)[10]


def test_a_thousand_rays_take_a_second():
    spread(3, 300)  # scipy's modules
    times = []
    for _ in range(3):
        start = time.process_time()
        rays = spread(3, 1000)
        times.append(time.process_time() - start)
    assert min(times) < 1
    assert torch.equal(rays, spread(3, 1000))
    assert smallest_angle(rays) > 0.8 * smallest_angle(spread(3, 250)) / 2  # half as far at four times the number


@pytest.mark.parametrize("m", [3, 5])
def test_as_many_rays_as_losses_reach_the_corners(m):
    assert spread(m, m).max(dim=1).values.min() > 0.95


def test_no_part_of_the_region_is_left_empty():
    """Every random direction of the region has a ray within twice the packing's own distance."""
    rays = spread(3, 60)
    generator = torch.Generator().manual_seed(1)
    points = torch.nn.functional.normalize(torch.randn(4000, 3, generator=generator, dtype=torch.float64).abs(), dim=1)
    points = points[points.min(dim=1).values > rays.min()]
    nearest = (points @ rays.T).max(dim=1).values.arccos()
    assert nearest.max() < 1.2 * smallest_angle(rays)


def test_low_is_the_angle_from_every_face():
    assert spread(4, 20, low=0.3).min() >= math.sin(0.3) - 1e-12


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"m": 0, "n": 1}, "m: expected a positive integer, found 0"),
        ({"m": 2, "n": 0}, "n: expected a positive integer, found 0"),
        ({"m": 2, "n": 2.5}, "n: expected a positive integer, found 2.5"),
        ({"m": 2, "n": True}, "found True"),
        ({"m": 2, "n": 3, "low": 1.0, "high": 0.5}, "expected 0 < low < high < pi/2, found 1 and 0.5"),
        ({"m": 2, "n": 3, "low": 0.0}, "found 0 and 1.41"),
        ({"m": 3, "n": 3, "low": 0.7}, r"low: expected 0 < low < 0.6155 for m = 3"),
        ({"m": 3, "n": 3, "high": 0.7}, "high: expected None for m >= 3, found 0.7"),
    ],
)
def test_refusals(arguments, text):
    with pytest.raises(InputError, match=text):
        spread(**arguments)
