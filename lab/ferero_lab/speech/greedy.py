"""The likeliest symbol of every frame, read as CTC reads a path."""

from __future__ import annotations

from torch import Tensor

__all__ = ["greedy"]


def greedy(log_probs: Tensor, lengths: Tensor) -> list[list[int]]:
    """Take the best symbol of each frame, merge repeats, drop blanks.

    Args:
        log_probs: (n, frames, 1 + symbols); 0 is the blank.
        lengths: (n,), in frames.

    Returns:
        The symbols of each utterance.
    """
    paths = log_probs.argmax(dim=-1).tolist()
    return [_collapsed(path[:length]) for path, length in zip(paths, lengths.tolist(), strict=True)]


def _collapsed(path: list[int]) -> list[int]:
    return [now for before, now in zip([0, *path], path, strict=False) if now not in (before, 0)]
