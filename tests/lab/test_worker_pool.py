"""A pool gives answers, errors and progress, and leaves no process behind, however it or its parent ends."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from tests.lab import pool_calls as calls

from ferero.errors import FereroError
from ferero_lab.worker_pool import LostWorkerError, TaskMessage, WorkerPool, _portable

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


def until_done(pool):
    """All messages until nothing runs."""
    told = []
    while pool.running:
        told += pool.messages()
    return told


def wait_for_processes(folder, count, process=None):
    end = time.monotonic() + PATIENCE
    while len(list(folder.iterdir())) < count:
        assert time.monotonic() < end
        assert process is None or process.poll() is None
        time.sleep(0.02)


def test_answers_and_progress():
    with WorkerPool() as pool:
        for i in range(2):
            pool.start(f"sum {i}", partial(calls.add, i, 10))
        assert pool.running == {"sum 0": 0.0, "sum 1": 0.0}
        told = until_done(pool)
    for i in range(2):
        of_task = [message for message in told if message.task == f"sum {i}"]
        assert of_task == [TaskMessage(f"sum {i}", 0.5), TaskMessage(f"sum {i}", 1.0, is_done=True, answer=10 + i)]
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_an_idle_worker_is_used_again_and_others_leave_for_a_task_that_runs_alone():
    with WorkerPool() as pool:
        pool.start("one", calls.process_id)
        pool.start("two", calls.process_id)
        workers = {message.answer for message in until_done(pool)}
        assert len(workers) == 2
        pool.start("three", calls.process_id, alone=True)
        assert len(multiprocessing.active_children()) == 1
        (last,) = until_done(pool)
        assert last.answer in workers
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_an_error_comes_back_with_its_traceback_and_ends_the_others(tmp_path):
    begin = time.monotonic()
    with WorkerPool() as pool:
        pool.start("long", partial(calls.hang, tmp_path))
        wait_for_processes(tmp_path, 1)
        pool.start("bad", calls.refuse)
        with pytest.raises(ValueError, match="expected more, found less") as refused:
            until_done(pool)
    assert str(refused.value) == "expected more, found less"
    assert "pool_calls.py" in refused.value.__notes__[-1]
    assert time.monotonic() - begin < calls.LONG / 2
    assert not list(tmp_path.iterdir())  # it was not killed: it could clean up
    assert not multiprocessing.active_children()


def test_answers_and_calls_that_cannot_be_pickled():
    with WorkerPool() as pool:
        with pytest.raises(Exception, match="pickle"):
            pool.start("bad", lambda advance: None)
        assert pool.running == {}
        pool.start("bad", calls.give_what_cannot_be_sent)
        with pytest.raises(Exception, match="pickle"):
            until_done(pool)
        pool.start("good", partial(calls.add, 1, 2))  # the worker is as good as before
        assert until_done(pool)[-1].answer == 3


@pytest.mark.parametrize(("call", "why"), [(calls.die, "signal 9"), (calls.leave, "exit code 3")])
def test_a_worker_that_is_lost(call, why):
    with WorkerPool(advice="buy memory") as pool:
        pool.start("task 7", call)
        with pytest.raises(LostWorkerError) as lost:
            until_done(pool)
    assert str(lost.value) == f"task 7: its worker ended with {why}; buy memory."
    assert isinstance(lost.value, FereroError)
    assert not multiprocessing.active_children()


class TwoWordsError(Exception):
    """One that cannot be unpickled from its words."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def test_errors_travel_with_their_words():
    whole = _portable(OSError(28, "No space left on device", "two.json"))
    assert (whole.filename, whole.strerror) == ("two.json", "No space left on device")
    plain = _portable(TwoWordsError("this", "that"))
    assert type(plain) is RuntimeError
    assert str(plain) == "TwoWordsError: this and that"
    assert "TwoWordsError" in plain.__notes__[-1]


@pytest.mark.skipif(os.name == "nt", reason="there is no such signal")
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.slow
def test_workers_do_not_outlive_their_parent(tmp_path, ending):
    """The workers share the parent's stdout, which is at its end when the last of them is gone."""
    code = (
        "from functools import partial\n"
        "from ferero_lab.worker_pool import WorkerPool\n"
        "from tests.lab.pool_calls import hang\n"
        "with WorkerPool() as pool:\n"
        f"    for i in range(2): pool.start(str(i), partial(hang, {str(tmp_path)!r}))\n"
        "    list(pool.messages())\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT, env=environment) as parent:
        wait_for_processes(tmp_path, 2, parent)
        parent.send_signal(ending)
        parent.communicate(timeout=10)
    assert parent.returncode == -ending
    assert not list(tmp_path.iterdir())
