"""One style on light and dark pages, which leaves no trace."""

import sys

import matplotlib as mpl
import pytest

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.colors import to_rgba
from tests.plot.pictures import lines, truth

from ferero.errors import MissingExtraError
from ferero.geometry import Cone
from ferero.plot import OKABE_ITO, plot_cone, plot_front, plot_history, plot_region, theme
from ferero.preference import Preference


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
