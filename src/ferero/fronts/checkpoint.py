"""A file that is either the old one or the new one, and says what it belongs to."""

from __future__ import annotations

import os
import pickle
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from ferero.errors import InputError

__all__ = ["load_checkpoint", "save_checkpoint"]


def save_checkpoint(path: Path, belongs: Mapping[str, str], state: Mapping[str, Any]) -> None:
    """Put a file in place at once: written beside it, then moved.

    Args:
        path: where; its folder is made if there is none.
        belongs: what the state is the state of, in words by topic.
        state: tensors, numbers, strings, and lists and mappings of them.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            torch.save({"belongs": dict(belongs), "state": dict(state)}, file)
        Path(name).replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        raise


def load_checkpoint(path: Path, belongs: Mapping[str, str]) -> dict[str, Any] | None:
    """The state in a file; None where there is no file.

    Raises:
        InputError: for a file that cannot be read, or that belongs to something else.
    """
    if not path.exists():
        return None
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
        found, state = dict(saved["belongs"]), dict(saved["state"])
    except (OSError, EOFError, RuntimeError, KeyError, TypeError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise InputError(
            f"checkpoint: expected a file of an earlier run, found that {path} cannot be read "
            f"({type(error).__name__}); remove it to start anew, or name another."
        ) from error
    for topic, wanted in belongs.items():
        if found.get(topic) != wanted:
            raise InputError(
                f"checkpoint: {path} belongs to a run with another {topic}: expected {wanted}, found "
                f"{found.get(topic)}; pass the same, remove the file to start anew, or name another."
            )
    return state
