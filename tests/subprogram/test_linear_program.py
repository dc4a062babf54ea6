import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from ferero.subprogram._linear_program import FEASIBLE, solve_linear, solve_linear_batched

KINDS = ["feasible", "off", "stationary", "repeated", "scaled"]


def draw(kind, m, count, seed=0):
    """Programs (c, M, b) that have a solution.

    feasible: random rows through a random point of the simplex, half of them tight there. off: some of them left out.
    stationary: the rows of a gramian whose gradients cancel, so that no point is strictly feasible. repeated: with
    every row and column twice. scaled: gradients of sizes from 1e-4 to 1e4.
    """
    rng = np.random.default_rng([seed, m, KINDS.index(kind)])
    programs = []
    for _ in range(count):
        if kind in {"feasible", "off"}:
            M = rng.standard_normal((m + 1, m))
            b = M @ rng.dirichlet(np.ones(m)) - (rng.random(m + 1) < 0.5) * rng.random(m + 1)
            c = rng.standard_normal(m)
            if kind == "off":
                b[rng.random(m + 1) < 0.5] = -np.inf
        else:
            J = rng.standard_normal((m, m + 2))
            if kind == "stationary":
                J -= rng.dirichlet(np.ones(m)) @ J
            elif kind == "repeated":
                J = J[np.arange(m) // 2]
            else:
                J *= 10.0 ** rng.uniform(-4, 4, (m, 1))
            M = J @ J.T
            c, b = M @ rng.standard_normal(m), np.zeros(m)
        programs.append((c, M, b))
    return programs


def stack(programs):
    return [torch.from_numpy(np.array(part)) for part in zip(*programs, strict=True)]


def check_certificate(c, M, b, x, missed, gap):
    assert (x >= 0).all()
    assert x.sum() == pytest.approx(1, abs=1e-12)
    assert missed <= 1e-11
    assert abs(gap) <= 1e-10
    counts = b > -np.inf
    assert (M[counts] @ x - b[counts] >= -1e-11 * np.abs(M[counts]).max(axis=1)).all()


@pytest.mark.parametrize("m", [1, 2, 3, 6, 13, 20])
@pytest.mark.parametrize("kind", KINDS)
def test_both_forms_find_the_optimum(kind, m):
    programs = draw(kind, m, 25)
    together = solve_linear_batched(*stack(programs))
    for i, (c, M, b) in enumerate(programs):
        alone = solve_linear(c, M, b)
        check_certificate(c, M, b, *alone)
        check_certificate(c, M, b, together.x[i].numpy(), float(together.missed[i]), float(together.gap[i]))
        assert c @ together.x[i].numpy() == pytest.approx(c @ alone.x, rel=1e-9, abs=1e-9 * np.abs(c).max())
        if kind == "feasible":  # the optimum is unique
            np.testing.assert_allclose(together.x[i], alone.x, atol=1e-9)


@pytest.mark.parametrize("kind", ["feasible", "off", "stationary"])
def test_it_agrees_with_an_independent_solver(kind):
    for m in (2, 5, 11):
        for c, M, b in draw(kind, m, 10, seed=1):
            counts = b > -np.inf
            reference = linprog(-c, A_ub=-M[counts], b_ub=-b[counts], A_eq=np.ones((1, m)), b_eq=[1.0])
            assert c @ solve_linear(c, M, b).x == pytest.approx(-reference.fun, abs=1e-7)


def test_a_row_at_minus_infinity_is_no_row():
    c, M, b = np.array([1.0, 3.0, 2.0]), np.eye(3), np.array([0.5, -np.inf, 0.25])
    for x in (solve_linear(c, M, b).x, solve_linear_batched(*stack([(c, M, b)])).x[0].numpy()):
        np.testing.assert_allclose(x, [0.5, 0.25, 0.25], atol=1e-12)
    free = np.full(3, -np.inf)
    for x in (solve_linear(c, M, free).x, solve_linear_batched(*stack([(c, M, free)])).x[0].numpy()):
        np.testing.assert_allclose(x, [0.0, 1.0, 0.0], atol=1e-12)
    assert solve_linear(c, np.zeros((0, 3)), np.zeros(0)).x.tolist() == [0.0, 1.0, 0.0]
    empty = solve_linear_batched(torch.from_numpy(c)[None], torch.zeros(1, 0, 3).double(), torch.zeros(1, 0).double())
    assert empty.x.tolist() == [[0.0, 1.0, 0.0]]


def test_contradictory_rows_are_missed_as_little_as_can_be():
    c, M, b = np.array([1.0, 0.0]), np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([0.5, 0.5])
    alone, together = solve_linear(c, M, b), solve_linear_batched(*stack([(c, M, b)]))
    for x, missed, gap in ((alone.x, *alone[1:]), (together.x[0].numpy(), *map(float, together[1:]))):
        np.testing.assert_allclose(x, [0.5, 0.5], atol=1e-12)
        assert missed == pytest.approx(0.5)
        assert missed > FEASIBLE
        assert gap == np.inf


def test_random_contradictions_end_on_the_simplex():
    rng = np.random.default_rng(2)
    for m in (1, 3, 8):
        programs = [(rng.standard_normal(m), rng.standard_normal((m + 2, m)), rng.random(m + 2)) for _ in range(30)]
        together = solve_linear_batched(*stack(programs))
        assert together.x.isfinite().all()
        torch.testing.assert_close(together.x.sum(dim=-1), torch.ones(30).double())
        for i, program in enumerate(programs):
            assert float(together.missed[i]) == pytest.approx(solve_linear(*program).missed, abs=1e-9)


def test_nothing_to_gain_and_nothing_to_meet():
    c, M, b = np.zeros(3), np.zeros((3, 3)), np.zeros(3)
    for x in (solve_linear(c, M, b).x, solve_linear_batched(*stack([(c, M, b)])).x[0].numpy()):
        assert np.isfinite(x).all()
        assert x.sum() == pytest.approx(1)


def test_units_do_not_matter():
    for c, M, b in draw("feasible", 5, 10, seed=3):
        size = 10.0 ** np.arange(-12, 12, 4)
        expected = solve_linear(c, M, b).x
        np.testing.assert_allclose(solve_linear(1e-9 * c, M * size[:, None], b * size).x, expected, atol=1e-9)
        x = solve_linear_batched(*stack([(1e9 * c, M * size[:, None], b * size)])).x[0]
        np.testing.assert_allclose(x, expected, atol=1e-9)


def test_arguments_stay_as_they_are():
    (program,) = draw("off", 4, 1)
    kept = [part.copy() for part in program]
    solve_linear(*program)
    solve_linear_batched(*stack([program]))
    for part, before in zip(program, kept, strict=True):
        np.testing.assert_array_equal(part, before)


def test_no_value_is_looked_at_away_from_the_cpu():
    c, M, b = (part.to("meta") for part in stack(draw("feasible", 4, 3)))  # a look at them would raise
    found = solve_linear_batched(c, M, b)
    assert found.x.shape == (3, 4)
    assert found.missed.shape == found.gap.shape == (3,)
