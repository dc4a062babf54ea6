"""Every example runs, and says what it promises."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "two_losses_on_a_ray.py": ["converged", "second over first: 2.0"],
    "a_constraint.py": ["subject to error <= 0.3", "converged", "unattainable"],
    "own_problem_numpy.py": ["bend <= 0.2", "converged"],
}


def test_every_example_is_tested():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_example(name, capsys):
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    said = capsys.readouterr().out
    for words in SAYS[name]:
        assert words in said
    assert "stalled" not in said
