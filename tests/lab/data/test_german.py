"""German credit: features, labels and groups of a tiny file in its format."""

import pytest
from tests.lab.data.conftest import write

from ferero.errors import InputError
from ferero_lab.data import german

LINES = """A11 6 A34 A43 1169 A65 A75 4 A93 A101 4 A121 67 A143 A152 2 A173 1 A192 A201 1
A12 48 A32 A43 5951 A61 A73 2 A92 A101 2 A121 22 A143 A152 1 A173 2 A191 A201 2
"""


def test_applicants(tmp_path, register):
    register("german/german.data", LINES.encode())
    write(tmp_path, "german/german.data", LINES.encode())
    people = german(tmp_path)
    assert people.labels.tolist() == [1.0, 0.0]
    assert people.groups.tolist() == [1, 0]  # A93 a man, A92 a woman
    assert people.features[:, :7].tolist() == [[-1, -1, 1, 1, 1, 1, -1], [1, 1, -1, -1, -1, -1, 1]]
    assert people.features[:, 7:].sum(dim=1).tolist() == [13.0, 13.0]  # one mark for each other column


def test_a_short_line_is_refused(tmp_path, register):
    register("german/german.data", b"A11 6\n")
    write(tmp_path, "german/german.data", b"A11 6\n")
    with pytest.raises(InputError, match=r"german.data, line 1: expected 21 values, found 2\."):
        german(tmp_path)
