"""The quasi-Newton metric: secant equation, positive definiteness, the two forms agree."""

from __future__ import annotations

import numpy as np
import pytest

from ferero.optimize._metric import MEMORY, DenseMetric, LimitedMetric, Metric, make_metric

ALL = np.ones(3, dtype=bool)


def matrix_of(metric: Metric, runs: int, n: int) -> np.ndarray:
    return metric.apply(np.broadcast_to(np.eye(n), (runs, n, n)).copy())


def learn(metric: Metric, hessians: np.ndarray, steps: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    runs, n, _ = hessians.shape
    for _ in range(steps):
        M = matrix_of(metric, runs, n)
        gradient = rng.standard_normal((runs, n))
        s = -np.einsum("pij,pj->pi", M, gradient)
        y = np.einsum("pij,pj->pi", hessians, s)
        metric.update(np.ones(runs, dtype=bool), s, y, -gradient)
    return s, y


def spd(runs: int, n: int, rng: np.random.Generator) -> np.ndarray:
    factor = rng.standard_normal((runs, n, n))
    return factor @ factor.transpose(0, 2, 1) + np.eye(n)


@pytest.mark.parametrize("kind", [DenseMetric, LimitedMetric])
def test_the_secant_equation_holds_for_the_last_step(kind: type) -> None:
    rng = np.random.default_rng(0)
    metric = kind(3, 6)
    s, y = learn(metric, spd(3, 6, rng), 8, rng)
    np.testing.assert_allclose(np.einsum("pij,pj->pi", matrix_of(metric, 3, 6), y), s, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kind", [DenseMetric, LimitedMetric])
def test_negative_curvature_leaves_the_metric_positive_definite(kind: type) -> None:
    rng = np.random.default_rng(1)
    indefinite = np.stack([np.diag([4.0, 1.0, -3.0, -0.1, 2.0])] * 3)
    metric = kind(3, 5)
    learn(metric, spd(3, 5, rng), 2, rng)
    learn(metric, indefinite, 12, rng)
    M = matrix_of(metric, 3, 5)
    np.testing.assert_allclose(M, M.transpose(0, 2, 1), rtol=1e-9, atol=1e-12)
    assert np.linalg.eigvalsh(M).min() > 0


def test_both_forms_agree_while_nothing_is_forgotten() -> None:
    rng = np.random.default_rng(2)
    hessians = spd(2, 5, rng)
    dense, limited = DenseMetric(2, 5), LimitedMetric(2, 5)
    runs = np.ones(2, dtype=bool)
    for _ in range(MEMORY - 2):
        gradient = rng.standard_normal((2, 5))
        s = -np.einsum("pij,pj->pi", matrix_of(dense, 2, 5), gradient)
        y = np.einsum("pij,pj->pi", hessians, s)
        dense.update(runs, s, y, -gradient)
        limited.update(runs, s, y, -gradient)
    probe = rng.standard_normal((2, 3, 5))
    # the dense form may shrink its first scale; well scaled steps never make it do so
    np.testing.assert_allclose(limited.apply(probe), dense.apply(probe), rtol=1e-6, atol=1e-8)


def test_a_concave_first_step_says_nothing_about_lengths() -> None:
    metric = DenseMetric(1, 3)
    s = np.array([[1.0, 0.0, 0.0]])
    metric.update(np.array([True]), s, -s, s)
    assert not metric.is_scaled.any()
    np.testing.assert_array_equal(matrix_of(metric, 1, 3)[0], np.eye(3))


def test_only_the_masked_runs_learn_and_stay() -> None:
    rng = np.random.default_rng(3)
    metric = make_metric(3, 4)
    s = rng.standard_normal((3, 4))
    metric.update(np.array([True, False, True]), s, 2 * s, s)
    assert metric.is_scaled.tolist() == [True, False, True]
    before = matrix_of(metric, 3, 4)
    metric.keep(np.array([False, True, True]))
    np.testing.assert_array_equal(matrix_of(metric, 2, 4), before[1:])


def test_many_parameters_use_the_limited_form() -> None:
    assert isinstance(make_metric(1, 10_000), LimitedMetric)
    assert isinstance(make_metric(1, 20), DenseMetric)


@pytest.mark.parametrize("kind", [DenseMetric, LimitedMetric])
def test_a_reset_forgets_everything_of_the_masked_runs_only(kind: type) -> None:
    rng = np.random.default_rng(5)
    metric = kind(3, 4)
    learn(metric, spd(3, 4, rng), 5, rng)
    before = matrix_of(metric, 3, 4)
    metric.reset(np.array([False, True, False]), np.ones((3, 4)))
    after = matrix_of(metric, 3, 4)
    np.testing.assert_allclose(after[1], np.eye(4), atol=1e-12)
    np.testing.assert_array_equal(after[[0, 2]], before[[0, 2]])
    assert metric.is_scaled.tolist() == [True, False, True]
