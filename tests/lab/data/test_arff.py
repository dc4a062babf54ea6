"""ARFF tables are read, and every fault is named with its line."""

import gzip
import re

import numpy as np
import pytest

from ferero.errors import InputError
from ferero_lab.data.arff import Attribute, read_arff

from .conftest import write

HEAD = "@relation songs\n@attribute tempo numeric\n@attribute sad {0,1}\n@data\n"
WHOLE = """% a comment
@RELATION 'some songs'

@Attribute tempo REAL
@attribute 'how loud' integer
@attribute "mood"\t{ sad, 'very happy' }
@DATA

1.5, -2, sad
% another comment
-1e-3,4,"very happy"
"""


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_table_is_read(tmp_path, pack, end):
    table = read_arff(write(tmp_path, "songs.arff", pack(WHOLE.replace("\n", end).encode())))
    mood = Attribute("mood", ("sad", "very happy"))
    assert table.attributes == (Attribute("tempo"), Attribute("how loud"), mood)
    assert np.array_equal(table.rows, [[1.5, -2, 0], [-0.001, 4, 1]])


def test_a_reader_that_others_wrote_agrees(tmp_path):
    from scipy.io import arff

    rows = np.random.default_rng(0).standard_normal((20, 3))
    names = "".join(f"@attribute x{i} numeric\n" for i in range(3))
    lines = "\n".join(",".join(map(repr, map(float, row))) for row in rows)
    path = write(tmp_path, "some.arff", f"@relation some\n{names}@data\n{lines}\n".encode())
    theirs, _ = arff.loadarff(path)
    assert np.array_equal(read_arff(path).rows, np.array(theirs.tolist()))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (HEAD + "1,0\n2\n", ", line 6: expected 2 values, found 1."),
        (HEAD + "1,0\n2,0,1\n", ", line 6: expected 2 values, found 3."),
        (HEAD + "\n1,2\n", ", line 6: expected one of 0, 1 for sad, found '2'."),
        (HEAD + "fast,1\n", ", line 5: expected a finite number for tempo, found 'fast'."),
        (HEAD + "?,1\n", ", line 5: expected a finite number for tempo, found '?'."),
        (HEAD + "nan,1\n", ", line 5: expected a finite number for tempo, found 'nan'."),
        (HEAD + "{0 1}\n", ", line 5: expected a dense row, found a sparse one, '{0 1}'."),
        (
            "@attribute title string\n",
            ", line 1: expected numeric, real, integer or {...} as type of title, found string.",
        ),
        ("@attribute tempo\n", ", line 1: expected @attribute NAME TYPE, found '@attribute tempo'."),
        ("\n1,2\n", ", line 2: expected @relation, @attribute or @data, found '1,2'."),
        ("", ": expected attributes, a line @data and rows, found 0 attributes and 0 rows."),
        (HEAD, ": expected attributes, a line @data and rows, found 2 attributes and 0 rows."),
    ],
)
def test_faults_have_a_line(tmp_path, text, fault):
    path = write(tmp_path, "songs.arff", text.encode())
    with pytest.raises(InputError, match=re.escape(f"{path}{fault}")):
        read_arff(path)


def test_what_is_no_text_is_refused(tmp_path):
    path = write(tmp_path, "songs.arff", b"@relation \xff\xfe")
    with pytest.raises(InputError, match=re.escape(f"{path}: expected text in UTF-8, found other bytes at 10.")):
        read_arff(path)
