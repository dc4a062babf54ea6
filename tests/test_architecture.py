"""Imports point one way, optional dependencies stay optional, and every public name has a docstring."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ferero

SOURCE = Path(ferero.__file__).parents[1]
LAYERS = [
    "errors",
    "geometry",
    "preference",
    "subprogram",
    "methods",
    "optimize",
    "training",
    "fronts",
    "plot",
    "integrations",
    "ferero_lab",
]
LAZY = {("fronts", "plot"), ("__main__", "ferero_lab")}  # imported inside a function, by design


def layer_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
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


@pytest.mark.parametrize("path", sorted(SOURCE.glob("ferero*/**/*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    layer = layer_of(path)
    if layer in {"__init__", "__main__"}:
        assert not {"ferero_lab"} & imported_layers(path) or layer == "__main__"
        return
    for other in imported_layers(path) - {layer}:
        assert LAYERS.index(other) < LAYERS.index(layer) or (layer, other) in LAZY, f"{layer} imports {other}"


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


def test_no_module_is_a_junk_drawer() -> None:
    names = {path.stem for path in SOURCE.glob("ferero*/**/*.py")}
    assert not names & {"utils", "misc", "helpers", "common"}


def test_the_page_names_the_layers_in_their_order() -> None:
    page = (Path(__file__).parents[1] / "docs/design.md").read_text(encoding="utf-8")
    line = next(line for line in page.splitlines() if line.count(" -> ") > 3)
    assert line.strip().split(" -> ") == LAYERS[::-1]
    assert all(f"\n| {layer} | " in page for layer in LAYERS if layer != "errors")
