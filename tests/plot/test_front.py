"""Pictures of fronts show what they claim: artists are counted, and their places compared with the mathematics."""

import matplotlib as mpl
import numpy as np
import pytest
import torch

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from tests.plot.pictures import cups, is_inside_figure, legend, lines, parabolas, truth, x0

from ferero.errors import InputError
from ferero.fronts import Front, trace
from ferero.plot import plot_front
from ferero.preference import Preference, objectives, spread

f = objectives("time", "cost")


class TestFront:
    def test_plane(self, front):
        ax = front.plot(truth=truth)
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("f1", "f2")
        assert len(lines(ax)) == 1 + 4 + 4  # the truth, the rays, the trajectories
        assert len(ax.collections) == 1 + 4  # one start for all, four points
        assert legend(ax)[:3] == ["true front", "preference", "start"]
        assert legend(ax)[3:] == [str(p).split("subject to ")[1] for p in front.preferences]
        found = np.concatenate([c.get_offsets() for c in ax.collections])
        assert np.allclose(found[1:], front.losses)
        assert np.allclose(found[0], parabolas(x0))
        assert ax.get_aspect() == 1
        assert is_inside_figure(ax)

    def test_rays_end_at_the_origin_and_at_the_edge_of_the_view(self, front):
        ax = front.plot(trajectories=False)
        assert len(lines(ax)) == 4
        for line, ray in zip(lines(ax), front.preferences, strict=True):
            far, near = line.get_xydata()
            assert near == pytest.approx([0, 0])
            assert far / np.linalg.norm(far) == pytest.approx(ray.ray.numpy())
            edges = np.array([ax.get_xlim()[1], ax.get_ylim()[1]])
            assert (far <= edges * (1 + 1e-12)).all()
            assert np.isclose(far, edges).any()

    def test_what_can_be_left_out(self, front):
        ax = front.plot(trajectories=False, rays=False)
        assert lines(ax) == []
        assert len(ax.collections) == 4

    def test_points_that_did_not_converge_are_hollow_and_crossed(self, front):
        failed = trace(parabolas, x0, spread(2, 4), max_iter=0)
        ax = failed.plot()
        assert "not converged" in legend(ax)
        assert len(ax.collections) == 1 + 2 * 4
        rings = [c for c in ax.collections if c.get_sizes()[0] == 36]
        assert all(to_hex(c.get_facecolor()[0]) == "#ffffff" for c in rings)
        assert "not converged" not in legend(front.plot())

    def test_starts_of_their_own(self):
        starts = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        ax = trace(parabolas, starts, spread(2, 3)).plot()
        assert len(ax.collections[0].get_offsets()) == 3

    def test_many_preferences_have_colours_but_no_entries(self):
        ax = trace(parabolas, x0, spread(2, 12)).plot()
        assert legend(ax) == ["preference", "start"]
        assert len({to_hex(line.get_color()) for line in lines(ax)}) == 12

    def test_other_preferences(self):
        wanted = [
            Preference(f, [f.time <= 0.5]),
            Preference(f, [f.time == f.cost]),
            Preference.pareto(2, names=f),
        ]
        ax = trace(parabolas, x0, wanted).plot()
        assert len(lines(ax)) == 1 + 3  # only the equality is a line
        assert legend(ax)[2:] == ["time <= 0.5", "time == cost", "minimize time, cost"]

    def test_gaps_in_the_truth_are_kept(self, front):
        parts = np.vstack([truth[20:], np.full((1, 2), np.nan), truth[:10]])
        curve = lines(plot_front(front, truth=parts))[0].get_xydata()
        assert np.array_equal(curve, parts, equal_nan=True)
        shuffled = truth[np.random.default_rng(0).permutation(30)]
        assert np.array_equal(lines(plot_front(front, truth=shuffled))[0].get_xydata(), truth)

    def test_own_axes_keep_their_limits_size_and_legend(self, front):
        fig, ax = plt.subplots()
        ax.plot([-3, 9], [0, 0])
        size, (low, high) = fig.get_size_inches().copy(), ax.get_xlim()
        assert plot_front(front, ax) is ax
        assert (fig.get_size_inches() == size).all()
        assert ax.get_xlim() == (low, high)
        assert ax.get_legend() is None

    def test_very_different_units_are_not_drawn_to_scale(self):
        ax = trace(lambda x: parabolas(x) * torch.tensor([1.0, 1000.0]), x0, [[1.0, 1000.0]]).plot()
        assert ax.get_aspect() == "auto"

    def test_losses_that_are_not_finite(self, front):
        losses = front.losses.clone()
        losses[1] = torch.nan
        ax = Front(losses, front.preferences, front.results).plot()
        assert np.isfinite(ax.get_xlim()).all()

    def test_space(self, space):
        ax = space.plot(truth=np.random.default_rng(0).uniform(size=(20, 3)))
        assert ax.name == "3d"
        assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_zlabel()) == ("f1", "f2", "f3")
        assert len([line for line in ax.lines if len(line.get_data_3d()[0])]) == 2 + 2
        assert len(ax.collections) == 1 + 1 + 2
        assert legend(ax)[:3] == ["true front", "preference", "start"]
        assert is_inside_figure(ax)

    def test_parallel_coordinates_are_level_on_the_ray(self):
        rays = [[1.0, 1, 1, 1], [1, 1, 1, 1.2]]
        front = trace(cups, x0, rays)
        ax = front.plot()
        assert [label.get_text() for label in ax.get_xticklabels()] == ["f1", "f2", "f3", "f4"]
        assert ax.get_ylabel() == "loss / ray"
        points = [line for line in ax.lines if line.get_marker() == "o"]
        assert len(points) == 2
        for line in points:
            assert np.ptp(line.get_ydata()) < 1e-4
        assert is_inside_figure(ax)

    def test_parallel_coordinates_of_plain_losses(self):
        front = trace(cups, x0, [Preference.pareto(4), Preference.ray([1, 1, 1, 1])])
        ax = front.plot(truth=np.ones((3, 4)))
        assert ax.get_ylabel() == "loss"
        points = [line for line in ax.lines if line.get_marker() == "o"]
        assert np.allclose([line.get_ydata() for line in points], front.losses)
        assert len(ax.lines) == 4 + 3 + 2
        failed = trace(cups, x0, [Preference.pareto(4)], max_iter=0).plot()
        assert failed.lines[-1].get_linestyle() == "--"

    def test_texts_that_are_the_same_are_numbered(self, front):
        twice = Front(front.losses[:2], (front.preferences[0],) * 2, front.results[:2])
        assert [text[:4] for text in legend(twice.plot())[2:]] == ["[0] ", "[1] "]

    def test_labels_of_ones_own(self, front, space):
        assert legend(front.plot(labels=["cheap", "", "fast", "both"]))[2:] == ["cheap", "fast", "both"]
        assert legend(space.plot(labels=["one", "two"]))[2:] == ["one", "two"]
        wide = trace(cups, x0, [Preference.pareto(4), Preference.ray([1, 1, 1, 1])])
        assert legend(wide.plot(labels=["any", "even"])) == ["any", "even"]
        many = Front(front.losses[[0] * 12], front.preferences[:1] * 12, front.results[:1] * 12)
        assert len(legend(many.plot(labels=[f"run {i}" for i in range(12)]))) == 2 + 12

    def test_errors(self, front, space):
        with pytest.raises(InputError, match=r"labels: expected a text for each of 4 points, found \['cheap'\]"):
            front.plot(labels=["cheap"])
        with pytest.raises(InputError, match="labels: expected a text for each of 4 points, found 'abcd'"):
            front.plot(labels="abcd")
        with pytest.raises(InputError, match=r"truth: expected points of shape \(K, 2\), found \(5, 3\)"):
            front.plot(truth=np.ones((5, 3)))
        with pytest.raises(InputError, match=r"ax: expected three-dimensional axes.*projection='3d'"):
            space.plot(plt.figure().add_subplot())
        with pytest.raises(InputError, match="ax: expected two-dimensional axes for 2 losses"):
            front.plot(plt.figure().add_subplot(projection="3d"))
