"""``ferero bench solver``: the quick form, going on after an interruption, sums over trials, and random problems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import solver_picture
from rich.console import Console
from scipy import optimize
from typer.testing import CliRunner

from ferero.cli import _app as cli
from ferero.errors import InputError
from ferero_lab.bench.solver import bench, show
from ferero_lab.bench.solver.best_known import read_goals
from ferero_lab.bench.solver.summary import cell_of, failures_of, profiles_of, rows_of, tails_of
from ferero_lab.bench.solver.tables import outcomes, verdicts
from ferero_lab.bench.solver.trial import merged, wanted
from ferero_lab.bench.solver.verdicts import PLANTED, PlantedKind, bench_verdicts, plant, verdict_of


def trial(name: str, start: int = 0, **replies: tuple[bool, int, float]) -> dict[str, Any]:
    made = {
        solver: {
            "solved": solved,
            "local": not solved,
            "evaluations": evaluations,
            "seconds": seconds,
            "status": "converged",
            "violation": 0.0,
            "gap": 0.0 if solved else 0.1,
            "optimality": 0.0,
        }
        for solver, (solved, evaluations, seconds) in replies.items()
    }
    return {"goal": name, "start": start, "family": "box", "kind": "ray", "replies": made}


LINES = [
    trial("a", ferero=(True, 10, 0.03), SLSQP=(True, 12, 0.01), IPOPT=(True, 20, 0.02)),
    trial("b", ferero=(True, 40, 0.02), SLSQP=(True, 8, 0.01), IPOPT=(False, 20, 0.02)),
    trial("c", ferero=(False, 99, 0.09), SLSQP=(True, 14, 0.01), IPOPT=(True, 30, 0.02)),
    trial("d", ferero=(True, 16, 0.01), SLSQP=(False, 90, 0.01), IPOPT=(True, 12, 0.02)),
]


def test_a_cell_sums_trials_up() -> None:
    cell = cell_of(LINES)
    ours = cell["solvers"]["ferero"]
    assert (cell["trials"], cell["all_arrive"]) == (4, 1)
    assert (ours["solved"], ours["local"], ours["evaluations"]) == (0.75, 0.25, 10)
    assert ours["time_over_slsqp"] == pytest.approx(2.5)  # of a and b, which both solve
    assert cell["solvers"]["IPOPT"]["solved"] == 0.75


def test_bars_are_the_better_of_the_rivals() -> None:
    cells = [{"family": "box", "kind": "ray", **cell_of(LINES)}]
    rows = {row.measure: row for row in rows_of(cells, LINES)}
    assert (rows["solved"].value, rows["solved"].bar, rows["solved"].passed) == (0.75, 0.75, True)
    assert (rows["evaluations, median"].bar, rows["evaluations, median"].passed) == (12, True)
    assert rows["time over SLSQP, median"].passed is False


def test_lines_of_one_trial_are_merged_and_what_they_lack_is_wanted() -> None:
    goal = next(goal for goal in read_goals() if goal.problem == "VU1")
    first, second = (trial(goal.key, **{name: (True, 5, 0.1)}) for name in ("SLSQP", "trust-constr"))
    (both,) = merged([first, second])
    assert list(both["replies"]) == ["SLSQP", "trust-constr"]
    assert wanted(goal, 0, ("ferero", "SLSQP", "trust-constr"), [first]) == [("ferero",), ("trust-constr",)]
    assert wanted(goal, 0, ("SLSQP", "trust-constr"), [both]) == []
    assert wanted(goal, 1, ("SLSQP", "trust-constr"), [both]) == [("SLSQP",)]


def test_failures_tails_and_profiles() -> None:
    assert [(one["goal"], one["by"]) for one in failures_of(LINES)] == [("c", ["SLSQP", "IPOPT"])]
    assert [one["goal"] for one in tails_of(LINES)] == ["b", "d", "a"]
    assert profiles_of(LINES)["box"]["SLSQP"] == [12, 8, 14, None]


def test_a_profile_counts_trials_within_a_multiple_of_the_least() -> None:
    taken = {"ferero": [10, None, None], "SLSQP": [20, 5, None]}
    found = solver_picture.shares(taken, np.array([1.0, 2.0]))
    assert found["ferero"].tolist() == pytest.approx([1 / 3, 1 / 3])
    assert found["SLSQP"].tolist() == pytest.approx([1 / 3, 2 / 3])


def test_the_table_says_what_is_not_offered() -> None:
    some = [trial("a", SLSQP=(True, 12, 0.01)), trial("b", ferero=(True, 9, 0.02), SLSQP=(True, 8, 0.01))]
    some[1]["kind"] = "threshold"
    cells = [{"family": "box", "kind": one["kind"], **cell_of([one])} for one in some]
    header, rows = outcomes(cells)
    assert header[3] == "solved, %: ferero / SLSQP"
    assert [row[3] for row in rows] == ["- / 100", "100 / 100"]


@pytest.mark.slow
def test_the_quick_form_through_the_command(tmp_path: Path) -> None:
    out, kept = tmp_path / "solver.json", tmp_path / "lines"
    asked = ["bench", "solver", "--quick", "--out", str(out), "--lines", str(kept)]
    first = CliRunner().invoke(cli.app, asked, env={"COLUMNS": "200"})
    assert first.exit_code == 0, first.output
    assert "ferero bench solver --quick, report half" in first.output
    result = json.loads(out.read_text())
    assert {cell["kind"] for cell in result["cells"]} == {"ray", "at most", "threshold", "equality"}
    assert [row["group"] for row in result["rows"]].count("verdicts, all") == 4
    lines = (kept / "report.jsonl").read_text()
    again = CliRunner().invoke(cli.app, asked, env={"COLUMNS": "200"})  # nothing is left to do
    assert again.exit_code == 0
    assert (kept / "report.jsonl").read_text() == lines
    assert json.loads(out.read_text())["cells"] == result["cells"]
    console = Console(width=200, record=True)
    show(result, console)
    assert "random problems" in console.export_text()


def test_bad_input_is_a_sentence() -> None:
    with pytest.raises(InputError, match="--half: expected tune or report, found 'both'"):
        bench.run(True, lambda _: lambda: None, half="both")
    said = CliRunner().invoke(cli.app, ["bench", "core", "--half", "tune"])
    assert "--half: only bench solver has this option, found bench core; leave it out." in said.stderr
    said = CliRunner().invoke(cli.app, ["bench", "core", "--jobs", "2"])
    assert "--jobs: only bench tasks and bench solver have this option" in said.stderr


@pytest.mark.parametrize("kind", PLANTED)
def test_planted_answers_are_optimal(kind: PlantedKind) -> None:
    """SLSQP, which knows nothing of the answer, finds nothing better where it keeps the constraints."""
    for seed in range(6):
        one = plant(seed, kind)
        assert np.isfinite(one.losses(one.x0)).all()
        numeric = optimize.approx_fprime(one.x0, one.losses, 1e-7 * np.maximum(np.abs(one.x0), 1e-3))
        size = np.abs(one.jacobian(one.x0)).max()
        if kind != "offset":  # whose differences are rounding
            np.testing.assert_allclose(numeric, one.jacobian(one.x0), atol=1e-3 * size)
        violation, gap = one.excess(one.x0)
        assert one.is_attainable == (kind != "unattainable")
        if one.is_attainable and violation <= 1e-12:
            assert gap >= -1e-9


def test_a_false_verdict_is_counted() -> None:
    said = {"verdict": 0, "kind": "convex", "gap": 0.5, "violation": 0.0, "evaluations": 3, "is_local": False}
    lines = [
        {**said, "status": "converged", "is_attainable": True, "is_right": False},
        {**said, "status": "unattainable", "is_attainable": True, "is_right": False},
        {**said, "status": "converged", "is_attainable": True, "is_right": True},
        {**said, "kind": "unattainable", "status": "unattainable", "is_attainable": False, "is_right": False},
    ]
    rows = {(row.group, row.measure): row for row in bench_verdicts(lines)}
    assert rows["verdicts, all", 'false "converged"'].value == 1
    assert rows["verdicts, all", 'false "unattainable"'].value == 1
    assert rows["verdicts, all", 'false "converged"'].passed is False
    assert rows["verdicts, unattainable", 'false "unattainable"'].value == 0
    _, table = verdicts([{"group": r.group, "value": r.value, "note": r.note} for r in rows.values()])
    assert table[0] == ["all", "4", "1", "1", "2", "0"]


def test_a_local_solution_of_an_equality_is_no_false_verdict() -> None:
    """f1 == level is no convex set: ferero ends at its other first-order point from this start."""
    found = verdict_of(695, "offset")
    assert (found["status"], found["is_right"], found["is_local"]) == ("converged", False, True)


def test_an_easy_problem_is_judged_right() -> None:
    assert verdict_of(5, "convex")["is_right"]
