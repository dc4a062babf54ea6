"""A file is the old one or the new one, never a part of it."""

import stat
from pathlib import Path

import pytest

from ferero.files import write_whole


def test_a_file_and_its_folder_are_made_and_replaced(tmp_path):
    path = tmp_path / "new" / "file"
    write_whole(path, b"old")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    write_whole(path, memoryview(b"new"), mode=0o644)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, error):
    path = tmp_path / "file"
    write_whole(path, b"old")

    def fail(self, target):
        raise error

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(type(error)) as raised:
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    if isinstance(error, OSError):
        assert raised.value.filename == str(path)
