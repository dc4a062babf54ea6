"""`trace(workers=)`: the points of `minimize` to the last bit, whoever computes them, and nothing left behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy as np
import pytest
import torch

from ferero.errors import InputError
from ferero.fronts import trace
from ferero.optimize import minimize
from ferero.preference import Preference, objectives, spread

sys.path.insert(0, str(Path(__file__).parent))  # spawned processes get the path too
import worker_functions as of

f = objectives("a", "b")
start = np.linspace(-0.3, 0.25, 6)
MIXED = [*(Preference.ray(r, names=f) for r in spread(2, 4)), Preference(f, [f.a <= 0.4]), Preference(f, [f.a <= -1])]


def exact(results):
    return [
        (r.status, r.message, r.x.tolist(), r.losses.tolist(), r.evaluations, r.history.losses.tolist(), r.kkt.worst)
        for r in results
    ]


@pytest.mark.slow
def test_two_processes_give_what_one_gives():
    how = {"bounds": [(-0.5, 0.5)] * 6, "constraints": {"type": "ineq", "fun": of.sphere}}
    front = trace(of.numpy_bells, start, MIXED, workers=2, **how)
    assert exact(front) == exact(trace(of.numpy_bells, start, MIXED, workers=1, **how))
    assert exact(front) == exact([minimize(of.numpy_bells, start, p, **how) for p in MIXED])
    together = trace(of.numpy_bells, start, MIXED, **how)
    assert front.statuses == together.statuses
    assert (front.losses - together.losses).abs().max() < 1e-6
    assert not multiprocessing.active_children()


def test_tensors_and_a_start_each():
    starts = torch.from_numpy(start) * torch.linspace(0.5, 1.5, 6, dtype=torch.float64)[:, None]
    front = trace(of.torch_bells, starts, MIXED, workers=2)
    assert exact(front) == exact([minimize(of.torch_bells, x, p) for x, p in zip(starts, MIXED, strict=True)])
    assert all(isinstance(r.x, torch.Tensor) for r in front)


def test_any_map():
    alone = exact(trace(of.numpy_bells, start, MIXED, workers=1))
    assert exact(trace(lambda x: 1.0 * of.numpy_bells(x), start, MIXED, workers=map)) == alone
    with ThreadPool(2) as pool:
        assert exact(trace(lambda x: 1.0 * of.numpy_bells(x), start, MIXED, workers=pool.map)) == alone
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert exact(trace(of.torch_bells, torch.from_numpy(start), MIXED[:2], workers=pool.map)) == exact(
            trace(of.torch_bells, torch.from_numpy(start), MIXED[:2], workers=1)
        )
    with pytest.raises(InputError, match=r"workers: expected a map that .* each of the 6 preferences, .* found 0 val"):
        trace(of.numpy_bells, start, MIXED, workers=lambda function, values: [])


@pytest.mark.parametrize("workers", [0, -2, 1.5, True, "all"])
def test_other_workers(workers):
    with pytest.raises(InputError, match=rf"workers: expected a positive number of .*found {workers!r}\."):
        trace(of.numpy_bells, start, MIXED, workers=workers)


def test_time_is_for_all_together():
    assert set(trace(of.numpy_bells, start, MIXED, workers=1, time_limit=1e-9).statuses) == {"max_iter"}
    with pytest.raises(InputError, match="time_limit: expected a positive number of seconds, found -1"):
        trace(of.numpy_bells, start, MIXED, workers=1, time_limit=-1)


def test_functions_that_cannot_be_sent():
    with pytest.raises(InputError, match=r"^fun: expected what can be sent to another process.*<function.*lambda"):
        trace(lambda x: 1.0 * of.numpy_bells(x), start, MIXED, workers=2)
    with pytest.raises(InputError, match=r"^constraints: expected what can be sent .*define its functions at the top"):
        trace(of.numpy_bells, start, MIXED, workers=2, constraints={"type": "ineq", "fun": lambda x: x[0]})
    assert not multiprocessing.active_children()


def test_errors_of_the_function_arrive():
    with pytest.raises(RuntimeError, match="TwoPartsError: this and that"):
        trace(of.failing, start, MIXED, workers=2)
    with pytest.raises(InputError, match=r"workers: expected 2 processes that work to the end, found one that ended"):
        trace(of.exits, start, MIXED, workers=2)
    assert not multiprocessing.active_children()


def test_an_error_does_not_wait_for_the_others():
    starts = np.stack([start if i else -start for i in range(2)])
    began = time.monotonic()
    with pytest.raises(KeyError, match="broken"):
        trace(of.slow_or_failing, starts, MIXED[:2], workers=2)
    assert time.monotonic() - began < 50
    assert not multiprocessing.active_children()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
def test_ctrl_c_leaves_nothing_running(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, numpy as np, ferero\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import worker_functions as of\n"
        "if __name__ == '__main__':\n"
        "    ferero.trace(of.notes_and_sleeps, np.ones(2), [[1.0, 1.0], [1.0, 2.0]], workers=2)\n"
    )
    begun = tmp_path / "begun"
    begun.mkdir()
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "BEGUN": str(begun)},
    )
    try:
        until = time.monotonic() + 60
        while len(list(begun.iterdir())) < 2 and time.monotonic() < until:
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)
        said = process.communicate(timeout=30)[1]  # the pipe closes when the last process ends
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    assert said.count("Traceback") == 1
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert process.returncode != 0


@pytest.mark.slow
def test_a_function_that_other_processes_cannot_import():
    code = (
        "import numpy as np, ferero\ndef fun(x): return x**2\nferero.trace(fun, np.ones(2), np.eye(2) + 1, workers=2)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "InputError: fun: expected a function that another process can import" in ended.stderr
