"""Library and lab have one version, and the changelog begins with it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path

from packaging.version import Version

import ferero
import ferero_lab

ROOT = Path(__file__).parents[2]
VERSION = Version(ferero.__version__)
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def sections() -> list[tuple[str, str]]:
    """Each section of the changelog: its title and its text."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", text, flags=re.MULTILINE)


def test_the_version_is_normal_and_that_of_both() -> None:
    assert str(VERSION) == ferero.__version__
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert pyproject["project"]["dynamic"] == ["version"]
    assert pyproject["tool"]["hatch"]["version"] == {"path": "src/ferero/__init__.py"}
    lab = tomllib.loads((ROOT / "lab/pyproject.toml").read_text(encoding="utf-8"))
    assert lab["project"]["dynamic"] == ["version"]
    assert lab["tool"]["hatch"]["version"] == {"path": "ferero_lab/__init__.py"}
    others = [ROOT / "pyproject.toml", ROOT / "lab/pyproject.toml", ROOT / "CITATION.cff"]
    others += [*(ROOT / "src").rglob("*.py"), *(ROOT / "lab").rglob("*.py")]
    found = {path.relative_to(ROOT).as_posix() for path in others if ferero.__version__ in path.read_text("utf-8")}
    assert found == {"src/ferero/__init__.py", "lab/ferero_lab/__init__.py"}  # an sdist of one does not hold the other
    assert ferero_lab.__version__ == ferero.__version__
    assert not re.search(r"^version:", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_the_command_line_says_it() -> None:
    said = subprocess.run([sys.executable, "-m", "ferero", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout == f"ferero {ferero.__version__}\n"


def test_the_changelog_begins_with_the_version() -> None:
    title, text = sections()[0]
    if VERSION.is_devrelease:
        assert title == "[Unreleased]"
    else:
        found = re.fullmatch(r"\[(\S+)\] - (\d{4}-\d\d-\d\d)", title)
        assert found is not None, title
        assert found[1] == ferero.__version__
        assert date.fromisoformat(found[2]) <= date.today()
        assert text.strip()


def test_the_changelog_is_newest_first_and_of_known_kinds() -> None:
    titles = [title for title, _ in sections() if title != "[Unreleased]"]
    versions = [Version(re.findall(r"\[(\S+)\]", title)[0]) for title in titles]
    assert versions == sorted(set(versions), reverse=True)
    assert all(version <= VERSION for version in versions)
    assert {kind for _, text in sections() for kind in re.findall(r"^### (.+)$", text, flags=re.MULTILINE)} <= KINDS
