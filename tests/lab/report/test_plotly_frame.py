"""Fewer points, the same shape."""

from __future__ import annotations

import numpy as np

from ferero_lab.report.plotly_frame import thin_columns, thin_curve, thin_path


def test_a_short_path_is_untouched():
    path = [[0.0, 1.0], [2.0, 3.0]]
    assert thin_path(path).tolist() == path


def test_a_path_keeps_its_ends_and_stays_near_all_it_leaves_out():
    t = np.linspace(0, 1, 5000) ** 4
    path = np.stack([np.cos(3 * t), np.sin(3 * t)], axis=1)
    kept = thin_path(path, most=100)
    assert len(kept) <= 100
    np.testing.assert_array_equal(kept[[0, -1]], path[[0, -1]])
    distance = np.linalg.norm(path[:, None] - kept[None], axis=2).min(axis=1)
    assert distance.max() < 0.04


def test_a_path_that_stands_still_or_breaks():
    assert thin_path(np.ones((500, 2))).tolist() == [[1, 1], [1, 1]]
    assert len(thin_path(np.full((500, 2), np.nan))) == 2
    broken = np.stack([np.arange(500.0), np.arange(500.0)], axis=1)
    broken[200:210] = np.nan
    assert 2 < len(thin_path(broken)) <= 120


def test_a_curve_keeps_its_spikes_gaps_and_ends():
    x, y = np.arange(1, 100_001.0), np.zeros(100_000)
    y[54_321], y[12_345], y[70_000:80_000] = 5, -7, np.nan
    kept = thin_curve(x, y)
    assert {0, 54_321, 12_345, 70_000, 99_999} <= set(kept.tolist())
    assert len(kept) < 620
    assert (np.diff(kept) > 0).all()


def test_a_curve_on_a_logarithmic_axis_keeps_its_beginning():
    x = np.arange(0, 100_000.0)
    kept = thin_curve(x, np.sin(x), log=True)
    assert set(range(1, 10)) <= set(kept.tolist())


def test_a_curve_of_nothing():
    assert thin_curve([], []).tolist() == []
    assert thin_curve([np.nan] * 1000, [np.nan] * 1000).tolist() == [0, 999]


def test_columns_become_their_means_over_what_is_known():
    values = np.array([[1.0, 3.0, np.nan, 5.0, np.nan, np.nan, 7.0], [0.0, 0.0, 2.0, 2.0, 4.0, 4.0, 6.0]])
    x, thinned = thin_columns(np.arange(7), values, 4)
    assert x.tolist() == [0.5, 2.5, 4.5, 6.0]
    np.testing.assert_array_equal(thinned, [[2.0, 5.0, np.nan, 7.0], [0.0, 2.0, 4.0, 6.0]])
    assert thin_columns(np.arange(7), values, 7)[1] is values
