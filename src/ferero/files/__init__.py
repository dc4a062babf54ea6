"""Atomic writes, and checkpoints that record which run they belong to."""

from __future__ import annotations

from ferero.files._checkpoint import load_checkpoint, save_checkpoint
from ferero.files._write_whole import write_whole

__all__ = ["load_checkpoint", "save_checkpoint", "write_whole"]
