"""The quasi-Newton metric: secant equation, positive definiteness, the two forms agree."""

from __future__ import annotations

import numpy as np
import pytest

from ferero.optimize._metric import MEMORY, DenseMetric, LimitedMetric, Metric, make_metric


def matrix_of(metric: Metric, n: int) -> np.ndarray:
    return metric.apply(np.eye(n))


def learn(metric: Metric, hessian: np.ndarray, steps: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    n = len(hessian)
    for _ in range(steps):
        gradient = rng.standard_normal(n)
        s = -matrix_of(metric, n) @ gradient
        y = hessian @ s
        metric.update(s, y, -gradient)
    return s, y


def spd(n: int, rng: np.random.Generator) -> np.ndarray:
    factor = rng.standard_normal((n, n))
    return factor @ factor.T + np.eye(n)


@pytest.mark.parametrize("kind", [DenseMetric, LimitedMetric])
@pytest.mark.parametrize("seed", range(3))
def test_the_secant_equation_holds_for_the_last_step(kind: type, seed: int) -> None:
    rng = np.random.default_rng(seed)
    metric = kind(6)
    s, y = learn(metric, spd(6, rng), 8, rng)
    np.testing.assert_allclose(matrix_of(metric, 6) @ y, s, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kind", [DenseMetric, LimitedMetric])
@pytest.mark.parametrize("seed", range(3))
def test_negative_curvature_leaves_the_metric_positive_definite(kind: type, seed: int) -> None:
    rng = np.random.default_rng(10 + seed)
    metric = kind(5)
    learn(metric, spd(5, rng), 2, rng)
    learn(metric, np.diag([4.0, 1.0, -3.0, -0.1, 2.0]), 12, rng)
    M = matrix_of(metric, 5)
    np.testing.assert_allclose(M, M.T, rtol=1e-9, atol=1e-12)
    assert np.linalg.eigvalsh(M).min() > 0


@pytest.mark.parametrize("seed", range(2))
def test_both_forms_agree_while_nothing_is_forgotten(seed: int) -> None:
    rng = np.random.default_rng(2 + seed)
    hessian = spd(5, rng)
    dense, limited = DenseMetric(5), LimitedMetric(5)
    for _ in range(MEMORY - 2):
        gradient = rng.standard_normal(5)
        s = -matrix_of(dense, 5) @ gradient
        y = hessian @ s
        dense.update(s, y, -gradient)
        limited.update(s, y, -gradient)
    probe = rng.standard_normal((3, 5))
    # the dense form may shrink its first scale; well scaled steps never make it do so
    np.testing.assert_allclose(limited.apply(probe), dense.apply(probe), rtol=1e-6, atol=1e-8)


def test_a_concave_first_step_says_nothing_about_lengths() -> None:
    metric = DenseMetric(3)
    s = np.array([1.0, 0.0, 0.0])
    metric.update(s, -s, s)
    assert not metric.is_scaled
    np.testing.assert_array_equal(matrix_of(metric, 3), np.eye(3))


def test_many_parameters_use_the_limited_form() -> None:
    assert isinstance(make_metric(10_000), LimitedMetric)
    assert isinstance(make_metric(20), DenseMetric)


@pytest.mark.parametrize("kind", [DenseMetric, LimitedMetric])
def test_a_reset_forgets_everything(kind: type) -> None:
    rng = np.random.default_rng(5)
    metric = kind(4)
    learn(metric, spd(4, rng), 5, rng)
    assert metric.is_scaled
    metric.reset(np.ones(4))
    np.testing.assert_allclose(matrix_of(metric, 4), np.eye(4), atol=1e-12)
    assert not metric.is_scaled


@pytest.mark.parametrize("kind", [DenseMetric, LimitedMetric])
def test_on_a_face_fixed_parameters_take_their_step_and_the_others_are_free_of_them(kind: type) -> None:
    rng = np.random.default_rng(6)
    metric = kind(5)
    learn(metric, spd(5, rng), 7, rng)
    J, fixed = rng.standard_normal((3, 5)), np.array([False, True, False, True, False])
    step = np.where(fixed, rng.standard_normal(5), 0.0)
    face = metric.on_face(J, metric.apply(J), fixed, step)
    np.testing.assert_allclose(face.shift[fixed], step[fixed])
    np.testing.assert_array_equal(face.applied[:, fixed], 0.0)
    np.testing.assert_array_equal(face.pull[~fixed], 0.0)


def test_a_face_of_the_dense_form_is_the_inverse_of_the_hessians_block() -> None:
    rng = np.random.default_rng(7)
    metric = DenseMetric(5)
    learn(metric, spd(5, rng), 9, rng)
    J, fixed = rng.standard_normal((3, 5)), np.array([True, False, False, True, False])
    block = np.linalg.inv(matrix_of(metric, 5))[np.ix_(~fixed, ~fixed)]
    face = metric.on_face(J, metric.apply(J), fixed, np.zeros(5))
    np.testing.assert_allclose(face.applied[:, ~fixed], J[:, ~fixed] @ np.linalg.inv(block), rtol=1e-8)
