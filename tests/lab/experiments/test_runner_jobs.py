"""Parts in several processes give what they give in one; errors and interrupts leave no process behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.lab.experiments.made_up import PATIENCE, REFUSAL, MadeUp

from ferero.errors import InputError
from ferero_lab.experiments.experiment import Part, Settings
from ferero_lab.experiments.run_folder import RunFolder
from ferero_lab.experiments.runner import _share_of_threads, run_experiment
from ferero_lab.worker_pool import LostWorkerError

ROOT = Path(__file__).parents[3]


def parts_of(folder):
    place = RunFolder(folder)
    return {key: place.kept(key) for key in place.part_keys()}


def without_seconds(folder):
    return {key: {**found, "seconds": None} for key, found in parts_of(folder).items()}


def is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(path, process=None):
    end = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < end, path
        assert process is None or process.poll() is None
        time.sleep(0.02)


@pytest.mark.slow
def test_two_processes_give_what_one_gives(tmp_path):
    one, two, marks = tmp_path / "one", tmp_path / "two", tmp_path / "marks"
    marks.mkdir()
    settings = Settings(mode="quick")
    alone = run_experiment(MadeUp(), settings, one)
    stages = []
    # "one" and "two" each wait until the other has begun, which never ends unless they run at once.
    made = MadeUp(marks, {"one": "meet two", "two": "meet one"})
    done = run_experiment(made, settings, two, jobs=2, tell=stages.append)
    assert without_seconds(one) == without_seconds(two)
    assert done.story == alone.story
    assert list(done.story.measures) == list(made.parts_)
    for name in ("config.json", "report.html", "measures.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    assert sorted(path.name for path in (two / "checkpoints").iterdir()) == sorted(made.parts_)

    times = {key: found["seconds"] for key, found in parts_of(two).items()}
    processes = {each["process"] for each in times.values()}
    assert len(processes) == 2
    assert os.getpid() not in processes
    assert parts_of(two)["sum"]["read"] == ["one", "two"]
    assert times["sum"]["began"] >= max(times["one"]["ended"], times["two"]["ended"])
    assert times["last"]["began"] >= times["sum"]["ended"]
    assert times["time"]["began"] >= max(each["ended"] for key, each in times.items() if key != "time")
    assert not multiprocessing.active_children()
    assert not any(map(is_alive, processes))

    assert [stage.finished for stage in stages if stage.ended] == [1, 2, 3, 4, 5, 6]
    assert {stage.title for stage in stages if stage.ended} == {f"part {key}" for key in made.parts_}
    assert any(stage.title.endswith(", and 1 more") for stage in stages if not stage.ended)
    assert stages[-1].title == "part time"


@pytest.mark.slow
def test_an_error_stops_all_and_the_run_goes_on_from_there(tmp_path):
    run, marks = tmp_path / "run", tmp_path / "marks"
    marks.mkdir()
    made = MadeUp(
        marks,
        {"bad": "refuse long", "long": "hang"},
        {"first": {}, "bad": {"after": ("first",)}, "long": {"after": ("first",)}, "next": {"after": ("bad",)}},
    )
    begin = time.monotonic()
    with pytest.raises(InputError) as refused:
        run_experiment(made, Settings(mode="quick"), run, jobs=2)
    assert time.monotonic() - begin < PATIENCE / 2
    assert str(refused.value) == REFUSAL
    assert "made_up.py" in refused.value.__notes__[-1]
    assert list(parts_of(run)) == ["first"]
    assert not (marks / "next").exists()
    assert not multiprocessing.active_children()
    assert not any(is_alive(int(file.read_text())) for file in marks.glob("*.begun"))

    (marks / "mended").touch()
    (marks / "first").unlink()
    stages = []
    done = run_experiment(made, Settings(mode="quick"), run, resume=True, tell=stages.append)
    assert [stage.ended for stage in stages if stage.ended] == ["kept", "run", "run", "run"]
    assert not (marks / "first").exists()
    assert list(done.story.measures) == ["first", "bad", "long", "next"]


def test_a_process_that_is_killed_is_named(tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()
    made = MadeUp(marks, {"two": "die"}, {"one": {}, "two": {"after": ("one",)}})
    with pytest.raises(LostWorkerError) as lost:
        run_experiment(made, Settings(mode="quick"), tmp_path / "run", jobs=2)
    assert str(lost.value) == (
        "part two: its worker ended with signal 9; where memory ran out, try fewer --jobs, with --resume."
    )
    assert list(parts_of(tmp_path / "run")) == ["one"]
    assert not multiprocessing.active_children()


@pytest.mark.skipif(os.name == "nt", reason="there are no groups of processes to interrupt")
@pytest.mark.slow
def test_an_interrupt_ends_the_processes_too(tmp_path):
    """Ctrl-C in a terminal goes to all processes of the command at once."""
    run, marks = tmp_path / "run", tmp_path / "marks"
    marks.mkdir()
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background\n"
        "from ferero_lab import experiments\n"
        "experiments.MODULES['made-up'] = 'tests.lab.experiments.made_up'\n"
        "from ferero.cli._app import main\n"
        f"sys.exit(main(['run', 'made-up', '--quick', '--jobs', '2', '--out', {str(run)!r}]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "FERERO_TEST_MARKS": str(marks)}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment,
        start_new_session=True,
    ) as process:
        wait_for(marks / "two", process)
        wait_for(run / "parts" / "one.json", process)
        os.killpg(process.pid, signal.SIGINT)
        _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert error == (
        f"ferero: interrupted; what is finished is kept in {run}: the same command with --resume continues.\n"
    )
    assert not any(is_alive(int(file.read_text())) for file in marks.glob("*.begun"))
    assert "two" not in parts_of(run)


@pytest.mark.parametrize("jobs", [0, -3])
def test_no_job_is_no_run(tmp_path, jobs):
    with pytest.raises(InputError) as refused:
        run_experiment(MadeUp(), Settings(), tmp_path / "run", jobs=jobs)
    assert str(refused.value) == (
        f"--jobs: expected 1 or more, found {jobs}; leave it out to run one part after the other."
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("after", ["c", "b", "nobody"])
def test_parts_that_come_before_what_they_read(tmp_path, after):
    class Bad(MadeUp):
        def parts(self, settings):
            return [Part("a", "a", print), Part("b", "b", print, (after,)), Part("c", "c", print)]

    with pytest.raises(InputError) as refused:
        run_experiment(Bad(), Settings(), tmp_path / "run")
    assert str(refused.value) == f"parts: expected 'b' after parts that come before it, found {after!r}."
    assert not (tmp_path / "run").exists()


def test_a_part_reads_what_it_names_and_no_more(tmp_path):
    run_experiment(MadeUp(), Settings(mode="quick"), tmp_path / "run")
    assert {key: one["read"] for key, one in parts_of(tmp_path / "run").items()} == {
        key: sorted(more.get("after", ())) for key, more in MadeUp().parts_.items()
    }


def test_beside_others_a_part_has_its_share_of_the_threads_and_alone_all_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    made = MadeUp(parts_={"time": {"alone": True}, "one": {}}, defaults={"threads": 3})
    run_experiment(made, Settings(mode="quick"), tmp_path / "run", jobs=2)
    assert {key: found["threads"] for key, found in parts_of(tmp_path / "run").items()} == {"one": 2, "time": 3}


def test_each_process_has_its_share_of_the_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    assert [_share_of_threads(16, jobs) for jobs in (2, 3, 16, 40)] == [8, 5, 1, 1]
    assert _share_of_threads(1, 2) == 1
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert _share_of_threads(16, 2) == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "6")
    assert _share_of_threads(6, 4) == 6
