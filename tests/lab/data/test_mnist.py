"""An idx file is read as it was written, or refused with what is wrong with it."""

import gzip
import re

import numpy as np
import pytest
import torch

from ferero.errors import InputError
from ferero_lab.data.mnist import read_idx

from .conftest import idx, write

ARRAY = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("array", [ARRAY, ARRAY.reshape(24), np.empty((0, 28, 28), np.uint8)])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_it_comes_back_as_it_was_written(tmp_path, array, pack):
    read = read_idx(write(tmp_path, "some", pack(idx(array))), array.ndim)
    assert read.dtype == torch.uint8
    assert read.shape == array.shape
    assert np.array_equal(read.numpy(), array)
    read.fill_(1)  # and can be written to


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "3 dimensions, which begins with 00 00 08 03, found nothing."),
        (idx(ARRAY, kind=13), "3 dimensions, which begins with 00 00 08 03, found 00 00 0d 03."),
        (idx(ARRAY.reshape(24)), "3 dimensions, which begins with 00 00 08 03, found 00 00 08 01."),
        (idx(ARRAY)[:9], "expected a header of 16 bytes, found 9. The file is truncated."),
        (idx(ARRAY)[:-1], "expected 24 entries of shape (2, 3, 4), found 23. The file is truncated."),
        (idx(ARRAY) + b"!", "expected 24 entries of shape (2, 3, 4), found 25. There is something after its end."),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_damaged_file_is_refused(tmp_path, content, text, pack):
    path = write(tmp_path, "some-idx3-ubyte", pack(content))
    with pytest.raises(InputError, match=re.escape(text)) as caught:
        read_idx(path, 3)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_truncated_gzip_is_refused(tmp_path):
    path = write(tmp_path, "some.gz", gzip.compress(idx(ARRAY))[:-10])
    with pytest.raises(InputError, match="expected a whole gzip file, found a truncated or damaged one"):
        read_idx(path, 3)
