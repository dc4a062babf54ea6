"""Problems of the solver benchmark: exact gradients, published optima, and halves that share nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ferero.errors import UnknownNameError
from ferero_lab.bench.solver.registry import PROBLEMS, get_problem, half_of, problems_of
from ferero_lab.bench.solver.smooth import SmoothProblem

SOME = [problem for index, problem in enumerate(PROBLEMS) if index % 6 == 0]


def check_gradients(problem: SmoothProblem) -> None:
    x = problem.starts(1, 3)[0]
    step = 1e-6 * problem.width
    axes = np.eye(problem.n) * step
    rises = [
        (problem.values(x + axis) - problem.values(x - axis)) / (2 * h) for axis, h in zip(axes, step, strict=True)
    ]
    jacobian = problem.jacobian(x)
    assert jacobian.shape == (problem.m + problem.p, problem.n)
    size = np.abs(jacobian).max(axis=1) + 1e-6 * np.abs(problem.values(x)) / problem.width.max()
    assert (np.abs(np.transpose(rises) - jacobian).max(axis=1) <= 1e-5 * size + 1e-9).all()


@pytest.mark.parametrize("problem", SOME, ids=lambda p: p.name)
def test_gradients_are_those_of_the_values(problem: SmoothProblem) -> None:
    check_gradients(problem)


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_all_gradients_are_those_of_the_values(problem: SmoothProblem) -> None:
    check_gradients(problem)


@pytest.mark.parametrize("problem", SOME, ids=lambda p: p.name)
def test_torch_computes_the_same(problem: SmoothProblem) -> None:
    if problem.has_kinks:
        pytest.skip("a constant on one side of its kink is no tensor")
    x = problem.starts(1, 3)[0]
    np.testing.assert_allclose(
        torch.stack(problem.torch_values(torch.from_numpy(x))).numpy(), problem.values(x), rtol=1e-9
    )


def at(name: str, *x: float) -> list[float]:
    return get_problem(name).values(np.array(x, dtype=np.float64)).tolist()


def test_published_points() -> None:
    assert at("Lov1", 0, 0)[0] == 0
    assert at("Lov1", 3, 2.5)[1] == 0
    assert at("MOP7", 2, -1)[0] == 3  # each loss is least where both of its squares vanish
    assert at("MOP7", 2.5, 0.5)[1] == -17
    assert at("SK2", 2, -3, 5, 4)[0] == -5
    assert at("Toi10", 1, 1, 1, 1) == [0, 0, 0]
    assert at("RE21", 1, 2**0.5, 2**0.5, 1)[0] == pytest.approx(1237.8414230005742)  # the suite's ideal point
    assert at("RE21", 3, 3, 2**0.5, 3)[1] == pytest.approx(0.002761423749158419)
    assert at("RE34", 1, 1, 1, 1, 1)[0] == pytest.approx(1661.7078225)
    beam = at("CRE22", 0.205730, 3.470489, 9.036624, 0.205730)  # the welded beam's least cost
    assert beam[0] == pytest.approx(1.724852, rel=1e-5)
    assert max(beam[2:]) <= 1e-3 * 13600
    assert at("BNH", 0, 0)[:2] == [0, 50]
    assert at("OSY", 5, 1, 5, 0, 5, 0)[0] == -274
    assert max(at("OSY", 5, 1, 5, 0, 5, 0)[2:]) <= 0


def test_fronts_as_their_papers_give_them() -> None:
    front = {name: np.zeros(get_problem(name).n) for name in ("ZDT1", "ZDT2", "ZDT4")}
    for x in front.values():
        x[0] = 0.49
    assert at("ZDT1", *front["ZDT1"]) == pytest.approx([0.49, 0.3])
    assert at("ZDT2", *front["ZDT2"]) == pytest.approx([0.49, 1 - 0.49**2])
    assert at("ZDT4", *front["ZDT4"]) == pytest.approx([0.49, 0.3])
    assert sum(at("DTLZ1", 0.3, 0.8, 0.5, 0.5)) == pytest.approx(0.5)
    for name, n in (("DTLZ2, m = 5", 8), ("DTLZ3", 4), ("DTLZ4", 7)):
        m = get_problem(name).m
        x = np.full(n, 0.5)
        x[: m - 1] = np.linspace(0.2, 0.9, m - 1)
        assert np.square(at(name, *x)).sum() == pytest.approx(1.0)


def test_values_beyond_the_domain_are_not_errors() -> None:
    assert np.isnan(at("DGO2", 10.0)[1])
    assert (
        np.isinf(get_problem("ZDT1").jacobian(np.zeros(30))).any()
        or np.isnan(get_problem("ZDT1").jacobian(np.zeros(30))).any()
    )


def test_halves_are_two_and_have_no_group_in_common() -> None:
    tune, report = problems_of("tune"), problems_of("report")
    assert len(tune) + len(report) == len(PROBLEMS) >= 40
    assert not {problem.group for problem in tune} & {problem.group for problem in report}
    assert {half_of(problem) for problem in PROBLEMS if problem.family == "box"} == {"tune", "report"}
    assert len({problem.name for problem in PROBLEMS}) == len(PROBLEMS)
    assert all(problem.source for problem in PROBLEMS)


def test_a_name_that_there_is_not() -> None:
    with pytest.raises(UnknownNameError, match="found 'JOS7'"):
        get_problem("JOS7")
