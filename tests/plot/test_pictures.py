"""Pictures show what they claim: the artists are counted, and their places compared with the mathematics."""

import sys

import matplotlib as mpl
import numpy as np
import pytest
import torch

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.colors import to_hex, to_rgba

from ferero.errors import InputError, MissingExtraError
from ferero.fronts import Front, trace
from ferero.geometry import Cone
from ferero.optimize import minimize
from ferero.plot import OKABE_ITO, plot_cone, plot_front, plot_history, plot_region, theme
from ferero.preference import Preference, objectives, spread

x0 = torch.tensor([0.3, -0.2, 0.1, 0.0], dtype=torch.float64)
f = objectives("time", "cost")
truth = np.stack([np.linspace(0, 4, 30), (2 - np.sqrt(np.linspace(0, 4, 30))) ** 2], axis=1)


def parabolas(x):
    return torch.stack([(x - 0.5).square().sum(), (x + 0.5).square().sum()])


def cups(x):
    return (x - torch.eye(4, dtype=torch.float64)).square().sum(dim=1)


@pytest.fixture(autouse=True)
def _no_figure_is_left():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def front():
    return trace(parabolas, x0, spread(2, 4))


@pytest.fixture(scope="module")
def space():
    return trace(lambda x: cups(x)[:3], x0, [[1.0, 1, 1], [1, 1, 1.2]])


def lines(ax):
    return [line for line in ax.lines if len(line.get_xdata())]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def is_inside_figure(ax):
    """Whether nothing of the axes, legend included, is cut off."""
    box, size = ax.figure.get_tightbbox(), ax.figure.get_size_inches()
    return box.x0 >= 0 and box.y0 >= 0 and box.x1 <= size[0] and box.y1 <= size[1]


class TestFront:
    def test_plane(self, front):
        ax = front.plot(truth=truth)
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("f1", "f2")
        assert len(lines(ax)) == 1 + 4 + 4  # the truth, the rays, the trajectories
        assert len(ax.collections) == 1 + 4  # one start for all, four points
        assert legend(ax)[:3] == ["true front", "wanted", "start"]
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
        assert legend(ax) == ["wanted", "start"]
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
        assert legend(ax)[:3] == ["true front", "wanted", "start"]
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


class TestHistory:
    def test_losses_above_and_violation_below(self):
        result = minimize(parabolas, x0, Preference(f, [f.time <= 0.3]))
        above, below = plot_history(result)
        assert legend(above) == ["time", "cost"]
        assert np.allclose([line.get_ydata() for line in above.lines], result.history.losses.T)
        assert below.get_yscale() == "log"
        assert below.get_xlabel() == "step"
        drawn, expected = below.lines[0].get_ydata(), result.history.losses[:, 0] - 0.3
        assert np.allclose(drawn[expected > 0], expected[expected > 0])
        assert np.isnan(drawn[expected <= 0]).all()
        assert is_inside_figure(above)

    def test_without_constraints(self):
        assert len(plot_history(minimize(parabolas, x0, Preference.pareto(2)))) == 1

    def test_losses_of_very_different_size(self):
        (ax,) = plot_history(minimize(lambda x: parabolas(x) * torch.tensor([1.0, 1e5]), x0, Preference.pareto(2)))
        assert ax.get_yscale() == "log"

    def test_never_violated(self):
        _, below = plot_history(minimize(parabolas, x0, Preference(f, [f.time <= 99])))
        assert [text.get_text() for text in below.texts] == ["none"]

    def test_own_axes(self, front):
        axes = plt.subplots(2)[1]
        assert plot_history(front[0], axes) == tuple(axes)
        assert len(axes[1].lines) == 1
        single = plt.figure().add_subplot()
        assert plot_history(front[0], single) == (single,)
        assert len(single.lines) == 2
        with pytest.raises(InputError, match=r"ax: expected one or two axes.*found 3"):
            plot_history(front[0], plt.subplots(3)[1])


class TestStyle:
    def test_dark_pages(self, front):
        with theme(dark=True):
            ax = front.plot(truth=truth)
        assert sum(to_rgba(ax.figure.get_facecolor())[:3]) < 0.5
        assert sum(to_rgba(ax.xaxis.label.get_color())[:3]) > 2
        ax.figure.canvas.draw()  # ticks are made here, after the theme has ended
        assert sum(to_rgba(ax.get_xticklabels()[0].get_color())[:3]) > 2
        own = plt.figure().add_subplot(facecolor="black")
        plot_front(front, own)
        assert [line.get_color() for line in lines(own)] == [line.get_color() for line in lines(ax)[1:]]

    def test_the_theme_leaves_no_trace(self, front):
        before = dict(mpl.rcParams)
        front.plot()
        with theme(dark=True):
            assert mpl.rcParams["svg.fonttype"] == "none"
        assert dict(mpl.rcParams) == before

    def test_a_few_things_have_colours_of_the_palette(self, front):
        ax = front.plot(rays=False)
        assert {line.get_color() for line in lines(ax)} <= set(OKABE_ITO.values())

    def test_text_stays_text(self, front, tmp_path):
        with theme():
            front.plot().figure.savefig(tmp_path / "front.svg")
        assert ">f1<" in (tmp_path / "front.svg").read_text()

    def test_without_matplotlib(self, front, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
        for draw in (
            front.plot,
            lambda: plot_cone(Cone.orthant(2), [1, 1]),
            lambda: plot_region(Preference.pareto(2)),
            lambda: plot_history(front[0]),
            lambda: theme().__enter__(),
        ):
            with pytest.raises(MissingExtraError, match=r'matplotlib is not installed.*"ferero\[plot\]"'):
                draw()
