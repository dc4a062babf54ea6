"""The picture of a training run shows every record, for few and for many losses, with and without constraints."""

from __future__ import annotations

import math

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.colors import to_hex

from ferero.errors import InputError
from ferero.plot import theme
from ferero.plot._training import plot_training
from ferero.plot.style._style import OKABE_ITO


@pytest.fixture(autouse=True)
def _no_figure_is_left():
    yield
    plt.close("all")


def record(losses, violations=(), merit=0.5, step=None):
    """What ``steer.metrics()`` returns, of so many losses and constraints."""
    found = {} if step is None else {"step": step}
    for kind, values in (("loss", losses), ("weight", [0.5] * len(losses))):
        found |= {f"ferero/{kind}/f{i}": value for i, value in enumerate(values)}
    for kind, values in (("multiplier", [0.1] * len(violations)), ("violation", violations)):
        found |= {f"ferero/{kind}/f{i} <= 1": value for i, value in enumerate(values)}
    return found | {"ferero/merit": merit, "ferero/skipped": 0.0, "train/lr": 0.1}


def run(m=2, constraints=2, steps=50):
    return [
        record(
            [math.exp(-t / 20) + i for i in range(m)],
            [max(0.0, 1 - t / 25)] * constraints,
            merit=1.5 if t < 25 else 0.3,
            step=10 * t,
        )
        for t in range(steps)
    ]


def lines(ax):
    return [line for line in ax.lines if len(line.get_xdata()) > 2]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def is_inside_figure(ax):
    box, size = ax.figure.get_tightbbox(), ax.figure.get_size_inches()
    return box.x0 >= 0 and box.y0 >= 0 and box.x1 <= size[0] and box.y1 <= size[1]


def test_four_panels_on_one_axis_of_steps():
    records = run()
    axes = plot_training(records)
    assert [ax.get_ylabel() for ax in axes] == ["losses", "weights", "multipliers", "violations"]
    assert all(ax.get_shared_x_axes().joined(ax, axes[0]) for ax in axes[1:])
    assert [len(lines(ax)) for ax in axes] == [2, 2, 2, 2]
    for ax, key in zip(axes, ("loss/f1", "weight/f1", "multiplier/f1 <= 1", "violation/f1 <= 1"), strict=True):
        steps, values = lines(ax)[1].get_data()
        assert steps.tolist() == [r["step"] for r in records]
        assert values.tolist() == [r[f"ferero/{key}"] for r in records]
    assert axes[-1].get_xlabel() == "step"
    assert legend(axes[0]) == ["f0", "f1"]
    assert legend(axes[2]) == ["f0 <= 1", "f1 <= 1"]
    assert is_inside_figure(axes[0])


def test_colours_are_those_of_the_package_and_one_loss_has_one():
    axes = plot_training(run())
    for ax in axes:
        assert [to_hex(line.get_color()).upper() for line in lines(ax)] == [OKABE_ITO["blue"], OKABE_ITO["vermillion"]]
    with theme(dark=True):
        axes = plot_training(run())
    assert to_hex(lines(axes[0])[0].get_color()).upper() == OKABE_ITO["sky"]


def test_no_legend_covers_data():
    axes = plot_training(run(20, 20))
    for ax in axes:
        if ax.get_legend() is not None:
            box = ax.get_legend().get_window_extent()
            assert all(not box.overlaps(other.get_window_extent()) for other in axes)
    assert is_inside_figure(axes[0])


def test_twenty_losses_have_lines_for_all_and_names_for_a_few():
    axes = plot_training(run(20, 1))
    assert len(lines(axes[0])) == len(lines(axes[1])) == 20
    assert len({to_hex(line.get_color()) for line in lines(axes[0])}) == 20
    assert legend(axes[0])[0] == "f0"
    assert legend(axes[0])[-1] == "f19"
    assert len(legend(axes[0])) <= 10
    assert axes[3].get_ylabel() == "violation"


def test_long_names_are_cut():
    records = [
        {
            "ferero/loss/a": 1.0,
            "ferero/violation/" + "F along (0.1, 0.2)" * 5: 1.0,
            "ferero/multiplier/" + "F" * 90: 1.0,
        }
    ]
    axes = plot_training(records * 3)
    assert max(len(text) for text in legend(axes[1])) <= 32
    assert legend(axes[1])[0].endswith("...")


def test_no_constraint_at_all():
    axes = plot_training(run(constraints=0))
    assert [ax.get_ylabel() for ax in axes] == ["losses", "weights"]
    assert axes[-1].get_xlabel() == "step"


def test_violations_have_an_axis_with_0_on_it_and_a_bar_where_all_is_met():
    axes = plot_training(run())
    assert axes[3].get_yscale() == "symlog"
    assert axes[3].get_ylim() == pytest.approx((0, 1.6))
    (bar,) = axes[3].collections
    ends = np.concatenate([path.vertices[:, 0] for path in bar.get_paths()])
    assert (ends.min(), ends.max()) == (250, 500)
    assert legend(axes[3]) == ["all met"]
    axes = plot_training([record([1.0, 2.0], [0.0, 0.0])] * 5)  # never violated
    assert axes[3].get_yticks().tolist() == [0]
    axes = plot_training([record([1.0, 2.0], [1.0, 0.5], merit=2.0)] * 5)  # never met
    assert len(axes[3].collections) == 0


@pytest.mark.parametrize(("least", "scale"), [(0.5, "linear"), (1e-4, "log"), (0.0, "linear"), (-1.0, "linear")])
def test_losses_are_logarithmic_where_they_span_much_and_are_positive(least, scale):
    axes = plot_training([record([1.0]), record([least])])
    assert axes[0].get_yscale() == scale


def test_records_without_steps_are_counted_and_missing_keys_are_gaps():
    records = [record([1.0, 2.0]), record([1.0]), record([1.0, 2.0])]
    axes = plot_training(records)
    steps, values = lines(axes[0])[1].get_data()
    assert steps.tolist() == [0, 1, 2]
    assert np.isnan(values).tolist() == [False, True, False]


def test_one_record_can_be_drawn():
    assert len(plot_training([record([1.0, 2.0], [0.5])])) == 4


def test_given_axes_are_drawn_on_and_not_resized():
    figure, given = plt.subplots(4, figsize=(5, 7))
    axes = plot_training(run(), axes=given)
    assert axes == tuple(given)
    assert figure.get_size_inches().tolist() == [5, 7]


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([], r"records: expected at least one, found none; append steer\.metrics\(\)"),
        ({"ferero/loss/a": 1.0}, r"records: expected a list of steer\.metrics\(\), found dict"),
        ([1.0], r"records: expected a list of steer\.metrics\(\)"),
        ([{"loss": 1.0}], r"records: expected the keys of steer\.metrics\(\), such as 'ferero/loss/a', found 'loss'"),
        ([{}], r"records: .* found none"),
        ([record([1.0], step=0), record([1.0])], r'records: expected "step" in every record or in none'),
    ],
)
def test_bad_records_are_refused(records, words):
    with pytest.raises(InputError, match=words):
        plot_training(records)


def test_a_wrong_number_of_axes_is_refused():
    _, given = plt.subplots(2)
    words = r"axes: expected 4 of them, for losses, weights, multipliers, violations, found 2"
    with pytest.raises(InputError, match=words):
        plot_training(run(), axes=given)
    assert len(plot_training(run(constraints=0), axes=given)) == 2
