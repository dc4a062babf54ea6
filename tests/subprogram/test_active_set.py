"""The active set that a guess begins with: exact where it settles, harmless where the guess is poor."""

import numpy as np
import pytest

from ferero.subprogram import Program, solve_exact
from ferero.subprogram._active_set import settle_from


def random_program(rng: np.random.Generator, bound: float = np.inf) -> Program:
    m, inequalities, equalities = int(rng.integers(3, 7)), int(rng.integers(0, 4)), int(rng.integers(0, 2))
    J = rng.standard_normal((m, 12))
    rows = np.concatenate([np.eye(m), rng.standard_normal((inequalities + equalities, m))])
    linear = np.concatenate([-0.1 * rng.random(m), 0.3 * rng.standard_normal(inequalities + equalities)])
    return Program(rows, J @ J.T, linear, 0.5 + rng.random(m), 1.0, equalities, bound)


@pytest.mark.parametrize("bound", [np.inf, 2.0])
def test_a_nearby_programs_answer_is_a_guess_that_settles_on_this_ones(bound):
    rng, settled = np.random.default_rng(0), 0
    for _ in range(60):
        program = random_program(rng, bound)
        nearby = Program(
            program.rows, program.gramian, program.linear * 1.01, program.simplex, 1.0, program.equalities, bound
        )
        found = settle_from(program, solve_exact(nearby).multipliers)
        if found is not None:
            settled += 1
            assert program.residual(found) <= 1e-12
            np.testing.assert_allclose(
                program.weights(found), program.weights(solve_exact(program).multipliers), 1e-6, 1e-9
            )
    assert settled >= 50


def test_with_any_guess_the_answer_is_as_good():
    rng = np.random.default_rng(1)
    for _ in range(60):
        program = random_program(rng, bound=2.0)
        poor = program.feasible(rng.random(len(program.linear)))
        answer = solve_exact(program, poor)
        assert answer.residual <= 1e-10
        without = solve_exact(program).multipliers
        np.testing.assert_allclose(program.weights(answer.multipliers), program.weights(without), 1e-5, 1e-8)


def test_nothing_settles_without_a_row_of_the_order():
    program = Program(np.eye(2), np.eye(2), np.zeros(2), np.ones(2), 1.0)
    assert settle_from(program, np.zeros(2)) is None


def test_a_stretched_program_is_the_one_of_the_stretched_gramian():
    rng = np.random.default_rng(2)
    program = random_program(rng, bound=3.0)
    stretched = program.stretched(0.37)
    afresh = Program(
        program.rows, 0.37 * program.gramian, program.linear, program.simplex, 1.0, program.equalities, 3.0
    )
    for name in ("gramian", "quadratic", "lengths", "a", "lower", "upper", "ends", "unmet"):
        np.testing.assert_allclose(getattr(stretched, name), getattr(afresh, name), rtol=1e-13, atol=1e-15)
    lam = rng.random(len(program.linear))
    assert stretched.residual(lam) == pytest.approx(afresh.residual(lam), rel=1e-12)


def test_multipliers_that_are_no_numbers_have_no_small_residual():
    program = random_program(np.random.default_rng(3))
    lam = solve_exact(program).multipliers
    lam[0] = np.nan
    assert program.residual(lam) == np.inf
