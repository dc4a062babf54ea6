"""Whatever happens to workers, driver and disk, each point is had once, and what is finished stays so."""

import _thread
import gc
import hashlib
import json
import math
import multiprocessing
import pickle
import signal
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.fronts import sweep_jobs as jobs

from ferero.errors import FereroError, InputError
from ferero.fronts._sweep import sweep
from ferero.fronts._sweep_driver import SweepError
from ferero.fronts._sweep_store import SweepStore
from ferero.fronts._trained import Trained
from ferero.optimize import minimize
from ferero.preference import Preference, objectives

RAYS = [[1.0, 1.0 + i] for i in range(4)]
ONCE = {0: 1, 1: 1, 2: 1, 3: 1}


@pytest.fixture
def marks(tmp_path):
    folder = tmp_path / "marks"
    folder.mkdir()
    return str(folder)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "sweep"


def context():
    """Of processes that are forked from a clean one: quick, and safe beside threads."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["ferero", "tests.fronts.sweep_jobs"])
    return found


def pool(workers=2):
    return ProcessPoolExecutor(workers, mp_context=context())


def points(folder):
    return sorted(Path(folder).glob("point-*.pt"))


def is_right(front):
    return np.allclose(front.losses, RAYS[: len(front)], rtol=1e-12)


class TestAnswers:
    def test_of_every_kind(self):
        f = objectives("time", "cost")
        wanted = [Preference.ray([1.0, 2.0], names=f)]
        for answer in (
            [1.0, 2.0],
            (torch.tensor(1.0, requires_grad=True), 2),
            np.array([1, 2]),
            torch.tensor([1.0, 2.0], requires_grad=True),
            {"cost": torch.tensor(2.0), "time": 1.0},
        ):
            front = sweep(lambda p, answer=answer: answer, wanted)
            assert front.losses.tolist() == [[1, 2]]
            assert front.statuses == ("trained",)
            assert front.names == ("time", "cost")
            assert front[0].preference is front.preferences[0]
            assert front[0].seconds > 0

    def test_of_minimize_are_the_same_from_disk(self, folder):
        def fun(x):
            return torch.stack([(x - 1).square().sum(), (x + 1).square().sum()])

        for start in (torch.zeros(2), np.zeros(2)):
            where = folder / type(start).__name__
            given = (
                fun
                if isinstance(start, torch.Tensor)
                else lambda x: np.array([((x - 1) ** 2).sum(), ((x + 1) ** 2).sum()])
            )
            first = sweep(lambda p, given=given, start=start: minimize(given, start, p), RAYS[:2], folder=where)
            again = sweep(never, RAYS[:2], folder=where)
            truth = minimize(given, start, Preference.ray(RAYS[1]))
            for found in (first[1], again[1]):
                assert type(found.x) is type(truth.x)
                assert found.x.dtype == truth.x.dtype
                assert np.array_equal(found.x, truth.x)
                assert np.array_equal(found.history.losses, truth.history.losses)
                assert found.kkt.worst == truth.kkt.worst
                assert np.allclose(found.cone.matrix, truth.cone.matrix, rtol=1e-15)
                assert str(found) == str(truth)
            assert again.to_dict() == first.to_dict()

    def test_trained_models_are_the_same_from_disk(self, folder):
        first, again = sweep(jobs.trained_job, RAYS[:1], folder=folder), sweep(never, RAYS[:1], folder=folder)
        model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
        model.load_state_dict(again.state_dicts[0])
        assert all(
            torch.equal(a, b) for a, b in zip(first.state_dicts[0].values(), model.state_dict().values(), strict=True)
        )
        assert again.state_dicts[0]._metadata == first.state_dicts[0]._metadata
        assert (again[0].seed, again[0].steps, again[0].message, again.statuses) == (3, 9, "Fine.", ("met",))
        assert torch.equal(again[0].course.losses, torch.ones(2, 2))
        plain = torch.load(points(folder)[0], weights_only=True)
        assert plain["kind"] == "Trained"

    def test_a_slice_of_a_large_tensor_is_stored_alone(self, folder):
        stacked = torch.zeros(10, 100_000)
        sweep(lambda p: Trained(p, torch.ones(2), state_dict={"w": stacked[0]}), RAYS[:1], folder=folder)
        assert points(folder)[0].stat().st_size < 500_000

    def test_losses_that_are_not_finite_are_kept(self, folder):
        front = sweep(lambda p: [math.nan, 1.0] if p.ray[0] == p.ray[1] else [1.0, 2.0], RAYS[:2], folder=folder)
        assert front.statuses == ("diverged", "trained")
        assert front[0].message == "A loss is not finite."
        assert sweep(never, RAYS[:2], folder=folder).statuses == ("diverged", "trained")

    @pytest.mark.parametrize(
        ("answer", "text"),
        [
            (None, r"expected it to return its 2 losses, found None; end it with return losses"),
            ([1.0], r"expected it to return 2 losses, shape \(2,\), one for each of f1, f2, found shape \(1,\)"),
            ({"f1": 1.0, "f3": 2.0}, "expected it to return a loss for each of f1, f2, found f1, f3"),
            ({}, "found none"),
            (["a", "b"], "what it returned: expected an array of real numbers"),
            (
                Trained(Preference.ray([1.0, 1.0]), torch.ones(2), state_dict={"a": [object()]}),
                r"state_dict\['a'\]\[0\] of what it returned: expected tensors, numbers, text .*found object",
            ),
        ],
    )
    def test_of_the_wrong_kind(self, answer, text):
        with pytest.raises(SweepError, match=text):
            sweep(lambda p: answer, RAYS[:1])


def never(preference):
    raise AssertionError("what is finished must not be run")


class TestExecutors:
    def test_in_this_process(self, marks):
        told = []
        front = sweep(partial(jobs.job, marks=marks), RAYS, progress=lambda *counts: told.append(counts))
        assert is_right(front)
        assert jobs.runs(marks) == ONCE
        assert told == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]

    def test_preferences_as_trace_takes_them(self):
        wanted = [Preference.ray(ray) for ray in RAYS]
        for form in (wanted, Preference.stack(wanted), torch.tensor(RAYS), iter(wanted)):
            assert is_right(sweep(jobs.answer, form))
        assert len(sweep(jobs.answer, [*wanted, *wanted])) == 8  # seeds

    def test_threads(self, marks):
        with ThreadPoolExecutor(2) as threads:
            assert is_right(sweep(partial(jobs.job, marks=marks), RAYS, executor=threads))
            assert threads.submit(int).result() == 0  # it is left open
        assert is_right(sweep(lambda p: [1.0, p.ray[1] / p.ray[0]], RAYS, executor=ThreadPoolExecutor))
        assert jobs.runs(marks) == ONCE

    def test_processes(self, marks):
        with pool() as processes:
            assert is_right(sweep(partial(jobs.job, marks=marks), RAYS, executor=processes))
        assert jobs.runs(marks) == ONCE

    def test_preferences_pickle(self):
        f = objectives("a", "b", measured=("b",))
        for p in (Preference.ray([1.0, 2.0], names=f), Preference(f, [(f.a <= 1).with_margin(2), abs(f.a - f.b) <= 2])):
            copied = pickle.loads(pickle.dumps(p))
            assert str(copied) == str(p)
            assert torch.equal(copied.B_g, p.B_g)
            assert torch.equal(copied.margins, p.margins)

    @pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
    def test_submitit_in_this_process(self, marks, tmp_path):
        submitit = pytest.importorskip("submitit")
        executor = submitit.AutoExecutor(tmp_path / "jobs", cluster="debug")
        assert is_right(sweep(lambda p: jobs.job(p, marks), RAYS[:2], executor=executor))
        with pytest.raises(SweepError, match=r"train_one of preferences\[1\].*raised PeculiarError: no data"):
            sweep(partial(jobs.failing_job, marks=marks, which={1}), RAYS[:2], executor=executor)
        gc.collect()  # submitit's log files, which it leaves open, while warnings about them are ignored

    @pytest.mark.slow
    def test_submitit_with_a_job_that_is_killed(self, marks, folder, tmp_path, monkeypatch):
        submitit = pytest.importorskip("submitit")
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        executor = submitit.AutoExecutor(tmp_path / "jobs", cluster="local")
        executor.update_parameters(timeout_min=5)
        front = sweep(
            partial(jobs.mortal_job, marks=marks, which=0, times=1), RAYS[:2], executor=executor, folder=folder
        )
        assert is_right(front)
        assert jobs.runs(marks) == {0: 2, 1: 1}

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore")
    def test_dask_with_a_worker_that_is_killed(self, marks, folder):
        distributed = pytest.importorskip("distributed")
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
            distributed.Client(cluster) as client,
        ):
            executor = client.get_executor()
            work = partial(jobs.mortal_job, marks=marks, which=3, times=1)
            assert is_right(sweep(work, RAYS, executor=executor, folder=folder))
            assert jobs.runs(marks)[3] == 2
            assert len(points(folder)) == 4
            assert is_right(sweep(lambda p: [1.0, p.ray[1] / p.ray[0]], RAYS, executor=executor))  # any function
            with pytest.raises(SweepError, match=r"preferences\[1\].*PeculiarError: no data"):
                sweep(partial(jobs.failing_job, marks=marks, which={1}), RAYS[:2], executor=executor)

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore")
    def test_dask_gives_a_point_up_that_kills_every_worker(self, marks):
        distributed = pytest.importorskip("distributed")
        dask = pytest.importorskip("dask")
        with (
            dask.config.set({"distributed.scheduler.allowed-failures": 0}),
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
            distributed.Client(cluster) as client,
        ):
            work = partial(jobs.mortal_job, marks=marks, which=1, times=99)
            with pytest.raises(
                SweepError, match=r"preferences\[1\].*its worker was lost 2 times, last by KilledWorker"
            ):
                sweep(work, RAYS[:2], executor=client.get_executor(), retries=1)
            assert jobs.runs(marks)[1] == 2


class TestLostWorkers:
    def test_a_killed_point_is_run_again_and_finished_ones_are_not(self, marks, folder):
        work = partial(jobs.mortal_job, marks=marks, which=3, times=1, folder=str(folder), after=3)
        assert is_right(sweep(work, RAYS, executor=pool, folder=folder))
        assert jobs.runs(marks) == {0: 1, 1: 1, 2: 1, 3: 2}

    def test_one_that_always_kills_takes_no_other_along(self, marks, folder):
        work = partial(jobs.mortal_job, marks=marks, which=0, times=99)
        with pytest.raises(
            SweepError,
            match=r"^preferences\[0\] \(F along \(0.71, 0.71\)\): its worker was lost 3 times, last by "
            "BrokenProcessPool: .*; 3 of 4 points finished and kept in .*; the same call with the same folder goes on "
            "from there.$",
        ) as caught:
            sweep(work, RAYS, executor=pool, folder=folder)
        assert set(caught.value.finished) == {1, 2, 3}
        assert set(caught.value.failures) == {0}
        assert jobs.runs(marks)[0] == 3
        assert len(points(folder)) == 3

    def test_a_pool_of_the_callers_cannot_be_used_again(self, marks, folder):
        work = partial(jobs.mortal_job, marks=marks, which=3, times=1, folder=str(folder), after=3)
        with (
            pool() as processes,
            pytest.raises(
                SweepError,
                match=r"executor: a worker was killed, which broke the ProcessPoolExecutor, and it cannot be used "
                r"again. Give a function that makes one, .*; 3 of 4 points finished and kept in .*",
            ),
        ):
            sweep(work, RAYS, executor=processes, folder=folder)
        assert is_right(sweep(work, RAYS, folder=folder, executor=pool))
        assert jobs.runs(marks) == {0: 1, 1: 1, 2: 1, 3: 2}

    def test_without_retries(self, marks):
        work = partial(jobs.mortal_job, marks=marks, which=0, times=1)
        with pytest.raises(SweepError, match=r"preferences\[0\].* its worker was lost once.* not kept on disk"):
            sweep(work, RAYS[:1], executor=pool, retries=0)

    def test_a_factory_of_broken_pools_is_not_asked_for_ever(self, marks):
        with pool(1) as broken:
            with pytest.raises(SweepError):
                sweep(partial(jobs.mortal_job, marks=marks, which=0, times=1), RAYS[:1], executor=broken)
            with pytest.raises(SweepError, match="its worker was lost 3 times"):
                sweep(jobs.answer, RAYS[:2], executor=lambda: broken)


class TestLostDriver:
    def test_resumes_after_sigkill(self, marks, folder):
        driver = context().Process(target=jobs.drive, args=(RAYS, marks, str(folder)))
        driver.start()
        try:
            until(lambda: jobs.runs(marks).get(2) and len(points(folder)) == 2)
            with pytest.raises(InputError, match=r"folder: another sweep is at work in .*; wait until it ends"):
                sweep(jobs.answer, RAYS, folder=folder)
        finally:
            driver.kill()
            driver.join()
        (folder / "point-0002-0123456789abcdef.pt.unfinished").write_bytes(b"half")
        told = []
        front = sweep(partial(jobs.job, marks=marks), RAYS, folder=folder, progress=lambda *counts: told.append(counts))
        assert is_right(front)
        assert jobs.runs(marks) == {0: 1, 1: 1, 2: 2, 3: 1}
        assert told == [(2, 4), (3, 4), (4, 4)]
        assert not list(folder.glob("*.unfinished"))
        assert is_right(sweep(never, RAYS, folder=folder))

    def test_ctrl_c_keeps_what_is_finished(self, marks, folder):
        with pytest.raises(KeyboardInterrupt) as caught:
            sweep(partial(jobs.stopping_job, marks=marks, which=2), RAYS, folder=folder)
        assert caught.value.__notes__ == [
            f"sweep: stopped with 2 of 4 points finished and kept in {str(folder)!r}; the same call with the same "
            "folder goes on from there."
        ]
        assert is_right(sweep(partial(jobs.job, marks=marks), RAYS, folder=folder))
        assert jobs.runs(marks) == {0: 1, 1: 1, 2: 2, 3: 1}

    @pytest.fixture
    def heeded(self):
        """Processes in the background are started so that they ignore ctrl-C."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
        signal.signal(signal.SIGINT, before)

    @pytest.mark.usefixtures("heeded")
    def test_ctrl_c_cancels_what_is_pending(self, marks):
        first, stopped = threading.Event(), threading.Event()

        def work(preference):
            jobs.count(marks, preference)
            if jobs.place(preference) == 1:
                first.wait(10)
                _thread.interrupt_main()
                stopped.wait(10)
            return jobs.answer(preference)

        with ThreadPoolExecutor(1) as threads:
            with pytest.raises(KeyboardInterrupt) as caught:
                sweep(work, RAYS, executor=threads, progress=lambda done, total: first.set() if done else None)
            stopped.set()
            assert "1 of 4 points finished, and not kept on disk" in caught.value.__notes__[0]
        assert jobs.runs(marks) == {0: 1, 1: 1}

    def test_ctrl_c_in_the_workers_too(self, marks, folder):
        with pytest.raises(KeyboardInterrupt):
            sweep(partial(jobs.stopping_job, marks=marks, which=3), RAYS, executor=lambda: pool(1), folder=folder)
        assert is_right(sweep(jobs.answer, RAYS, folder=folder))


def until(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


class TestErrorsOfTrainOne:
    @pytest.mark.parametrize("executor", [None, ThreadPoolExecutor, pool])
    def test_others_are_finished_and_kept(self, marks, folder, executor):
        work = partial(jobs.failing_job, marks=marks, which={1})
        with pytest.raises(SweepError) as caught:
            sweep(work, RAYS, executor=executor, folder=folder)
        error = caught.value
        kind = "RuntimeError: PeculiarError" if executor is pool else "PeculiarError"
        assert str(error) == (
            f"train_one of preferences[1] (F along (0.45, 0.89)) raised {kind}: no data; 3 of 4 points finished and "
            f"kept in {str(folder)!r}; the same call with the same folder goes on from there."
        )
        assert isinstance(error, (FereroError, RuntimeError))
        assert error.__cause__ is error.failures[1]
        if executor is pool:
            assert "in failing_job" in error.__cause__.__notes__[0]
        assert jobs.runs(marks) == ONCE  # not retried
        assert is_right(sweep(partial(jobs.job, marks=marks), RAYS, folder=folder))
        assert jobs.runs(marks) == {0: 1, 1: 2, 2: 1, 3: 1}

    def test_many_are_counted(self, marks):
        rays = [[1.0, 1.0 + i] for i in range(8)]
        with pytest.raises(
            SweepError, match=r"preferences\[4\].*; and 2 more, see failures of this error; 1 of 8"
        ) as caught:
            sweep(partial(jobs.failing_job, marks=marks, which=set(range(7))), rays)
        assert set(caught.value.failures) == set(range(7))
        assert caught.value.finished[7].losses.tolist() == pytest.approx([1, 8])

    def test_an_exit_is_an_error(self):
        with pytest.raises(SweepError, match=r"raised RuntimeError: train_one called sys.exit\(3\)"):
            sweep(lambda p: sys.exit(3), RAYS[:1])

    def test_a_function_that_cannot_be_sent(self):
        text = (
            r"train_one: expected a function that can be sent to another process, found one that cannot be pickled "
            r"\(.*\); define train_one at the top level of a module. Dask and submitit take any function."
        )
        with pool(1) as processes, pytest.raises(InputError, match=text):
            sweep(lambda p: [1.0, 1.0], RAYS, executor=processes)


class TestFolder:
    def test_damaged_points_are_run_again(self, marks, folder):
        work = partial(jobs.job, marks=marks)
        sweep(work, RAYS, folder=folder)
        first, second, third, _ = points(folder)
        first.write_bytes(first.read_bytes()[:100])
        flipped = bytearray(second.read_bytes())
        flipped[len(flipped) // 2] ^= 1
        second.write_bytes(flipped)
        third.write_bytes(b"")
        with pytest.warns(
            UserWarning, match=r"point-000.*is damaged \(its checksum differs\); its point is run again"
        ) as told:
            assert is_right(sweep(work, RAYS, folder=folder))
        assert len(told) == 3
        assert all(warning.filename == __file__ for warning in told)
        assert jobs.runs(marks) == {0: 2, 1: 2, 2: 2, 3: 1}
        assert len(points(folder)) == 4

    def test_a_point_beyond_the_last_preference_is_left_alone(self, marks, folder):
        work = partial(jobs.job, marks=marks)
        sweep(work, RAYS, folder=folder)
        last = points(folder)[-1]
        beyond = last.with_name(last.name.replace("point-0003", "point-0004"))
        beyond.write_bytes(last.read_bytes())
        again = sweep(work, RAYS, folder=folder)
        assert is_right(again)
        assert len(again) == 4
        assert beyond.exists()

    def test_a_file_that_would_run_code_is_not_opened(self, folder, tmp_path):
        sweep(jobs.answer, RAYS[:1], folder=folder)
        trap = tmp_path / "sprung"
        evil = tmp_path / "evil.pt"
        torch.save(Trap(str(trap)), evil)
        content = evil.read_bytes()
        points(folder)[0].unlink()
        (folder / f"point-0000-{hashlib.sha256(content).hexdigest()[:16]}.pt").write_bytes(content)
        with pytest.warns(UserWarning, match="is damaged"):
            sweep(jobs.answer, RAYS[:1], folder=folder)
        assert not trap.exists()

    @pytest.mark.parametrize(
        ("other", "text"),
        [
            (RAYS[:3], "it is for 4 preferences, and these are 3"),
            ([*RAYS[:3], [1.0, 4.001]], r"its preferences\[3\] is '.*along \(0.24, 0.97\)', and this one is"),
            (
                [Preference.ray(ray, names=["time", "cost"]) for ray in RAYS],
                "it is for the losses f1, f2, and these are time, cost",
            ),
            ([Preference.ray(ray, through=[0.0, 0.5]) for ray in RAYS], r"its preferences\[0\] is"),
        ],
    )
    def test_of_another_sweep_is_refused(self, folder, other, text):
        sweep(jobs.answer, RAYS, folder=folder)
        with pytest.raises(InputError, match=f"folder: .* is of another sweep: {text}.*Name another folder"):
            sweep(never, other, folder=folder)
        assert len(points(folder)) == 4

    def test_rounding_of_another_machine_is_not(self, folder):
        sweep(jobs.answer, RAYS, folder=folder)
        about = json.loads((folder / "sweep.json").read_text())
        about["preferences"][1]["equalities"][0][0] *= 1 + 1e-14
        (folder / "sweep.json").write_text(json.dumps(about))
        assert is_right(sweep(never, RAYS, folder=folder))

    def test_of_other_files_is_refused(self, folder, tmp_path):
        folder.mkdir()
        sweep(jobs.answer, RAYS[:1], folder=folder)  # an empty one will do
        (tmp_path / "thesis.tex").touch()
        with pytest.raises(InputError, match=r"folder: expected a new one or one of a sweep, found .* with '.*' in it"):
            sweep(never, RAYS, folder=tmp_path)
        with pytest.raises(InputError, match=r"folder: expected a folder, found the file .*thesis.tex"):
            sweep(never, RAYS, folder=tmp_path / "thesis.tex")
        with pytest.raises(InputError, match=r"folder: .* cannot be written to: "):
            sweep(never, RAYS, folder=tmp_path / "thesis.tex" / "below")
        (folder / "sweep.json").write_text("{")
        with pytest.raises(InputError, match=r"has a sweep.json that cannot be read; name another folder"):
            sweep(never, RAYS, folder=folder)

    def test_a_full_disk(self, folder, monkeypatch):
        written = SweepStore.keep

        def keep(self, index, parcel):
            if index == 2:
                raise OSError(28, "No space left on device")
            written(self, index, parcel)

        monkeypatch.setattr(SweepStore, "keep", keep)
        with pytest.raises(
            SweepError,
            match=r"folder: preferences\[2\] is finished but could not be written: .*No space left.*; 2 of 4 points",
        ) as caught:
            sweep(jobs.answer, RAYS, folder=folder)
        assert set(caught.value.finished) == {0, 1, 2}


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (Path(self.path),)


def test_arguments():
    with pytest.raises(InputError, match="train_one: expected a function of a preference, found 3"):
        sweep(3, RAYS)
    for retries in (-1, 1.5, True):
        with pytest.raises(InputError, match="retries: expected an integer of at least 0, found"):
            sweep(jobs.answer, RAYS, retries=retries)
    with pytest.raises(
        InputError, match="executor: expected an object with submit, a function that makes one, or None"
    ):
        sweep(jobs.answer, RAYS, executor=2)
    with pytest.raises(InputError, match="executor: expected it to make an object with submit, found 2"):
        sweep(jobs.answer, RAYS, executor=lambda: 2)
    with pytest.raises(InputError, match="preferences: expected at least one"):
        sweep(jobs.answer, [])


def test_no_worker_is_started_where_all_is_finished(folder):
    sweep(jobs.answer, RAYS, folder=folder)
    assert is_right(sweep(never, RAYS, folder=folder, executor=lambda: pytest.fail("asked for workers")))
