"""The scripts of docs/sweep.md run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/sweep.md"
FIRST, *SCRIPTS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize(("script", "needs"), list(zip(SCRIPTS, (None, "distributed", "submitit"), strict=True)))
def test_script(script, needs, tmp_path):
    if needs:
        pytest.importorskip(needs)
    (tmp_path / "training.py").write_text(FIRST.split("\n\n\nfront =", maxsplit=1)[0])
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "trained" in done.stdout
    assert len(list((tmp_path / "runs/rays").glob("point-*.pt"))) == 2
