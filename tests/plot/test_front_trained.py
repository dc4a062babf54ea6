"""A picture of trained models: courses where there are any, and no verdict that nobody gave."""

import matplotlib as mpl
import numpy as np
import pytest
import torch

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.colors import to_hex

from ferero.fronts import Front
from ferero.fronts._trained import Course, Trained
from ferero.preference import Preference


@pytest.fixture(autouse=True)
def _no_figure_is_left():
    yield
    plt.close("all")


def course(first):
    return Course(torch.tensor([first, 9]), torch.tensor([[3.0, 3.0], [1.0, 2.0]]), torch.full((2, 2), 0.5))


def front_of(*entries):
    return Front.from_results(
        Trained(Preference.ray([1.0, 1.0 + i]), torch.tensor([1.0, 2.0 + i], dtype=torch.float64), **entry)
        for i, entry in enumerate(entries)
    )


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def faces(ax):
    return [to_hex(c.get_facecolor()[0]) for c in ax.collections if c.get_sizes()[0] == 36]


def test_courses_are_drawn_and_starts_only_where_they_are():
    front = front_of({"status": "met", "course": course(0)}, {"status": "met", "course": course(4)}, {"status": "met"})
    ax = front.plot(rays=False)
    assert [len(line.get_xdata()) for line in ax.lines] == [2, 2]
    starts = ax.collections[0].get_offsets()
    assert np.allclose(starts, [[3, 3]])
    assert "start" in legend(ax)
    assert "#ffffff" not in faces(ax)
    assert "start" not in legend(front[1:].plot())
    assert not front.plot(rays=False, trajectories=False).lines


def test_hollow_where_not_met_and_where_nobody_judged():
    ax = front_of({"status": "met"}, {"status": "not_met"}, {"status": "trained"}).plot()
    assert [face == "#ffffff" for face in faces(ax)] == [False, True, True]
    assert len([c for c in ax.collections if c.get_sizes()[0] == 18]) == 1  # one cross
    assert legend(ax)[-1] == "not met"
    unjudged = front_of({}, {}).plot()
    assert faces(unjudged) == ["#ffffff"] * 2
    assert "not met" not in legend(unjudged)


def test_a_course_of_nothing_and_a_model_that_diverged():
    lost = Trained(Preference.ray([1.0, 1.0]), torch.tensor([torch.nan, 1.0]), "diverged", course=Course.none(2))
    front = Front.from_results([*front_of({"status": "met"}), lost])
    ax = front.plot()
    assert legend(ax)[-1] == "not met"


def test_parallel():
    results = [
        Trained(Preference.ray([1.0, 1, 1, 1]), torch.ones(4), status=status)
        for status in ("met", "not_met", "trained")
    ]
    ax = Front.from_results(results).plot()
    drawn = [line for line in ax.lines if len(line.get_xdata()) == 4]
    assert [line.get_linestyle() for line in drawn] == ["-", "--", "-"]
    assert [to_hex(line.get_markerfacecolor()) == "#ffffff" for line in drawn] == [False, True, True]
