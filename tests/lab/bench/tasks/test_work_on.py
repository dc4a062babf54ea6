"""The workers of `ferero bench tasks` end with it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.lab.test_worker_pool import wait_for_processes

ROOT = Path(__file__).parents[4]


@pytest.mark.skipif(os.name == "nt", reason="there is no such signal")
@pytest.mark.slow
def test_no_worker_outlives_a_killed_driver(tmp_path):
    """The workers share the driver's stdout, which is at its end when the last of them is gone."""
    code = (
        "from functools import partial\n"
        "from ferero_lab.bench.tasks.lines import work_on\n"
        "from tests.lab.pool_calls import hang\n"
        f"list(work_on([partial(hang, {str(tmp_path)!r})] * 3, 2))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT, env=environment) as driver:
        wait_for_processes(tmp_path, 2, driver)
        driver.kill()
        driver.communicate(timeout=10)
    assert not list(tmp_path.iterdir())
