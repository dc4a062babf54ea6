"""Every example runs, and says what it promises."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "two_losses_on_a_ray.py": ["converged", "second over first: 2.0"],
    "a_constraint.py": ["subject to error <= 0.3", "converged", "unattainable"],
    "compare_methods.py": ["FereroPI ", "LinearScalarization ", "(preference: 2), reads gramian, losses"],
    "own_problem_numpy.py": ["bend <= 0.2", "converged"],
    "train_plain_loop.py": ["after 400 steps", "left over right, on all examples"],
    "train_lightning.py": ["after 400 steps", "left over right"],
    "train_transformers.py": ["after 300 steps", "second <= 0.2", "second: 0."],
    "train_accelerate.py": ["after 400 steps", "left over right"],
    "train_front.py": ["left == 2*right", "met", "ratios of the losses: 0.5"],
    "sweep.py": ["4 of 4 points", "the same call again finds every point finished", "largest ray error: 0."],
    "steer_jax.py": ["after 400 steps", "left over right, on all examples"],
    "steer_policy_gradient.py": ["energy <= 0.33", "met", "energy 0.3"],
    "steer_scikit_learn.py": ["malignant <= 0.05", "met", "steered: {'malignant': 0.0"],
    "train_torchrun.py": ["after 400 steps", "left over right, with 1 processes"],
}
OF_OTHER_PROCESSES = {
    "MASTER_ADDR",
    "MASTER_PORT",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
}  # what a trainer may leave behind
SLOW = {
    "compare_methods.py",
    "steer_jax.py",
    "train_front.py",
    "sweep.py",
    "train_lightning.py",
    "train_transformers.py",
    "train_accelerate.py",
}


def test_every_example_is_tested():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SAYS)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in SAYS])
def test_example(name, capsys):
    if name == "steer_jax.py":
        pytest.importorskip("jax")
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    said = capsys.readouterr().out
    for words in SAYS[name]:
        assert words in said
    assert "stalled" not in said
    assert "not_met" not in said
    if "left over right" in said:
        assert ratio(said) == pytest.approx(2, abs=0.2)


def ratio(said):
    return float(said.rsplit(":", 1)[1])


@pytest.mark.slow
def test_torchrun_with_two_processes():
    how = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command = [*how, str(EXAMPLES / "train_torchrun.py")]
    alone = {name: value for name, value in os.environ.items() if name not in OF_OTHER_PROCESSES}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=alone)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "not_met" not in done.stdout
    assert "with 2 processes" in done.stdout
    assert ratio(done.stdout) == pytest.approx(2, abs=0.2)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads by /proc")
def test_torchrun_leaves_no_thread_of_its_group():
    # A thread of gloo that waits for Python while Python ends aborts the process, once in ten on a busy machine.
    count = "import os, runpy, sys; kept = runpy.run_path(sys.argv[1]); print(len(os.listdir('/proc/self/task')))"
    alone = {name: value for name, value in os.environ.items() if name not in OF_OTHER_PROCESSES}
    command = [sys.executable, "-c", count, str(EXAMPLES / "train_torchrun.py")]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=True, env=alone | {"OMP_NUM_THREADS": "1"}
    )
    assert done.stdout.split()[-1] == "1"
