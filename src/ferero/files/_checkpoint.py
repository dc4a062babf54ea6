"""Checkpoints: the state of a run in a file that also describes the run, so that no other run resumes from it."""

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
    """Writes a checkpoint atomically.

    Args:
        path: of the file; its folder is made if there is none.
        belongs: a description of the run, as text by topic.
        state: tensors, numbers (of numpy too), strings, and lists and mappings of them.

    Raises:
        OSError: if writing fails, on a full disk for instance, with the path in it; an earlier file stays as it was.
    """
    content = io.BytesIO()  # torch's own writing to a file hides that the disk is full
    torch.save({"belongs": dict(belongs), "state": pytree.tree_map(_plain, dict(state))}, content)
    write_whole(path, content.getbuffer())


def load_checkpoint(path: Path, belongs: Mapping[str, str]) -> dict[str, Any] | None:
    """The state in a checkpoint; None if there is no file.

    Raises:
        InputError: for a file that cannot be read, or that belongs to another run.
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
    for topic, expected in belongs.items():
        if found.get(topic) != expected:
            raise InputError(
                f"checkpoint: {path} belongs to a run with another {topic}: expected {expected}, found "
                f"{found.get(topic)}; pass the same, remove the file to start anew, or name another."
            )
    return state


def _plain(leaf: Any) -> Any:
    """A number of numpy as one of Python, which ``weights_only=True`` can load."""
    return leaf.item() if isinstance(leaf, np.generic) else leaf
