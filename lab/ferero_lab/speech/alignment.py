"""Which frames say which symbol: the likeliest CTC path that spells a given target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from torch import Tensor

from ferero.errors import InputError

__all__ = ["Alignment", "align"]


@dataclass(frozen=True)
class Alignment:
    """Where the symbols of a target lie.

    Attributes:
        frames: the first and the last frame of each symbol, both included.
        total: log-probability of the whole path, blanks included.
    """

    frames: tuple[tuple[int, int], ...]
    total: float


def align(log_probs: Tensor, target: Sequence[int]) -> Alignment:
    """Viterbi's path through blank, symbol, blank, ..., symbol, blank.

    Args:
        log_probs: (frames, 1 + symbols); 0 is the blank.
        target: symbols from 1 upwards.

    Raises:
        InputError: for a symbol outside the table, a target that needs more frames than there are, or one that no
            path of positive probability spells.
    """
    scores = log_probs.detach().double().cpu().numpy()
    symbols = [int(symbol) for symbol in target]
    _check(scores, symbols)
    states = np.zeros(2 * len(symbols) + 1, dtype=int)
    states[1::2] = symbols
    path, total = _best_path(scores[:, states], _may_skip(states))
    if total == -np.inf:
        raise InputError("target: expected one that has a positive probability; found probability 0.")
    where = [np.flatnonzero(path == 2 * i + 1) for i in range(len(symbols))]
    return Alignment(
        frames=tuple((int(at[0]), int(at[-1])) for at in where),
        total=total,
    )


def _check(scores: np.ndarray, symbols: list[int]) -> None:
    count = scores.shape[1] - 1
    wrong = [symbol for symbol in symbols if not 1 <= symbol <= count]
    if wrong:
        raise InputError(f"target: expected symbols between 1 and {count}; found {wrong[0]}.")
    needed = len(symbols) + sum(a == b for a, b in pairwise(symbols))
    if len(scores) < max(needed, 1):
        raise InputError(f"target: expected one that fits into {len(scores)} frames; this one needs {max(needed, 1)}.")


def _may_skip(states: np.ndarray) -> np.ndarray:
    """True for a symbol that differs from the one before, which may follow it without a blank."""
    may = np.zeros(len(states), dtype=bool)
    may[3::2] = states[3::2] != states[1:-2:2]
    return may


def _best_path(emitted: np.ndarray, may_skip: np.ndarray) -> tuple[np.ndarray, float]:
    """The state of each frame and the log-probability, for what each state emits in each frame."""
    frames, states = emitted.shape
    came_from = np.zeros((frames, states), dtype=int)
    best = np.full(states, -np.inf)
    best[:2] = emitted[0, :2]
    for t in range(1, frames):
        moves = np.full((3, states), -np.inf)
        moves[0] = best
        moves[1, 1:] = best[:-1]
        moves[2, 2:] = np.where(may_skip[2:], best[:-2], -np.inf)
        came_from[t] = moves.argmax(axis=0)
        best = moves.max(axis=0) + emitted[t]
    path = np.empty(frames, dtype=int)
    path[-1] = states - 1 if states == 1 or best[-1] >= best[-2] else states - 2
    for t in range(frames - 1, 0, -1):
        path[t - 1] = path[t] - came_from[t, path[t]]
    return path, float(best[path[-1]])
