"""Imports point one way, optional dependencies stay optional, and every public name has a docstring."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ferero

ROOT = Path(__file__).parents[1]
LIBRARY, LAB = ROOT / "src", ROOT / "lab"
MODULES = sorted([*LIBRARY.glob("ferero/**/*.py"), *LAB.glob("ferero_lab/**/*.py")])
LAYERS = [
    "errors",
    "_arrays",
    "files",
    "geometry",
    "preference",
    "rates",
    "subprogram",
    "methods",
    "optimize",
    "training",
    "fronts",
    "plot",
    "integrations",
    "cli",
    "ferero_lab",
]
LAZY = {("fronts", "plot"), ("__main__", "cli"), ("cli", "ferero_lab")}  # imported inside a function, by design


def layer_of(path: Path) -> str:
    parts = path.relative_to(LIBRARY if path.is_relative_to(LIBRARY) else LAB).with_suffix("").parts
    return parts[0] if parts[0] == "ferero_lab" else parts[1]


def imported_layers(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "ferero_lab":
                found.add("ferero_lab")
            elif parts[0] == "ferero" and len(parts) > 1:
                found.add(parts[1])
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    layer = layer_of(path)
    if layer in {"__init__", "__main__"}:
        assert not {"ferero_lab"} & imported_layers(path) or layer == "__main__"
        return
    for other in imported_layers(path) - {layer}:
        assert LAYERS.index(other) < LAYERS.index(layer) or (layer, other) in LAZY, f"{layer} imports {other}"


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), []).append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_two_modules_of_a_folder_differ_by_an_s() -> None:
    names = {(path.parent, path.stem.lstrip("_")) for path in MODULES}
    assert {(folder.name, name) for folder, name in names if (folder, f"{name}s") in names} == set()


PUBLIC_MODULES = {"errors.py", "integrations/torchjd.py", "__main__.py"}


@pytest.mark.parametrize(
    "path", sorted(LIBRARY.glob("ferero/**/*.py")), ids=lambda p: str(p.relative_to(LIBRARY / "ferero"))
)
def test_a_module_is_private_unless_it_is_a_package(path: Path) -> None:
    """What users may import is exported by a package; every other module has an underscore on its way."""
    place = path.relative_to(LIBRARY / "ferero")
    is_private = any(part.startswith("_") and not part.startswith("__") for part in place.parts)
    assert is_private or path.name == "__init__.py" or place.as_posix() in PUBLIC_MODULES


IMPORT = r"^\s*(?:>>> )?((?:from ferero|import ferero)\S*(?: import [^\n#]+)?)"


def imported_names(text: str) -> set[str]:
    """Modules of ferero and what is imported from them, as dotted names; of a file or of a page's blocks of code."""
    found = set()
    for line in re.findall(
        r"^\s*(?:>>> )?((?:from ferero|import ferero)\S*(?: import [^\n#]+)?)", text, flags=re.MULTILINE
    ):
        words = line.split()
        found.add(words[1])
        if len(words) > 3:
            found |= {f"{words[1]}.{name.strip(' (),')}" for name in " ".join(words[3:]).split(",")}
    return found


USERS = [
    *LAB.glob("ferero_lab/**/*.py"),
    *(path for folder in ("examples", "benchmarks") for path in ROOT.glob(f"{folder}/**/*.py")),
    *ROOT.glob("docs/**/*.md"),
    ROOT / "README.md",
]


@pytest.mark.parametrize("path", sorted(USERS), ids=lambda p: str(p.relative_to(ROOT)))
def test_lab_examples_docs_and_benchmarks_import_public_names_only(path: Path) -> None:
    if ".venv" in path.parts:
        return
    for name in imported_names(path.read_text(encoding="utf-8")):
        parts = name.split(".")
        if parts[0] == "ferero":
            assert not any(part.startswith("_") and not part.startswith("__") for part in parts), name


def test_every_exported_name_exists_and_is_listed() -> None:
    for init in LIBRARY.glob("ferero/**/__init__.py"):
        module = importlib.import_module(".".join(init.parent.relative_to(LIBRARY).parts))
        names = getattr(module, "__all__", [])
        assert all(hasattr(module, name) for name in names)
        assert not any(name.startswith("_") for name in names)


def test_importing_ferero_loads_nothing_optional() -> None:
    code = (
        "import sys, ferero\n"
        "optional = {'piqp', 'clarabel', 'moocore', 'matplotlib', 'typer', 'rich', 'torchjd', 'ferero_lab'}\n"
        "print(sorted(optional & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ferero.__all__)
def test_every_public_name_says_what_it_is(name: str) -> None:
    assert (getattr(ferero, name).__doc__ or "").strip()


def test_no_two_classes_or_modules_of_the_library_share_a_name() -> None:
    library = [path for path in MODULES if path.is_relative_to(LIBRARY)]
    classes = [
        node.name
        for path in library
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert len(classes) == len(set(classes)), sorted({name for name in classes if classes.count(name) > 1})
    for folder in {path.parent for path in library}:
        names = {path.stem for path in folder.glob("*.py")}
        assert not {name for name in names if f"{name}s" in names}


def test_no_module_is_a_junk_drawer() -> None:
    names = {path.stem for path in MODULES}
    assert not names & {"utils", "misc", "helpers", "common"}


def test_the_page_names_the_layers_in_their_order() -> None:
    page = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    line = next(line for line in page.splitlines() if line.count(" -> ") > 3)
    assert line.strip().split(" -> ") == LAYERS[::-1]
    assert all(f"\n| {layer} | " in page for layer in LAYERS if layer not in {"errors", "_arrays"})
