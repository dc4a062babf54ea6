"""Every example in a docstring of the library runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import ferero

MODULES = [name for _, name, _ in pkgutil.walk_packages(ferero.__path__, "ferero.") if not name.endswith("__main__")]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0
