"""Builds what is uploaded, and an environment that holds it and nothing but what it needs."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Built:
    """The two files of a distribution."""

    sdist: Path
    wheel: Path


def build(folder: Path, *what: str, source: Path = ROOT) -> list[Path]:
    """Builds with the installed backend: nothing is downloaded."""
    command = [sys.executable, "-m", "build", "--no-isolation", *what, "--outdir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(folder.iterdir())


def build_both(folder: Path, source: Path = ROOT) -> Built:
    """The sdist, and the wheel that is built from it."""
    wheel, sdist = sorted(build(folder, source=source), key=lambda path: path.suffix, reverse=True)
    return Built(sdist, wheel)


def needed(names: list[str]) -> set[str]:
    """The distributions with all that they need, without any extra."""
    found: set[str] = set()
    waiting = [canonicalize_name(name) for name in names]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for line in distribution(name).requires or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(canonicalize_name(requirement.name))
    return found


@dataclass(frozen=True)
class CleanEnvironment:
    """An environment with the wheels and links to their dependencies; the extras are not there to be imported."""

    python: Path

    @classmethod
    def make(cls, folder: Path, wheels: list[Path], dependencies: list[str]) -> CleanEnvironment:
        """Makes it in the folder."""
        venv.create(folder, with_pip=False, symlinks=os.name != "nt")
        made = cls(folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
        site = Path(made.run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
        for name in needed(dependencies) - {"ferero"}:
            there = distribution(name)
            for top in {file.parts[0] for file in there.files or []} - {"..", "__pycache__"}:
                (site / top).symlink_to(Path(str(there.locate_file(top))))
        made.pip("install", "--no-deps", "--no-index", *map(str, wheels))
        return made

    def pip(self, *arguments: str) -> None:
        """This environment's packages, by the pip of the tests."""
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(self.python)]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def run(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Runs its Python away from the repository, and checks the exit code."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        clean["OMP_NUM_THREADS"] = "1"
        command = [str(self.python), "-W", "error", *arguments]
        done = subprocess.run(command, cwd=self.python.parent, env=clean, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done
