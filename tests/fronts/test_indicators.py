"""Volumes against inclusion-exclusion, angles against their definition."""

import itertools
import math
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ferero.errors import InputError, MissingExtraError, NonFiniteError
from ferero.fronts import hypervolume, ray_error, relative_loss_profile

seeds = st.integers(0, 10**6)


def volume_by_hand(points, ref):
    """Inclusion-exclusion over all subsets: the boxes of a subset meet in the box of its largest losses."""
    boxes = [p for p in np.asarray(points) if (p < ref).all()]
    return sum(
        (-1) ** (k + 1) * np.prod(ref - np.max(subset, axis=0))
        for k in range(1, len(boxes) + 1)
        for subset in itertools.combinations(boxes, k)
    )


class TestHypervolume:
    @settings(derandomize=True, deadline=None, max_examples=40)
    @given(seeds, st.integers(2, 5), st.integers(1, 7))
    def test_is_inclusion_exclusion(self, seed, m, n):
        rng = np.random.default_rng(seed)
        points, ref = rng.uniform(0, 1.2, (n, m)), np.full(m, 1.0)
        assert hypervolume(points, ref) == pytest.approx(volume_by_hand(points, ref), rel=1e-10, abs=1e-14)

    def test_known_values(self):
        assert hypervolume([[1, 2], [2, 1]], [3, 3]) == 3.0
        assert hypervolume([[0, 0, 0]], [1, 2, 3]) == 6.0
        assert hypervolume([[2.0], [1.0]], [4.0]) == 3.0

    def test_what_does_not_dominate_the_reference_adds_nothing(self):
        good = [[1.0, 2.0], [2.0, 1.0]]
        assert hypervolume([*good, [0.0, 3.0], [-5.0, 9.0]], [3, 3]) == hypervolume(good, [3, 3])
        assert hypervolume([[4.0, 1.0]], [3, 3]) == 0.0
        assert hypervolume(np.zeros((0, 2)), [3, 3]) == 0.0

    @settings(derandomize=True, deadline=None, max_examples=20)
    @given(seeds, st.sampled_from([2, 3, 4, 9]))
    def test_units_permutation_shift_and_dominated_points(self, seed, m):
        rng = np.random.default_rng(seed)
        points, ref = rng.uniform(size=(6, m)), np.ones(m)
        scale, shift, order = 10.0 ** rng.uniform(-3, 3, m), rng.normal(size=m), rng.permutation(6)
        value = hypervolume(points, ref)
        assert hypervolume(points[order], ref) == pytest.approx(value, rel=1e-9)
        assert hypervolume(points * scale, ref * scale) == pytest.approx(value * scale.prod(), rel=1e-9)
        assert hypervolume(points + shift, ref + shift) == pytest.approx(value, rel=1e-9)
        worse = np.minimum(points + 0.01, 1)
        assert hypervolume(np.vstack([points, worse]), ref) == pytest.approx(value, rel=1e-9)

    def test_beyond_eight_losses_is_close(self):
        points = np.random.default_rng(0).uniform(size=(6, 9))
        assert hypervolume(points, 1.0) == pytest.approx(volume_by_hand(points, np.ones(9)), rel=0.02)

    def test_input_kinds_agree_and_are_untouched(self):
        points = torch.tensor([[1.0, 2.0], [2.0, 1.0]], requires_grad=True)
        assert hypervolume(points, torch.tensor([3, 3])) == 3.0
        assert isinstance(hypervolume(points, 3), float)
        array = np.array([[1, 2], [2, 1]])
        before = array.copy()
        assert hypervolume(array, 3.0) == 3.0
        assert (array == before).all()

    def test_errors(self, monkeypatch):
        with pytest.raises(InputError, match=r"points: expected shape \(n, m\).*found \(2,\)"):
            hypervolume([1, 2], [3, 3])
        with pytest.raises(InputError, match=r"ref: expected shape \(2,\).*found \(3,\)"):
            hypervolume([[1, 2]], [3, 3, 3])
        with pytest.raises(NonFiniteError, match="points: expected finite numbers, found nan"):
            hypervolume([[1, math.nan]], [3, 3])
        with pytest.raises(NonFiniteError, match="ref: expected finite"):
            hypervolume([[1, 2]], [3, math.inf])
        monkeypatch.setitem(sys.modules, "moocore", None)
        with pytest.raises(MissingExtraError, match=r'moocore is not installed.*pip install "ferero\[metrics\]"'):
            hypervolume([[1, 2]], [3, 3])


class TestRayError:
    def test_exact_where_it_can_be(self):
        losses = [[3, 6], [-2, 1], [2, -1], [-1, -2], [0, 0]]
        assert ray_error(losses, [1, 2]).tolist() == [0, 90, 90, 180, 0]
        assert ray_error([[1, 0, 0], [0, 0, 2]], [1, 0, 0]).tolist() == [0, 90]
        assert ray_error([2.0], [3.0]).item() == 0

    @pytest.mark.parametrize("angle", [1e-12, 1e-9, 1e-6, 1e-3, 0.3, 1.2, 2.5, math.pi - 1e-9])
    def test_any_angle_in_a_plane(self, angle):
        losses = [5 * math.cos(angle), 5 * math.sin(angle)]
        assert ray_error(losses, [2.0, 0.0]).item() == pytest.approx(math.degrees(angle), rel=1e-13)

    @settings(derandomize=True, deadline=None)
    @given(seeds, st.integers(2, 12), st.floats(-9, 0))
    def test_tiny_angles_off_a_random_ray(self, seed, m, exponent):
        generator = torch.Generator().manual_seed(seed)
        ray = torch.rand(m, generator=generator, dtype=torch.float64) + 0.1
        side = torch.randn(m, generator=generator, dtype=torch.float64)
        side -= (side @ ray) / (ray @ ray) * ray
        tangent = 10.0**exponent
        losses = ray + tangent * side / side.norm() * ray.norm()
        assert ray_error(losses, ray).item() == pytest.approx(math.degrees(math.atan(tangent)), abs=1e-13)

    @settings(derandomize=True, deadline=None)
    @given(seeds, st.sampled_from([1e-300, 1e-8, 1.0, 1e8, 1e300]))
    def test_lengths_shifts_and_order_do_not_matter(self, seed, scale):
        rng = np.random.default_rng(seed)
        losses, ray, order = rng.uniform(0.1, 1, (4, 3)), rng.uniform(0.1, 1, 3), rng.permutation(3)
        expected = ray_error(losses, ray)
        torch.testing.assert_close(ray_error(losses * scale, ray / scale), expected)
        torch.testing.assert_close(ray_error(losses[:, order], ray[order]), expected)
        torch.testing.assert_close(ray_error(losses + 2, ray, through=[2, 2, 2]), expected)
        torch.testing.assert_close(ray_error(torch.from_numpy(losses), torch.from_numpy(ray)), expected)

    def test_batches_broadcast(self):
        generator = torch.Generator().manual_seed(0)
        losses, rays = torch.rand(5, 4, 3, generator=generator), torch.rand(4, 3, generator=generator) + 0.1
        errors = ray_error(losses, rays, through=torch.zeros(4, 3))
        assert errors.shape == (5, 4)
        assert errors.dtype == torch.float64
        torch.testing.assert_close(errors[2, 1], ray_error(losses[2, 1], rays[1]))

    def test_nan_for_what_is_not_finite(self):
        errors = ray_error([[1, math.nan], [math.inf, 1], [1, 1]], [1, 1])
        assert errors.isnan().tolist() == [True, True, False]

    def test_errors(self):
        with pytest.raises(InputError, match=r"ray: expected shape \(\.\.\., 2\).*found \(3,\)"):
            ray_error([1, 2], [1, 2, 3])
        with pytest.raises(InputError, match="ray: expected a direction, found all zeros"):
            ray_error([1, 2], [0, 0])
        with pytest.raises(InputError, match="ray: expected finite"):
            ray_error([1, 2], [math.nan, 0])
        with pytest.raises(InputError, match=r"through: expected shape \(\.\.\., 2\)"):
            ray_error([1, 2], [1, 1], through=[1])
        with pytest.raises(InputError, match=r"losses, ray: .*broadcast, found \(3, 2\) and \(4, 2\)"):
            ray_error(np.ones((3, 2)), np.ones((4, 2)))
        with pytest.raises(InputError, match=r"losses, through: .*broadcast"):
            ray_error(np.ones((3, 2)), [1, 1], through=np.ones((4, 2)))
        with pytest.raises(InputError, match=r"losses: expected shape .* found one number"):
            ray_error(1.0, [1.0])


class TestRelativeLossProfile:
    @settings(derandomize=True, deadline=None)
    @given(seeds, st.integers(1, 6))
    def test_shares_add_up_and_are_level_on_the_ray(self, seed, m):
        rng = np.random.default_rng(seed)
        losses, ray = rng.uniform(0.1, 1, (3, m)), rng.uniform(0.1, 1, m)
        profile = relative_loss_profile(losses, ray)
        assert profile.shape == (3, m)
        torch.testing.assert_close(profile.sum(dim=-1), torch.ones(3, dtype=torch.float64))
        torch.testing.assert_close(relative_loss_profile(7 * losses, 3 * ray), profile)
        level = relative_loss_profile(ray * 5, ray)
        torch.testing.assert_close(level, torch.full((m,), 1 / m, dtype=torch.float64))

    def test_by_hand(self):
        assert relative_loss_profile([3.0, 2.0], [1.0, 2.0]).tolist() == [0.75, 0.25]
        assert relative_loss_profile([0.0, 0.0], [1.0, 2.0]).isnan().all()

    def test_errors(self):
        with pytest.raises(InputError, match="ray: expected positive numbers, found -1"):
            relative_loss_profile([1, 2], [1, -1])
        with pytest.raises(InputError, match=r"ray: expected shape \(\.\.\., 2\)"):
            relative_loss_profile([1, 2], [1, 1, 1])
