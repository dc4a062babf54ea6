"""The pages are run: their snippets in order, and their tables are the measured ones."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_snippets_run_in_order(page: Path) -> None:
    scope: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(compile(block, page.name, "exec"), scope)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_links_to_exists(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_files_that_the_methods_page_names_exist() -> None:
    text = (ROOT / "docs/methods.md").read_text(encoding="utf-8")
    for name in re.findall(r"`((?:tests|ferero_lab)/[\w/]+\.py)`", text):
        assert (ROOT / name).exists() or (ROOT / "src" / name).exists(), name


def test_the_tables_of_methods_are_the_measured_ones() -> None:
    spec = importlib.util.spec_from_file_location("methods_table", ROOT / "benchmarks/methods_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "docs/methods.md").read_text(encoding="utf-8")
    assert module.filled(text, module.read()) == text
