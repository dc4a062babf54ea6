"""The command line, as a person and as a program meet it."""

import builtins
import getpass
import json
import platform
import re
import signal
import subprocess
import sys
import time
import types
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ferero
from ferero.__main__ import main as entry
from ferero.cli import _app as cli
from ferero.cli import waiting
from ferero_lab import experiments, problems
from ferero_lab.demo import FILES
from ferero_lab.experiments.experiment import Part, Section, Settings, Story
from ferero_lab.report.panels import Table

PROBLEM = """
import torch

def losses(theta):
    near, far = (theta - 0.5).square().sum(), (theta + 0.5).square().sum()
    return torch.stack([1 - torch.exp(-near), 1 - torch.exp(-far)])

def plain(theta):
    import numpy as np
    return np.array([np.sum((theta - 1) ** 2), np.sum((theta + 1) ** 2)])

def marked(theta):
    return plain(theta)

marked.numpy = True

def broken(theta):
    return 1 / 0

def listed(theta):
    return [theta.sum(), theta.prod()]

number = 3
"""

BROKEN_LINE = PROBLEM.splitlines().index("    return 1 / 0") + 1


@pytest.fixture
def problem(tmp_path):
    path = tmp_path / "problem.py"
    path.write_text(PROBLEM)
    return path


def run(*args):
    return CliRunner().invoke(cli.app, [str(arg) for arg in args], env={"COLUMNS": "160"})


# demo -------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def brief_training(monkeypatch):
    monkeypatch.setattr("ferero_lab.demo.training.STEPS", 50)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    place = tmp_path_factory.mktemp("demo") / "report"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ferero_lab.demo.training.STEPS", 100)
        return run("demo", "--out", place), place


def test_demo_prints_a_table_that_can_be_read(demo):
    result, _ = demo
    assert result.exit_code == 0
    for words in (
        "preference",
        "f1",
        "ray error",
        "status",
        "evals",
        "ms",
        "F along (0.99, 0.16)",
        "report.html",
        "rec <= 4, minimize kl",
        "dual ascent",
        "plain sum",
        "ferero's report: ",
    ):
        assert words in result.stdout
    assert result.stdout.count("converged") == 5
    assert result.stdout.count("unattainable") == 1
    assert "Not met: f2 <= 0.5" in " ".join(result.stdout.split())  # which may break the line anywhere
    assert result.stderr == ""


@pytest.fixture
def no_pictures(monkeypatch):
    monkeypatch.setattr("ferero_lab.demo.Demo.files", lambda self, training: dict.fromkeys(FILES, b"content"))


@pytest.mark.usefixtures("no_pictures")
def test_demo_fits_into_eighty_columns(tmp_path):
    result = CliRunner().invoke(cli.app, ["demo", "--out", str(tmp_path / "r")], env={"COLUMNS": "80"})
    assert "…" not in result.stdout
    assert "F along (0.99, 0.16)  0.9233  0.1462" in result.stdout
    assert max(map(len, result.stdout.splitlines()[:-1])) <= 80


def test_demo_writes_its_report(demo):
    _, place = demo
    assert {path.name for path in place.iterdir()} == set(FILES)
    assert [path.name for path in place.parent.iterdir()] == ["report"]
    results = json.loads((place / "results.json").read_text())
    assert len(results["answers"]) == 12
    assert max(answer["ray_error"] for answer in results["answers"][:10]) < 1e-3
    assert max(results["distance_to_front"]) < 1e-6
    assert results["answers"][10]["losses"]["f1"] == pytest.approx(0.3, abs=1e-6)
    assert results["answers"][11]["status"] == "unattainable"
    assert set(results["training"]["losses"]) == {"ferero", "dual ascent", "plain sum"}
    config = json.loads((place / "config.json").read_text())
    assert config["versions"]["ferero"] == ferero.__version__
    for name in ("training.png", "front.png", "preferences.png", "history.png"):
        assert (place / name).read_bytes().startswith(b"\x89PNG")
    page = (place / "report.html").read_text()
    assert "subject to f1 &lt;= 0.3" in page
    assert "subject to rec &lt;= 4" in page
    assert "unattainable" in page
    assert "http://" not in page
    assert "https://" not in page


def test_demo_tells_nothing_about_the_machine(demo):
    _, place = demo
    for path in place.iterdir():
        content = path.read_bytes().decode("latin-1")
        for secret in (str(Path.home()) + "/", str(place.parent), str(Path.cwd())):
            assert secret not in content, path.name
        if path.suffix != ".png":
            words = re.sub(r"base64,[^\"]*", "", content)
            assert not re.search(rf"\b{re.escape(platform.node())}\b", words), path.name
    config = (place / "config.json").read_text() + (place / "results.json").read_text()
    assert "/" not in config
    assert getpass.getuser() not in config


@pytest.mark.usefixtures("no_pictures")
def test_demo_in_json_prints_nothing_else(tmp_path):
    result = run("demo", "--json", "--out", tmp_path / "r")
    assert result.exit_code == 0
    printed = json.loads(result.stdout)
    assert len(printed["answers"]) == 12
    assert printed["training"]["steps"] == [25, 50]
    assert result.stderr == ""


def test_demo_refuses_a_folder_with_other_things_before_it_runs(tmp_path, monkeypatch):
    (tmp_path / "mine.txt").write_text("mine")
    monkeypatch.setattr("ferero_lab.demo.run_demo", lambda: pytest.fail("it ran"))
    result = run("demo", "--out", tmp_path)
    assert result.exit_code == 1
    assert "--out: expected a new folder or an earlier report" in result.stderr
    assert (tmp_path / "mine.txt").read_text() == "mine"


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("moment", ["run_demo", "write_bytes"])
def test_an_interrupted_demo_leaves_nothing(tmp_path, monkeypatch, moment):
    def interrupt(*_):
        raise KeyboardInterrupt

    if moment == "run_demo":
        monkeypatch.setattr("ferero_lab.demo.run_demo", interrupt)
    else:
        monkeypatch.setattr(Path, "write_bytes", interrupt)
    result = run("demo", "--out", tmp_path / "r")
    assert result.exit_code == 130
    assert "interrupted; no report was written" in result.stderr
    assert list(tmp_path.iterdir()) == []


KILLED_WHILE_WRITING = """
import sys, time
from pathlib import Path
from ferero.cli import _app as cli
from ferero_lab import demo
from ferero_lab.demo import training
training.STEPS = 50
demo.Demo.files = lambda self, training: dict.fromkeys(demo.FILES, b"x" * 1000)
def slow(self, content):
    with self.open("wb") as file:
        file.write(content[:10])
    print("writing", file=sys.stderr, flush=True)
    time.sleep(60)
Path.write_bytes = slow
sys.exit(cli.main(["demo", "--json", "--out", sys.argv[1]]))
"""


@pytest.mark.slow
def test_a_terminated_demo_leaves_nothing(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED_WHILE_WRITING, str(tmp_path / "r")], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "writing\n"
    assert len(list(tmp_path.iterdir())) == 1
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


# solve ------------------------------------------------------------------------------------------------


def test_solve_finds_what_is_asked(problem):
    result = run("solve", f"{problem}:losses", "-p", "f1 <= 0.3", "--n", 4)
    assert result.exit_code == 0
    for words in (
        "subject to f1 <= 0.3",
        "converged",
        "weight",
        "certificate: stationarity",
        "evaluations",
        "x = ",
    ):
        assert words in result.stdout


def test_solve_in_json(problem):
    result = run("solve", f"{problem}:losses", "-p", "ray 1 2", "--x0", "0.1,0,-0.1,0", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert found["success"]
    assert found["losses"]["f2"] == pytest.approx(2 * found["losses"]["f1"], rel=1e-5)
    assert len(found["x"]) == 4
    assert found["kkt"]["stationarity"] < 1e-6


def test_solve_says_when_it_cannot_be_had(problem):
    result = run("solve", f"{problem}:losses", "-p", "cost <= 0.3; time <= 0.3", "--n", 4, "--names", "cost, time")
    assert result.exit_code == 2
    assert "unattainable" in result.stdout
    assert "Not met: " in result.stdout
    shortly = run("solve", f"{problem}:losses", "-p", "f1 <= 0.3", "--n", 4, "--max-iter", 1, "--json")
    assert shortly.exit_code == 2
    assert json.loads(shortly.stdout)["status"] == "max_iter"


@pytest.mark.parametrize("args", [("plain", "--numpy"), ("marked",)])
def test_solve_with_numpy(problem, args):
    result = run("solve", f"{problem}:{args[0]}", "-p", "f1 <= 1", "--x0", "3 1", "--json", *args[1:])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["losses"]["f1"] <= 1 + 1e-6


def test_solve_with_a_fixed_step(problem):
    result = run(
        "solve",
        f"{problem}:losses",
        "-p",
        "minimize f1 + f2",
        "--x0",
        "0.2,0",
        "--step",
        "0.3",
        "--tol",
        "1e-3",
        "--json",
    )
    assert result.exit_code == 0, result.stdout + result.stderr


def test_solve_writes_a_report_without_paths(problem, tmp_path):
    result = run("solve", f"{problem}:losses", "-p", "f1 <= 0.3", "--n", 4, "--out", tmp_path / "r")
    assert result.exit_code == 0
    written = {path.name: path.read_bytes() for path in (tmp_path / "r").iterdir()}
    assert set(written) == {"config.json", "results.json", "history.png", "report.html"}
    assert all(str(tmp_path).encode() not in content for content in written.values())
    assert json.loads(written["config.json"])["options"]["target"] == "problem.py:losses"
    assert b"f1 &lt;= 0.3" in written["report.html"]


@pytest.mark.parametrize(
    ("target", "args", "words"),
    [
        ("nowhere.py:losses", (), "FILE:FUNCTION: there is no file nowhere.py."),
        ("{file}", (), "expected for example problem.py:losses"),
        ("{file}:nothing", (), "has no 'nothing'; it has losses, plain, marked, broken, listed."),
        ("{file}:number", (), "'number' in "),
        ("{file}:broken", (), "problem.py, line {line}: ZeroDivisionError: division by zero"),
        ("{file}:plain", (), "add --numpy"),
        ("{file}:listed", (), "expected one Tensor of m losses, as x0 is one, found list"),
        ("{file}:losses", ("--x0", "1,a"), "--x0: expected numbers"),
        ("{file}:losses", ("--x0", ","), "--x0: expected numbers"),
        ("{file}:losses", ("--n", "0"), "--n: expected a positive number of parameters, found 0."),
        ("{file}:losses", ("--n", "2", "--x0", "0,0"), "found both"),
        ("{file}:losses", (), "found neither"),
        ("{file}:losses", ("--n", "2", "--step", "big"), '--step: expected "auto" or a number'),
        ("{file}:losses", ("--n", "2", "--step", "-1"), "step: expected"),
        ("{file}:losses", ("--n", "2", "--names", "a,b,c", "-p", "a <= 1"), "expected 3 losses"),
        ("{file}:losses", ("--n", "2", "-p", "f1 <= 0.1; f1 >= 0.2"), "f1 >= 0.2"),
        ("{file}:losses", ("--n", "2", "-p", "f1 <= __import__('os')"), "^"),
    ],
)
def test_solve_refuses_in_one_sentence(problem, target, args, words):
    defaults = ("-p", "f1 <= 0.3")
    needs_start = target != "{file}:losses"
    result = run("solve", target.format(file=problem), *defaults, *(("--x0", "1,2") if needs_start else ()), *args)
    assert result.exit_code == 1, result.output
    assert words.replace("{line}", str(BROKEN_LINE)) in result.stderr
    assert result.stderr.startswith("ferero: ")
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_a_bad_preference_has_its_caret_under_the_place(problem):
    result = run("solve", f"{problem}:losses", "-p", "f1 <= 0.3 + f9", "--n", 2)
    lines = result.stderr.splitlines()
    at = next(i for i, line in enumerate(lines) if line.strip().startswith("^"))
    assert lines[at - 1][lines[at].index("^") :].startswith("f9")
    assert "'f9' is none of the objectives" in result.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import nowhere_to_be_found", "bad.py, line 1: ModuleNotFoundError"),
        ("def", "bad.py, line 1: SyntaxError"),
    ],
)
def test_a_file_that_does_not_run(tmp_path, text, words):
    (tmp_path / "bad.py").write_text(text)
    result = run("solve", f"{tmp_path / 'bad.py'}:f", "-p", "f1 <= 1", "--n", 1)
    assert result.exit_code == 1
    assert words in result.stderr


def test_a_file_may_import_its_neighbour(tmp_path):
    (tmp_path / "neighbour_of_own.py").write_text("def square(x):\n    return x.square().sum()\n")
    lines = (
        "import torch",
        "from neighbour_of_own import square",
        "def f(x): return torch.stack([square(x), square(x - 1)])",
    )
    (tmp_path / "own.py").write_text("\n".join(lines))
    result = run("solve", f"{tmp_path / 'own.py'}:f", "-p", "ray 1 1", "--x0", "0.2")
    assert result.exit_code == 0, result.output
    assert str(tmp_path) not in sys.path


# run and report ---------------------------------------------------------------------------------------


class Counting:
    """An experiment of two parts, the second of which can be made to raise."""

    name, summary = "counting", "one, two"

    def __init__(self):
        self.defaults, self.error, self.settings = {}, None, None

    def parts(self, settings):
        self.settings = settings
        return [Part("one", "part one", lambda context: {"value": 1}), Part("two", "part two", self.second)]

    def second(self, context):
        if self.error is not None:
            raise self.error
        context.advance(1, 1)
        return {"value": 2}

    def story(self, settings, found):
        rows = [[key, str(one["value"])] for key, one in found.items()]
        table = Table(["part", "value"], rows, "Counted", "both of them")
        return Story("Counting", "What was counted.", [Section("Parts", "", [], [table])], dict(found))


@pytest.fixture
def counting(monkeypatch):
    module = types.ModuleType("counting_experiment")
    module.EXPERIMENT, module.__spec__ = Counting(), ModuleSpec("counting_experiment", None)
    monkeypatch.setitem(sys.modules, "counting_experiment", module)
    monkeypatch.setitem(experiments.MODULES, "counting", "counting_experiment")
    return module.EXPERIMENT


def said(result, code=1):
    assert result.exit_code == code, result.output
    assert result.stderr.count("\n") == 1
    return result.stderr.strip()


def test_run_shows_tables_and_says_where_the_report_is(counting, tmp_path):
    result = run("run", "counting", "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    for words in ("1 of 2: part one", "2 of 2: part two", "What was counted.", "Counted", "both of them"):
        assert words in result.stdout
    assert result.stdout.splitlines()[-1] == f"Report: {tmp_path / 'run' / 'report.html'}"
    assert (tmp_path / "run" / "report.html").is_file()


def test_run_in_json_prints_nothing_else(counting, tmp_path):
    result = run("run", "counting", "--out", tmp_path / "run", "--json")
    printed = json.loads(result.stdout)
    assert printed["measures"] == {"one": {"value": 1}, "two": {"value": 2}}
    assert printed["folder"] == str(tmp_path / "run")
    assert printed["config"] == json.loads((tmp_path / "run" / "config.json").read_text())


@pytest.mark.parametrize(
    ("args", "folder", "mode"),
    [([], "counting", "ours"), (["--quick"], "counting-quick", "quick"), (["--paper"], "counting-paper", "paper")],
)
def test_run_hands_its_options_on(counting, tmp_path, monkeypatch, args, folder, mode):
    monkeypatch.chdir(tmp_path)
    more = ["--seeds", "3", "--epochs", "4", "--only", "a,b", "--only", "c", "--methods", "m", "--data", "here"]
    result = run("run", "counting", *args, *more, "--json")
    assert result.exit_code == 0, result.output
    assert counting.settings == Settings(mode, 3, "cpu", Path("here"), ("a", "b", "c"), ("m",), 4)
    assert (tmp_path / "runs" / folder / "report.html").is_file()
    assert "here" not in (tmp_path / "runs" / folder / "config.json").read_text()


def test_run_refuses_in_one_sentence(counting, tmp_path):
    there = ", ".join(experiments.names())
    out = tmp_path / "run"
    assert said(run("run", "countin")) == (
        f"ferero: NAME: there is no experiment 'countin'; did you mean 'counting'? There are {there}."
    )
    assert said(run("run", "counting", "--quick", "--paper", "--out", out)) == (
        "ferero: --quick, --paper: expected one of them, found both; leave one out."
    )
    assert said(run("run", "counting", "--device", "abacus", "--out", out)) == (
        "ferero: --device: expected one that torch can use here, found 'abacus'; try cpu."
    )
    assert said(run("run", "counting", "--jobs", "0", "--out", out)) == (
        "ferero: --jobs: expected 1 or more, found 0; leave it out to run one part after the other."
    )
    assert not out.exists()
    assert run("run", "counting", "--out", out).exit_code == 0
    assert said(run("run", "counting", "--out", out)) == (
        f"ferero: --out: {out} exists; continue it with --resume, or choose another --out."
    )
    assert said(run("run", "counting", "--out", out, "--resume", "--seeds", "2")) == (
        f"ferero: --resume: {out} was begun with seeds = none, this is 2; repeat that, or choose another --out."
    )
    assert run("run", "counting", "--seeds", "0").exit_code == 2


def test_an_interrupted_run_says_how_to_continue(counting, tmp_path):
    out = tmp_path / "run"
    counting.error = KeyboardInterrupt()
    assert said(run("run", "counting", "--out", out), 130) == (
        f"ferero: interrupted; what is finished is kept in {out}: the same command with --resume continues."
    )
    counting.error = None
    result = run("run", "counting", "--out", out, "--resume")
    assert result.exit_code == 0
    assert "1 of 2: part one, kept" in result.stdout


def test_a_run_that_cannot_be_written(counting, tmp_path):
    counting.error = OSError(28, "No space left on device", "two.json")
    assert said(run("run", "counting", "--out", tmp_path / "run")) == "ferero: two.json: No space left on device"
    (tmp_path / "file").write_text("")
    assert said(run("run", "counting", "--out", tmp_path / "file")) == (
        f"ferero: --out: expected a folder, found the file {tmp_path / 'file'}; choose another place."
    )
    assert "Not a directory" in said(run("run", "counting", "--out", tmp_path / "file" / "run"))


def test_report_writes_it_anew(counting, tmp_path):
    out = tmp_path / "run"
    first = run("run", "counting", "--out", out)
    page = (out / "report.html").read_bytes()
    (out / "report.html").unlink()
    result = run("report", out)
    assert result.exit_code == 0
    assert result.stdout == first.stdout.partition("part two\n")[2]
    assert (out / "report.html").read_bytes() == page
    assert json.loads(run("report", out, "--json").stdout)["measures"] == {"one": {"value": 1}, "two": {"value": 2}}
    (out / "parts" / "one.json").write_text("{")
    assert f"left out: {out / 'parts' / 'one.json'}, which is damaged" in run("report", out).stdout
    assert said(run("report", tmp_path / "nowhere")) == (
        f"ferero: {tmp_path / 'nowhere'}: expected the folder of a run, found no config.json in it; choose another."
    )


# the rest ---------------------------------------------------------------------------------------------


def test_list():
    result = run("list")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in problems.names())
    listed = json.loads(run("list", "--json").stdout)
    assert [entry["name"] for entry in listed["problems"]] == list(problems.names())
    assert [entry["name"] for entry in listed["experiments"]] == list(experiments.names())
    assert "synthetic" in result.stdout
    assert listed["experiments"][0]["summary"] in result.stdout


def test_version():
    assert run("--version").stdout == f"ferero {ferero.__version__}\n"


def fake_bench(monkeypatch):
    module = types.ModuleType("ferero_lab.bench.core")

    def measure(quick, progress):
        for title in ("first", "second"):
            tick = progress(title)
            tick()
        return {"quick": quick, "rows": [1.0]}

    module.run, module.show = measure, lambda result, console: console.print("shown", result["quick"])
    monkeypatch.setitem(sys.modules, "ferero_lab.bench.core", module)


def test_bench_shows_keeps_and_prints(monkeypatch, tmp_path):
    fake_bench(monkeypatch)
    assert "shown True" in run("bench", "core", "--quick").stdout
    out = tmp_path / "deep" / "core.json"
    result = run("bench", "core", "--json", "--out", out)
    assert json.loads(result.stdout) == json.loads(out.read_text()) == {"quick": False, "rows": [1.0]}


def test_bench_of_nothing():
    for name in ("nothing", "../core"):
        result = run("bench", name)
        assert result.exit_code == 1
        assert "NAME: " in result.stderr


def test_usage_errors_are_not_taken_for_missing_convergence(capsys):
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert cli.main(["solve", "--nonsense"]) == 1
        assert "--nonsense" in capsys.readouterr().err
        assert cli.main(["list"]) == 0
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_one_sentence_names_the_extra(monkeypatch, capsys, missing):
    plain = builtins.__import__

    def blocked(name, *args, **kwargs):
        if name.partition(".")[0] == missing:
            raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)
        return plain(name, *args, **kwargs)

    for name in [key for key in sys.modules if key.startswith("ferero.cli") or key.partition(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", blocked)
    with pytest.raises(SystemExit) as left:
        entry()
    monkeypatch.undo()
    assert left.value.code == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f'needs {missing}, which is missing; run pip install "ferero[cli]".' in said


def test_other_missing_modules_are_not_hidden(monkeypatch):
    plain = builtins.__import__

    def blocked(name, *args, **kwargs):
        if name.startswith("ferero.cli"):
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        return plain(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", blocked)
    with pytest.raises(ModuleNotFoundError, match="torch"):
        entry()


def test_a_spinner_appears_only_for_those_who_wait():
    class Status:
        started = stopped = 0

        def start(self):
            self.started += 1

        def stop(self):
            self.stopped += 1

    class Screen:
        is_terminal = True

        def __init__(self):
            self.shown = Status()

        def status(self, what):
            return self.shown

    quick, slow = Screen(), Screen()
    with waiting(quick, "short", patience=60):
        pass
    with waiting(slow, "long", patience=0.0):
        deadline = time.monotonic() + 5
        while not slow.shown.started and time.monotonic() < deadline:
            time.sleep(0.005)
    assert (quick.shown.started, slow.shown.started, slow.shown.stopped) == (0, 1, 1)
