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
LAB = tomllib.loads((ROOT / "lab/pyproject.toml").read_text(encoding="utf-8"))["project"]
INFO = f"ferero-{ferero.__version__}.dist-info"
FOLDERS = {"src", "lab", "tests", "docs", "examples", "benchmarks"}
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
    return CleanEnvironment.make(tmp_path_factory.mktemp("venv"), [built.wheel], dependencies)


@pytest.fixture(scope="module")
def built_lab(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build_both(tmp_path_factory.mktemp("dist-lab"), ROOT / "lab")


@pytest.fixture(scope="module")
def lab(built: Built, built_lab: Built, tmp_path_factory: pytest.TempPathFactory) -> CleanEnvironment:
    """Both, with what the lab asks for."""
    dependencies = [Requirement(line).name for line in PROJECT["dependencies"] + LAB["dependencies"]]
    return CleanEnvironment.make(tmp_path_factory.mktemp("venv-lab"), [built.wheel, built_lab.wheel], dependencies)


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as file:
        return {name: file.read(name) for name in file.namelist()}


# what is inside --------------------------------------------------------------------------------------------


def files_below(folder: Path, package: str) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in (folder / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_each_wheel_holds_its_package_and_nothing_else(built: Built, built_lab: Built) -> None:
    for wheel, name, folder in (
        (built.wheel, "ferero", ROOT / "src"),
        (built_lab.wheel, "ferero_lab", ROOT / "lab"),
    ):
        inside, source = contents(wheel), files_below(folder, name)
        info = f"{name}-{ferero.__version__}.dist-info"
        assert {path: data for path, data in inside.items() if not path.startswith(info)} == source
        assert f"{name}/py.typed" in source
        assert inside[f"{info}/licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()
        assert wheel.name == f"{name}-{ferero.__version__}-py3-none-any.whl"
        assert wheel.stat().st_size < 3e6
    assert {Path(name).suffix for name in files_below(ROOT / "src", "ferero")} == {".py", ".typed"}


def test_no_extra_of_one_points_at_the_other() -> None:
    for project, other in ((PROJECT, "ferero-lab"), (LAB, "ferero")):
        lines = [line for extra in project["optional-dependencies"].values() for line in extra]
        assert other not in {Requirement(line).name for line in lines}


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
    wanted = {".".join(file.parts).removesuffix(".__init__") for file in files}
    assert set(names) == {name for name in wanted if not name.startswith("ferero.cli.")}
    for line in refused.splitlines():
        extra = line.removeprefix("ferero.integrations.").partition(":")[0]
        if line.startswith("ferero.cli:"):  # typer's own words: the entry point tells of the extra
            continue
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
        (("-m", "ferero", "solve", "problem.py:losses"), "cli"),
        (("-c", "import ferero; ferero.hypervolume([[1.0, 1.0, 1.0]], [2.0, 2.0, 2.0])"), "metrics"),
        (("-c", "import ferero.plot as p; p.theme().__enter__()"), "plot"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_minimal_install_names_the_extra_that_is_missing(
    clean: CleanEnvironment, arguments: tuple[str, ...], extra: str
) -> None:
    assert f'pip install "ferero[{extra}]"' in clean.run(*arguments, code=1).stderr


# the command line, without the lab and with it --------------------------------------------------------------

PROBLEM = """
import torch

def losses(x):
    return torch.stack([(x - 1).square().sum(), (x + 1).square().sum()])
"""


@pytest.fixture(scope="module")
def with_cli(built: Built, tmp_path_factory: pytest.TempPathFactory) -> CleanEnvironment:
    lines = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["cli"]
    dependencies = [Requirement(line).name for line in lines]
    return CleanEnvironment.make(tmp_path_factory.mktemp("venv-cli"), [built.wheel], dependencies)


def test_solve_needs_the_library_alone(with_cli: CleanEnvironment, tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(PROBLEM, encoding="utf-8")
    arguments = ("-m", "ferero", "solve", f"{tmp_path}/problem.py:losses", "-p", "f1 <= 1", "--n", "2")
    assert "converged" in with_cli.run(*arguments).stdout
    said = with_cli.run(*arguments, "--out", str(tmp_path / "report"), code=1).stderr
    assert "ferero-lab" in said
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize("name", ["demo", "run images --quick", "bench core", "report x", "list"])
def test_the_commands_of_the_lab_say_what_to_install(with_cli: CleanEnvironment, name: str) -> None:
    said = " ".join(with_cli.run("-m", "ferero", *name.split(), code=1).stderr.split())
    assert f"{name.split(maxsplit=1)[0]}: this command comes with ferero-lab" in said
    assert "pip install ferero-lab" in said


def test_both_wheels_together_have_every_command(lab: CleanEnvironment, tmp_path: Path) -> None:
    lab.pip("check")
    assert "exponential" in lab.run("-m", "ferero", "list").stdout
    (tmp_path / "problem.py").write_text(PROBLEM, encoding="utf-8")
    arguments = ("solve", f"{tmp_path}/problem.py:losses", "-p", "f1 <= 1", "--n", "2", "--out", str(tmp_path / "out"))
    lab.run("-m", "ferero", *arguments)
    assert (tmp_path / "out/report.html").exists()
