"""A user's own function, loaded from a file by its path."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from torch import Tensor

from ferero.errors import FereroError, InputError

__all__ = ["UserCodeError", "is_numpy", "load_function"]


class UserCodeError(FereroError, RuntimeError):
    """The user's own code failed."""


def load_function(target: str) -> Callable[[Any], Any]:
    """The function of ``FILE:FUNCTION``; what it raises becomes a sentence that names the line.

    Raises:
        InputError: for a target, a file or a function that is not there.
        UserCodeError: when the file cannot be run.
    """
    place, _, name = target.rpartition(":")
    if not place or not name.isidentifier():
        raise InputError(f"FILE:FUNCTION: expected for example problem.py:losses, found {target!r}.")
    path = Path(place)
    if not path.is_file():
        raise InputError(f"FILE:FUNCTION: there is no file {place}.")
    module = _run_file(path)
    function = vars(module).get(name)
    if function is None:
        found = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise InputError(f"FILE:FUNCTION: {place} has no {name!r}; it has {', '.join(found) or 'no functions'}.")
    if not callable(function):
        raise InputError(f"FILE:FUNCTION: {name!r} in {place} is no function but a {type(function).__name__}.")
    return _guarded(function, path)


def is_numpy(function: Callable[[Any], Any]) -> bool:
    """Whether the function asks for numpy arrays by an attribute, ``function.numpy = True``."""
    return bool(getattr(function, "numpy", False))


def _run_file(path: Path) -> Any:
    if path.suffix != ".py":
        raise InputError(f"FILE:FUNCTION: expected a .py file, found {path}.")
    spec = importlib.util.spec_from_file_location(f"_ferero_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"FILE:FUNCTION: {path} cannot be read as Python.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickles in the file look themselves up there
    folder = str(path.parent.resolve())
    sys.path.insert(0, folder)  # as `python FILE` would, so that the file may import its neighbours
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _sentence(error, path) from error
    finally:
        sys.path.remove(folder)
    return module


def _guarded(function: Callable[[Any], Any], path: Path) -> Callable[[Any], Any]:
    @wraps(function)
    def call(theta: Any) -> Any:
        try:
            return function(theta)
        except Exception as error:
            raise _sentence(error, path, _numpy_hint(theta, path)) from error

    return call


def _numpy_hint(theta: Any, path: Path) -> str:
    """Advice for a tensor that went into a file that speaks of numpy."""
    is_suspect = isinstance(theta, Tensor) and "numpy" in path.read_text(encoding="utf-8", errors="replace")
    return " If the function is written with numpy, add --numpy." if is_suspect else ""


def _sentence(error: Exception, path: Path, hint: str = "") -> UserCodeError:
    """The error with the last line of the user's file that it went through."""
    if isinstance(error, SyntaxError):
        line = error.lineno
    else:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((f.lineno for f in reversed(frames) if Path(f.filename).name == path.name), None)
    where = path.name if line is None else f"{path.name}, line {line}"
    return UserCodeError(f"{where}: {type(error).__name__}: {str(error).rstrip('.')}.{hint}")
