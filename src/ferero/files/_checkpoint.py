"""The state of a run in a file that says what it belongs to."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ferero.errors import InputError
from ferero.files._write_whole import write_whole

__all__ = ["load_checkpoint", "save_checkpoint"]


def save_checkpoint(path: Path, belongs: Mapping[str, str], state: Mapping[str, Any]) -> None:
    """Put a file in place at once.

    Args:
        path: where; its folder is made if there is none.
        belongs: what the state is the state of, in words by topic.
        state: tensors, numbers (of numpy too), strings, and lists and mappings of them.

    Raises:
        OSError: where that fails, on a full disk for instance, with the path in it; an earlier file is as it was.
    """
    content = io.BytesIO()  # torch's own writing to a file hides that the disk is full
    torch.save({"belongs": dict(belongs), "state": pytree.tree_map(_plain, dict(state))}, content)
    write_whole(path, content.getbuffer())


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


def _plain(leaf: Any) -> Any:
    """A number of numpy's as one of Python's, which can be read without running code."""
    return leaf.item() if isinstance(leaf, np.generic) else leaf
