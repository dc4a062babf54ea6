"""Fronts to draw, and no figure left behind."""

import matplotlib as mpl
import pytest

mpl.use("Agg")

from matplotlib import pyplot as plt
from tests.plot.pictures import cups, parabolas, x0

from ferero.fronts import trace
from ferero.preference import spread


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
