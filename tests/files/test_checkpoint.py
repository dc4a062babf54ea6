"""A checkpoint gives back what was saved, to the run that it belongs to and to no other."""

import re

import numpy as np
import pytest
import torch

from ferero.errors import InputError
from ferero.files import load_checkpoint, save_checkpoint

BELONGS = {"seeds": "(0, 1)", "method": "FereroPI()"}


def test_what_was_saved_comes_back(tmp_path):
    path = tmp_path / "folder" / "run.pt"
    assert load_checkpoint(path, BELONGS) is None
    save_checkpoint(path, BELONGS, {"weights": torch.arange(3.0), "log": [np.float64(0.5), np.int64(2)], "name": "a"})
    state = load_checkpoint(path, BELONGS)
    assert torch.equal(state["weights"], torch.arange(3.0))
    assert state["log"] == [0.5, 2]
    assert [type(number) for number in state["log"]] == [float, int]
    assert state["name"] == "a"


def test_that_of_another_run_is_refused(tmp_path):
    path = tmp_path / "run.pt"
    save_checkpoint(path, BELONGS, {"epoch": 1})
    words = f"checkpoint: {path} belongs to a run with another seeds: expected (2,), found (0, 1); pass the same"
    with pytest.raises(InputError, match=re.escape(words)):
        load_checkpoint(path, BELONGS | {"seeds": "(2,)"})
    assert load_checkpoint(path, {"method": "FereroPI()"}) == {"epoch": 1}


def test_one_that_does_not_say_what_is_asked_of_it_is_refused(tmp_path):
    path = tmp_path / "run.pt"
    save_checkpoint(path, {"seeds": "(0, 1)"}, {"epoch": 1})
    with pytest.raises(InputError, match=r"another method: expected FereroPI\(\), found None; pass the same"):
        load_checkpoint(path, BELONGS)


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"PK\x03\x04"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path, content):
    path = tmp_path / "run.pt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=re.escape(f"found that {path} cannot be read (")):
        load_checkpoint(path, BELONGS)
