"""Areas and lines are where the mathematics has them."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from tests.plot.pictures import is_inside_figure, legend

from ferero.errors import InputError
from ferero.geometry import Cone
from ferero.plot import plot_cone, plot_region
from ferero.preference import Preference, objectives

f = objectives("time", "cost")


class TestRegion:
    def test_the_area_is_what_is_wanted(self):
        wanted = Preference(f, [f.time <= 0.5, f.time + 2 * f.cost >= 0.6])
        ax = plot_region(wanted)
        points = np.random.default_rng(0).uniform(size=(300, 2))
        inside = ax.patches[0].get_path().contains_points(points)
        assert inside.tolist() == wanted.is_satisfied(points, atol=0).tolist()
        assert legend(ax) == ["time <= 0.5; time + 2*cost >= 0.6"]
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("time", "cost")
        assert len(ax.lines) == 2

    def test_lines_satisfy_everything(self):
        wanted = Preference(f, [f.time == 2 * f.cost, f.time <= 0.5])
        ax = plot_region(wanted)
        line = ax.lines[-1].get_xydata()
        assert wanted.violation(line).max() < 1e-12
        assert np.sort(line[:, 0]) == pytest.approx([0, 0.5])
        assert len(legend(ax)) == 2

    def test_rays_begin_where_they_begin(self):
        ax = plot_region(Preference.ray([1, 1], through=[0.25, 0.5]))
        assert not ax.patches
        assert np.sort(ax.lines[0].get_xydata(), axis=0) == pytest.approx(np.array([[0.25, 0.5], [0.75, 1.0]]))
        ax = plot_region(Preference.between([0.25, 0.5], [0.5, 0.75]))
        assert np.sort(ax.lines[0].get_xydata(), axis=0) == pytest.approx(np.array([[0, 0.25], [0.75, 1.0]]))

    def test_a_point(self):
        ax = plot_region(Preference(f, [f.time == 0.25, f.cost == 0.75]), label="here")
        assert np.allclose(ax.collections[0].get_offsets(), [[0.25, 0.75]])
        assert legend(ax) == ["here"]

    def test_own_axes(self):
        ax = plt.figure().add_subplot(xlim=(0, 3), ylim=(0, 2))
        plot_region(Preference(f, [f.time <= 1]), ax, color="red", label="cheap")
        assert (ax.get_xlim(), ax.get_ylim()) == ((0, 3), (0, 2))
        assert ax.patches[0].get_label() == "cheap"
        assert to_hex(ax.patches[0].get_facecolor()) == "#ff0000"

    def test_nothing_wanted_and_nothing_in_view(self):
        assert plot_region(Preference.pareto(2)).get_legend() is None
        small = plt.figure().add_subplot()
        assert not plot_region(Preference(f, [f.time >= 2]), small).patches

    def test_the_figure_is_as_large_as_the_constraints_are(self):
        ax = plot_region(Preference(f, [f.time >= 5]))
        assert ax.get_xlim() == (0, 7.5)
        assert ax.get_ylim() == (0, 1)
        assert ax.patches[0].get_path().contains_point((6, 0.5))
        ax = plot_region(Preference(f, [f.time == 1, f.cost == 2]))
        assert ax.get_ylim() == (0, 3)
        ax = plot_region(Preference(f, [f.time + 4 * f.cost <= 8, f.time - f.cost <= 1]))
        assert ax.get_xlim() == pytest.approx((0, 1.5 * 2.4))
        assert ax.get_ylim() == pytest.approx((0, 3))

    def test_a_second_drawing_joins_the_legend(self):
        ax = plot_region(Preference(f, [f.time <= 0.5]))
        plot_cone(Cone.orthant(2), [0.5, 0.5], ax)
        assert legend(ax) == ["time <= 0.5", "better than (0.5, 0.5)"]

    def test_errors(self):
        with pytest.raises(InputError, match="preference: expected m = 2 losses"):
            plot_region(Preference.pareto(3))
        with pytest.raises(InputError, match="preference: expected a single one, found a stack"):
            plot_region(Preference.stack([Preference.pareto(2)]))


class TestCone:
    def test_the_area_is_what_dominates(self):
        cone, at = Cone.from_rays([[2, -1], [-1, 2]]), np.array([0.4, 0.6])
        ax = plot_cone(cone, at)
        (area,) = ax.patches
        rng = np.random.default_rng(0)
        points = np.stack([rng.uniform(*ax.get_xlim(), 300), rng.uniform(*ax.get_ylim(), 300)], axis=1)
        assert area.get_path().contains_points(points).tolist() == cone.dominates(points, at).tolist()
        assert len(ax.lines) == 2
        assert legend(ax) == ["better than (0.4, 0.6)"]
        assert is_inside_figure(ax)

    def test_half_space_and_orthant(self):
        assert len(plot_cone(Cone([[1.0, 2.0]]), [1, 1]).lines) == 1
        ax = plot_cone(Cone.orthant(2), [0.5, 0.25], plt.figure().add_subplot(), label="")
        assert ax.get_xlim() == (0, 1)
        corners = ax.patches[0].get_xy()
        assert corners.max(axis=0).tolist() == [0.5, 0.25]
        assert corners.min(axis=0).tolist() == [0, 0]

    def test_nothing_in_view(self):
        ax = plot_cone(Cone.orthant(2), [-1, -1], plt.figure().add_subplot())
        assert not ax.patches

    def test_errors(self):
        with pytest.raises(InputError, match=r"cone: expected m = 2 losses.*found m = 3"):
            plot_cone(Cone.orthant(3), [1, 1, 1])
        with pytest.raises(InputError, match="at: expected 2 numbers, found 3"):
            plot_cone(Cone.orthant(2), [1, 1, 1])
