"""Losses and violations over the steps of a run."""

import matplotlib as mpl
import numpy as np
import pytest
import torch

mpl.use("Agg")

from matplotlib import pyplot as plt
from tests.plot.pictures import is_inside_figure, legend, parabolas, x0

from ferero.errors import InputError
from ferero.optimize import minimize
from ferero.plot import plot_history
from ferero.preference import Preference, objectives

f = objectives("time", "cost")


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
