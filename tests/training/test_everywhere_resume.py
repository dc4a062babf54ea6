"""Ten steps are five, a checkpoint, a new process, and five more, bit for bit."""

import pytest

from ferero_lab.bench.steer.processes import resume_differences


@pytest.mark.slow
def test_resume_is_exact():
    assert set(resume_differences().values()) == {0.0}
