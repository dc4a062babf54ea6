"""What is uploaded holds what it should, and works where nothing else is installed."""

from __future__ import annotations

import re
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from tests.release.distribution import ROOT, Built, CleanEnvironment, build, build_both

import ferero

pytestmark = pytest.mark.slow

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
INFO = f"ferero-{ferero.__version__}.dist-info"
FOLDERS = {"src", "tests", "docs", "examples", "benchmarks"}
EVERY_MODULE = """
import importlib, pkgutil
import ferero
names, refused = ["ferero"], []
for found in pkgutil.iter_modules(ferero.__path__, "ferero."):
    names.append(found.name)
for name in names:
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        refused.append(f"{name}: {error}")
        continue
    if name != "ferero":
        names += [found.name for found in pkgutil.iter_modules(getattr(module, "__path__", []), name + ".")]
print(ferero.__file__, *names, sep="\\n")
print("refused:", *refused, sep="\\n")
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build_both(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def clean(built: Built, tmp_path_factory: pytest.TempPathFactory) -> CleanEnvironment:
    dependencies = [Requirement(line).name for line in PROJECT["dependencies"]]
    return CleanEnvironment.make(tmp_path_factory.mktemp("venv"), built.wheel, dependencies)


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as file:
        return {name: file.read(name) for name in file.namelist()}


# what is inside --------------------------------------------------------------------------------------------


def test_the_wheel_holds_the_two_packages_and_nothing_else(built: Built) -> None:
    inside = contents(built.wheel)
    source = {
        path.relative_to(ROOT / "src").as_posix(): path.read_bytes()
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name: data for name, data in inside.items() if not name.startswith(INFO)} == source
    assert {name.partition("/")[0] for name in source} == {"ferero", "ferero_lab"}
    assert {Path(name).suffix for name in source} == {".py", ".typed", ".gz"}
    assert {"ferero/py.typed", "ferero_lab/py.typed"} <= set(source)
    assert inside[f"{INFO}/licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()
    assert built.wheel.name == f"ferero-{ferero.__version__}-py3-none-any.whl"
    assert built.wheel.stat().st_size < 3e6


def test_the_sdist_holds_the_repository_and_nothing_from_beside_it(built: Built) -> None:
    with tarfile.open(built.sdist) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert {name.partition("/")[0] for name in names if "/" in name} == FOLDERS
    assert {"LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "pyproject.toml", "constraints.txt"} <= names
    assert built.sdist.stat().st_size < 20e6
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:  # an unpacked sdist has no history
        assert names - {"PKG-INFO"} <= set(listed.stdout.split("\n"))


def test_the_sdist_builds_the_wheel_that_the_repository_builds(built: Built, tmp_path: Path) -> None:
    (direct,) = build(tmp_path, "--wheel")
    assert contents(direct) == contents(built.wheel)


def test_the_metadata_are_valid_and_say_what_the_project_says(built: Built) -> None:
    metadata = Metadata.from_email(contents(built.wheel)[f"{INFO}/METADATA"], validate=True)
    assert metadata.name == PROJECT["name"]
    assert str(metadata.version) == ferero.__version__
    assert metadata.license_expression == "MIT"
    assert metadata.description_content_type == "text/markdown"
    assert metadata.description == (ROOT / "README.md").read_text(encoding="utf-8")
    required = {str(line) for line in metadata.requires_dist or [] if line.marker is None}
    assert required == {str(Requirement(line)) for line in PROJECT["dependencies"]}
    assert set(metadata.provides_extra or []) == set(PROJECT["optional-dependencies"])
    with tarfile.open(built.sdist) as file:
        inside = file.extractfile(f"ferero-{ferero.__version__}/PKG-INFO")
        assert inside is not None
        assert Metadata.from_email(inside.read(), validate=True).version == metadata.version


# where nothing else is installed ---------------------------------------------------------------------------


def test_a_minimal_install_has_what_it_asks_for_and_no_extra(clean: CleanEnvironment) -> None:
    clean.pip("check")
    extras = "typer rich plotly matplotlib pooch sklearn moocore transformers soundfile jiwer lightning torchjd dask"
    absent = f"import importlib.util as u; print([n for n in {extras.split()} if u.find_spec(n)])"
    assert clean.run("-c", absent).stdout.strip() == "[]"


def test_a_minimal_install_imports_every_module_but_those_named_after_an_extra(clean: CleanEnvironment) -> None:
    imported, _, refused = clean.run("-c", EVERY_MODULE).stdout.partition("refused:\n")
    place, *names = imported.split()
    assert Path(place).is_relative_to(clean.python.parents[1])
    files = [path.relative_to(ROOT / "src").with_suffix("") for path in (ROOT / "src/ferero").rglob("*.py")]
    assert set(names) == {".".join(file.parts).removesuffix(".__init__") for file in files}
    for line in refused.splitlines():
        extra = line.removeprefix("ferero.integrations.").partition(":")[0]
        assert extra in PROJECT["optional-dependencies"], line
        assert f"ferero[{extra}]" in line


def test_a_minimal_install_runs_the_first_snippet_of_the_readme(clean: CleanEnvironment) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    snippet = re.search(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    assert snippet is not None
    assert clean.run("-c", snippet[1]).stdout.startswith("met")


@pytest.mark.parametrize("start", [("-m", "ferero"), ("ferero",)], ids=["module", "script"])
def test_a_minimal_install_knows_its_version(clean: CleanEnvironment, start: tuple[str, ...]) -> None:
    arguments = start if len(start) > 1 else (str(clean.python.parent / start[0]),)
    assert clean.run(*arguments, "--version").stdout == f"ferero {ferero.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("-m", "ferero", "demo"), "lab"),
        (("-c", "import ferero; ferero.hypervolume([[1.0, 1.0, 1.0]], [2.0, 2.0, 2.0])"), "metrics"),
        (("-c", "import ferero.plot as p; p.theme().__enter__()"), "plot"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_minimal_install_names_the_extra_that_is_missing(
    clean: CleanEnvironment, arguments: tuple[str, ...], extra: str
) -> None:
    assert f'pip install "ferero[{extra}]"' in clean.run(*arguments, code=1).stderr
