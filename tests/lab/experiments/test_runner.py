"""A run is kept part by part: interrupted, damaged or repeated, it ends with the same story."""

import json
import math
import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
import torch

from ferero.errors import InputError
from ferero_lab import experiments
from ferero_lab.experiments.experiment import Part, Section, Settings, Story
from ferero_lab.experiments.run_folder import RunFolder
from ferero_lab.experiments.runner import report_again, run_experiment
from ferero_lab.report.panels import Curve, Lines, Table


class Tiny:
    """Three parts; each draws from its own seed, and the second can be made to fail."""

    name = "tiny"
    summary = "three numbers"

    def __init__(self, draws=False):
        self.defaults = {"seeds": 2}
        self.draws = draws
        self.ran = []
        self.fail = None

    def parts(self, settings):
        if "nothing" in settings.only:
            raise InputError("--only: expected some of a, b, c, found 'nothing'.")
        return [Part(key, f"part {key}", lambda context, key=key: self._run(key, context)) for key in ("a", "b", "c")]

    def _run(self, key, context):
        assert context.folder.is_dir()
        if self.fail == key:
            self.fail = None
            raise KeyboardInterrupt
        self.ran.append(key)
        context.advance(1, 2)
        context.advance(5, 2)
        return {
            "value": (0.1 + 0.2) * ord(key),
            "lost": math.nan,
            "pair": (1, 2),
            "seconds": float(len(self.ran)),
            "mode": context.settings.mode,
        }

    def story(self, settings, found):
        values = [one["value"] for one in found.values()]
        lines = Lines("values", "part", "value", [Curve(list(range(len(values))), values, "them")])
        table = Table(
            ["part", "value"], [[key, f"{one['value']:.2f}"] for key, one in found.items()], "Values", "a note"
        )
        section = Section("All parts", "In order.", [lines] if self.draws else [], [table])
        return Story("Tiny", f"{len(found)} parts.", [section], {key: dict(one) for key, one in found.items()})


@pytest.fixture
def tiny(monkeypatch):
    experiment = Tiny()
    module = types.ModuleType("tiny_experiment")
    module.EXPERIMENT, module.__spec__ = experiment, ModuleSpec("tiny_experiment", None)
    monkeypatch.setitem(sys.modules, "tiny_experiment", module)
    monkeypatch.setitem(experiments.MODULES, "tiny", "tiny_experiment")
    return experiment


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def without_seconds(value):
    if isinstance(value, dict):
        return {key: without_seconds(one) for key, one in value.items() if key not in {"seconds", "sha256"}}
    return [without_seconds(one) for one in value] if isinstance(value, list) else value


def test_a_run_keeps_its_configuration_its_parts_and_its_report(tiny, tmp_path):
    tiny.draws, stages = True, []
    done = run_experiment(tiny, Settings("quick", seeds=3), tmp_path / "deep" / "run", tell=stages.append)
    files = files_of(tmp_path / "deep" / "run")
    assert {"config.json", "parts/a.json", "parts/b.json", "parts/c.json", "report.html", "measures.json"} <= set(files)
    assert {"all-parts.png", "all-parts.svg"} <= set(files)
    config = json.loads(files["config.json"])
    assert config == done.config
    assert config["options"]["experiment"] == "tiny"
    assert config["options"]["seeds"] == 3
    assert config["device"] == "cpu"
    assert config["defaults"] == {"seeds": 2}
    assert "torch" in config["versions"]
    assert json.loads(files["measures.json"]) == done.story.measures
    assert not (tmp_path / "deep" / "run" / "checkpoints").exists()
    shares = [stage.share for stage in stages if stage.title == "part b"]
    assert shares == [0.0, 0.5, 1.0, 0.0]
    assert [(stage.finished, stage.ended) for stage in stages if stage.ended] == [(1, "run"), (2, "run"), (3, "run")]


def test_an_interrupted_run_continues_to_the_same_results(tiny, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run_experiment(tiny, Settings(), whole)
    tiny.ran, tiny.fail = [], "b"
    with pytest.raises(KeyboardInterrupt):
        run_experiment(tiny, Settings(), cut)
    assert tiny.ran == ["a"]
    assert not (cut / "parts" / "b.json").exists()
    stages = []
    run_experiment(tiny, Settings(), cut, resume=True, tell=stages.append)
    assert tiny.ran == ["a", "b", "c"]
    assert [stage.ended for stage in stages if stage.ended] == ["kept", "run", "run"]
    one, other = files_of(whole), files_of(cut)
    assert set(one) == set(other)
    for name in one:
        if name.endswith(".json"):
            assert without_seconds(json.loads(one[name])) == without_seconds(json.loads(other[name])), name
    assert one["report.html"] == other["report.html"]


def test_a_finished_run_is_not_run_again(tiny, tmp_path):
    run_experiment(tiny, Settings(), tmp_path / "run")
    before = files_of(tmp_path / "run")
    tiny.ran = []
    run_experiment(tiny, Settings(data=tmp_path), tmp_path / "run", resume=True)
    assert tiny.ran == []
    assert files_of(tmp_path / "run") == before


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: content.replace(b'"pair"', b'"pear"'),
        lambda content: b"[]",
        lambda content: b"\xff\xfe",
    ],
)
def test_a_damaged_part_is_run_again(tiny, tmp_path, damage):
    run_experiment(tiny, Settings(), tmp_path / "run")
    file = tmp_path / "run" / "parts" / "b.json"
    file.write_bytes(damage(file.read_bytes()))
    assert report_again(tmp_path / "run").damaged == ("b",)
    tiny.ran = []
    done = run_experiment(tiny, Settings(), tmp_path / "run", resume=True)
    assert tiny.ran == ["b"]
    assert list(done.story.measures) == ["a", "b", "c"]


def test_what_a_part_gives_is_read_as_it_is_kept(tiny, tmp_path):
    done = run_experiment(tiny, Settings(), tmp_path / "run")
    assert done.story.measures["a"]["lost"] is None
    assert done.story.measures["a"]["pair"] == [1, 2]
    assert report_again(tmp_path / "run").story == done.story


def test_the_report_of_half_a_run(tiny, tmp_path):
    tiny.fail = "c"
    with pytest.raises(KeyboardInterrupt):
        run_experiment(tiny, Settings(), tmp_path / "run")
    assert not (tmp_path / "run" / "report.html").exists()
    assert list(report_again(tmp_path / "run").story.measures) == ["a", "b"]
    assert (tmp_path / "run" / "report.html").exists()


def test_settings_are_read_back_for_the_report(tiny, tmp_path):
    settings = Settings("paper", 3, "cpu", None, ("x", "y"), ("m",), 7)
    run_experiment(tiny, settings, tmp_path / "run")
    assert RunFolder(tmp_path / "run").settings() == settings


def refusal(*args, **options):
    with pytest.raises(InputError) as refused:
        run_experiment(*args, **options)
    return str(refused.value)


def test_refusals_change_nothing(tiny, tmp_path):
    run_experiment(tiny, Settings(), tmp_path / "run")
    before = files_of(tmp_path / "run")
    tiny.ran = []
    run = tmp_path / "run"
    assert refusal(tiny, Settings(), run) == (
        f"--out: {run} exists; continue it with --resume, or choose another --out."
    )
    assert refusal(tiny, Settings(seeds=4), run, resume=True) == (
        f"--resume: {run} was begun with seeds = none, this is 4; repeat that, or choose another --out."
    )
    assert refusal(tiny, Settings(methods=("a", "b")), run, resume=True) == (
        f"--resume: {run} was begun with methods = none, this is a, b; repeat that, or choose another --out."
    )
    other = Tiny()
    other.name = "other"
    assert refusal(other, Settings(), run, resume=True) == (
        f"--resume: {run} was begun with experiment = tiny, this is other; repeat that, or choose another --out."
    )
    assert tiny.ran == []
    assert files_of(run) == before


def test_another_version_is_no_resumption(tiny, tmp_path):
    run = tmp_path / "run"
    run_experiment(tiny, Settings(), run)
    config = json.loads((run / "config.json").read_text())
    now, config["versions"]["torch"] = config["versions"]["torch"], "1.0"
    (run / "config.json").write_text(json.dumps(config))
    assert refusal(tiny, Settings(), run, resume=True) == (
        f"--resume: {run} was begun with torch = 1.0, this is {now}; repeat that, or choose another --out."
    )


def test_places_that_hold_no_run(tiny, tmp_path):
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("mine")
    folder.mkdir()
    assert refusal(tiny, Settings(), file) == (
        f"--out: expected a folder, found the file {file}; choose another place."
    )
    (folder / "thesis.tex").write_text("mine")
    words = f"{folder}: expected the folder of a run, found no config.json in it; choose another."
    assert refusal(tiny, Settings(), folder, resume=True) == words
    with pytest.raises(InputError) as refused:
        report_again(folder)
    assert str(refused.value) == words
    for content in ("{", "[]", '{"options": {}}', '{"options": 3}'):
        (folder / "config.json").write_text(content)
        assert refusal(tiny, Settings(), folder, resume=True) == (
            f"{folder / 'config.json'}: expected the configuration of a run, found none; choose another folder."
        )
    assert (folder / "thesis.tex").read_text() == "mine"


def test_an_empty_folder_and_a_new_one_may_be_resumed(tiny, tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new"):
        run_experiment(tiny, Settings(), tmp_path / name, resume=True)
        assert (tmp_path / name / "report.html").exists()


def test_unknown_names_leave_no_folder(tiny, tmp_path):
    assert refusal(tiny, Settings(only=("nothing",)), tmp_path / "run").startswith("--only: ")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("keys", [("a", "a"), ("a/b",), ("",), ("..",)])
def test_keys_that_are_no_file_names(tmp_path, keys):
    class Bad(Tiny):
        def parts(self, settings):
            return [Part(key, key, lambda context: {}) for key in keys]

    assert "expected keys of letters, digits, - and _, each once" in refusal(Bad(), Settings(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_full_disk_loses_nothing(tiny, tmp_path, monkeypatch):
    run = tmp_path / "run"

    def full(self, target):
        if "b.json" in Path(target).name:
            raise OSError(28, "No space left on device", str(target))
        return rename(self, target)

    rename = Path.replace
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        run_experiment(tiny, Settings(), run)
    assert sorted(path.name for path in (run / "parts").iterdir()) == ["a.json"]
    monkeypatch.undo()
    tiny.ran = []
    run_experiment(tiny, Settings(), run, resume=True)
    assert tiny.ran == ["b", "c"]


def test_the_registry_knows_what_is_there(tiny):
    assert "tiny" in experiments.names()
    assert experiments.get("tiny") is tiny
    for name, words in (
        (
            "tinny",
            f"NAME: there is no experiment 'tinny'; did you mean 'tiny'? There are {', '.join(experiments.names())}.",
        ),
        ("zzz", f"NAME: there is no experiment 'zzz'. There are {', '.join(experiments.names())}."),
    ):
        with pytest.raises(InputError) as refused:
            experiments.get(name)
        assert str(refused.value) == words


def test_a_run_that_cannot_begin_leaves_nothing_behind(tiny, tmp_path):
    def refuse(key, context):
        raise InputError("--data: expected the files, found none.")

    tiny._run = refuse
    with pytest.raises(InputError, match="found none"):
        run_experiment(tiny, Settings(), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_run_that_fails_later_keeps_what_it_has(tiny, tmp_path):
    plain = tiny._run

    def refuse(key, context):
        if key == "b":
            raise InputError("--data: expected the files, found none.")
        return plain(key, context)

    tiny._run = refuse
    with pytest.raises(InputError, match="found none"):
        run_experiment(tiny, Settings(), tmp_path / "new")
    assert RunFolder(tmp_path / "new").part_keys() == ["a"]


def test_small_forms_run_on_one_thread(tiny, tmp_path):
    before, seen = torch.get_num_threads(), []
    plain = tiny._run
    tiny._run = lambda key, context: (seen.append(torch.get_num_threads()), plain(key, context))[1]
    run_experiment(tiny, Settings(mode="quick"), tmp_path / "quick")
    assert set(seen) == {1}
    assert torch.get_num_threads() == before
    assert RunFolder(tmp_path / "quick").config()["threads"] == 1
