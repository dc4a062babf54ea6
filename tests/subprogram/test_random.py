"""Badly scaled and degenerate subprograms, judged by a residual that shares no code with the library's."""

import numpy as np
import pytest

from ferero.subprogram import Program, is_inconsistent, simplex_of, solve_exact, solve_subprogram
from ferero_lab.bench.core.subprograms import long_residual
from ferero_lab.problems.subprograms import random_instance


def solve(x, **options):
    options = {"c_g": x.c_g, "c_h": x.c_h, "domain": x.domain} | options
    return solve_subprogram(x.preference, x.losses, x.gramian, **options)


@pytest.mark.slow
def test_consistent_ones_are_solved():
    rng = np.random.default_rng(0)
    for _ in range(300):
        x = random_instance(rng)
        s = solve(x)
        assert s.status == "optimal"
        assert long_residual(x, s) <= 1e-6
        assert float(s.residual) == pytest.approx(long_residual(x, s), abs=1e-9)


def test_inconsistent_ones_are_unbounded_and_have_an_elastic_solution():
    rng = np.random.default_rng(1)
    for _ in range(80):
        x = random_instance(rng, consistent=False)
        s, elastic = solve(x), solve(x, bound=10.0)
        assert s.status == "unbounded"
        assert s.residual <= 1e-6
        assert (s.multipliers[s.sizes[0] :].abs() <= 1e3).all()
        assert elastic.status == "optimal"
        assert long_residual(x, elastic, bound=10.0) <= 1e-6


def test_consistent_ones_with_a_bound():
    rng = np.random.default_rng(2)
    for _ in range(100):
        x = random_instance(rng)
        assert long_residual(x, solve(x, bound=10.0), bound=10.0) <= 1e-6


def test_gradients_that_are_parallel_only_up_to_rounding_are_parallel():
    rng = np.random.default_rng(3)
    for ratio in (1.0, 0.3, -2.7):
        g = rng.standard_normal(50)
        J = np.stack([g, ratio * g, rng.standard_normal(50)])
        rows = np.vstack([np.eye(3), [[ratio, -1.0, 0.0]]])
        program = Program(rows, J @ J.T, np.array([0, 0, 0, 0.5]), *simplex_of(np.ones(3), np.eye(3), "simplex"), 1)
        assert is_inconsistent(program)


def test_a_program_without_order_is_a_projection():
    B, q = np.array([[1.0, 1.0], [1.0, -2.0]]), np.array([2.0, -3.0])
    program = Program(B, np.eye(2), q, np.zeros(0), 1.0, equalities=1)
    d = -program.weights(solve_exact(program).multipliers)
    assert B[1] @ d + q[1] == pytest.approx(0, abs=1e-9)
    assert B[0] @ d + q[0] <= 1e-9


def test_two_rows_and_a_bounded_equality_have_a_closed_form():
    rng = np.random.default_rng(4)
    for _ in range(50):
        J = rng.standard_normal((2, 5))
        rows = np.vstack([np.eye(2), rng.standard_normal((1, 2))])
        linear = np.concatenate([rng.standard_normal(2), rng.standard_normal(1) * 5])
        program = Program(rows, J @ J.T, linear, rng.uniform(0.1, 1, 2), 1.0, 1, bound=0.5)
        answer = solve_exact(program)
        assert answer.solver == "closed form"
        assert abs(answer.multipliers[-1]) <= 0.5
        assert answer.residual <= 1e-12
