"""Folders that are complete or not there, and data that parses."""

import json
import math
import sys
from pathlib import Path

import pytest

from ferero.errors import InputError
from ferero_lab.report import check_folder, configuration, to_json, write_file, write_folder

FILES = {"a.json": b"{}", "b.png": b"png"}


def test_a_folder_is_written_and_replaced(tmp_path):
    place = tmp_path / "deep" / "run"
    write_folder(place, FILES)
    write_folder(place, {"a.json": b"[]", "b.png": b"new"})
    assert {path.name: path.read_bytes() for path in place.iterdir()} == {"a.json": b"[]", "b.png": b"new"}
    assert list(place.parent.iterdir()) == [place]


@pytest.mark.parametrize("had_one", [False, True])
@pytest.mark.parametrize("where", ["write_bytes", "rename"])
def test_an_interrupt_leaves_what_was_there(tmp_path, monkeypatch, had_one, where):
    place = tmp_path / "run"
    if had_one:
        write_folder(place, FILES)
    plain, calls = getattr(Path, where), []

    def interrupted(self, *args):
        calls.append(self)
        if len(calls) == 2 or (where == "rename" and not had_one):
            raise KeyboardInterrupt
        return plain(self, *args)

    monkeypatch.setattr(Path, where, interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_folder(place, {"a.json": b"half", "b.png": b"half"})
    monkeypatch.undo()
    if not had_one:
        assert list(tmp_path.iterdir()) == []
    else:
        assert list(tmp_path.iterdir()) == [place]
        assert {path.name: path.read_bytes() for path in place.iterdir()} == FILES


def test_nothing_of_the_users_is_destroyed(tmp_path, monkeypatch):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"--out: expected a new folder.*'thesis.tex' in it; choose another place"):
        write_folder(tmp_path, FILES)
    with pytest.raises(InputError, match="--out: expected a folder, found the file"):
        check_folder(tmp_path / "thesis.tex", FILES)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(InputError, match="where you are; name a new one"):
        check_folder(Path(), FILES)


def test_a_file_is_replaced_at_once(tmp_path, monkeypatch):
    place = tmp_path / "new" / "bench.json"
    write_file(place, b"one")
    write_file(place, b"two")
    assert place.read_bytes() == b"two"

    def interrupted(self, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_file(place, b"three")
    assert [path.read_bytes() for path in place.parent.iterdir()] == [b"two"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits on the size of files")
def test_a_file_that_cannot_be_written_is_named(tmp_path):
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as refused:
            write_file(tmp_path / "bench.json", bytes(2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert refused.value.filename == str(tmp_path / "bench.json")
    assert list(tmp_path.iterdir()) == []


def test_json_has_no_nan():
    text = to_json({"a": [math.nan, math.inf, 1.5], "b": (1, None), "c": "é"})
    assert json.loads(text) == {"a": [None, None, 1.5], "b": [1, None], "c": "é"}


def test_configuration_names_versions_and_options():
    config = configuration("demo", seed=3)
    assert config["command"] == "demo"
    assert config["options"] == {"seed": 3}
    assert {"ferero", "python", "torch", "numpy", "scipy"} == set(config["versions"])
