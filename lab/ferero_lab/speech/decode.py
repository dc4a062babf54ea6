"""Decoding CTC: the greedy path, prefix beam search, and the alignment of a known target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ferero.errors import InputError

__all__ = ["align", "beam", "greedy"]


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


def beam(log_probs: Tensor, lengths: Tensor, *, width: int = 8, candidates: int = 20) -> list[list[int]]:
    """The best transcript that a prefix beam search finds, or the greedy one where that is likelier still.

    Args:
        log_probs: (n, frames, 1 + symbols); 0 is the blank.
        lengths: (n,), in frames.
        width: how many prefixes are kept after each frame.
        candidates: how many symbols, the likeliest of the frame, may extend a prefix.

    Returns:
        The symbols of each utterance. None is less likely, over all its paths, than the greedy transcript; with a
        width and candidates that keep everything, none is less likely than any other.

    Raises:
        InputError: for a width or a number of candidates below 1.
    """
    for name, value in (("width", width), ("candidates", candidates)):
        if value < 1:
            raise InputError(f"{name}: expected at least 1; found {value}.")
    if not len(log_probs):
        return []
    scores = log_probs.detach().double().cpu()
    rows = zip(scores.numpy(), lengths.tolist(), strict=True)
    found = [_search(row[:length], width, candidates) for row, length in rows]
    plain = greedy(scores, lengths)
    better = _totals(scores, lengths, plain) > _totals(scores, lengths, found)
    return [plain[i] if better[i] else found[i] for i in range(len(found))]


@dataclass
class _Prefixes:
    """A tree of prefixes: node 0 is the empty one, and each other one adds a symbol to its parent."""

    parents: list[int] = field(default_factory=lambda: [-1])
    symbols: list[int] = field(default_factory=lambda: [0])
    children: dict[tuple[int, int], int] = field(default_factory=dict)

    def child(self, parent: int, symbol: int) -> int:
        """The node of a prefix, made when first asked for."""
        node = self.children.setdefault((parent, symbol), len(self.parents))
        if node == len(self.parents):
            self.parents.append(parent)
            self.symbols.append(symbol)
        return node

    def spelt(self, node: int) -> list[int]:
        """All symbols of a prefix."""
        spelt = []
        while node:
            spelt.append(self.symbols[node])
            node = self.parents[node]
        return spelt[::-1]


def _search(scores: np.ndarray, width: int, candidates: int) -> list[int]:
    """Search one utterance, (frames, 1 + symbols).

    Kept for each prefix: the log-probability of its paths that end in a blank, and of those that end in its last
    symbol. A frame keeps a prefix (blank, or the last symbol again) or extends it by one symbol; the last symbol
    itself extends it only after a blank.
    """
    tree = _Prefixes()
    nodes, parents, last = np.array([0]), np.array([-1]), np.array([0])
    blank, symbol = np.array([0.0]), np.array([-np.inf])
    for frame, options in zip(scores, _likeliest(scores, candidates), strict=True):
        total = np.logaddexp(blank, symbol)
        kept_symbol = np.where(last > 0, symbol + frame[last], -np.inf)
        longer = np.where(options == last[:, None], blank[:, None], total[:, None]) + frame[options]

        child, parent = np.nonzero(parents[:, None] == nodes)
        arriving = np.where(last[child] == last[parent], blank[parent], total[parent]) + frame[last[child]]
        kept_symbol[child] = np.logaddexp(kept_symbol[child], arriving)
        pair, column = np.nonzero(options == last[child][:, None])
        longer[parent[pair], column] = -np.inf
        kept_blank = total + frame[0]

        every = np.concatenate([np.logaddexp(kept_blank, kept_symbol), longer.ravel()])
        best = np.argsort(-every, kind="stable")[:width]
        best = best[every[best] > -np.inf]
        if not len(best):
            break
        stay, extend = best[best < len(nodes)], best[best >= len(nodes)] - len(nodes)
        source, choice = np.divmod(extend, len(options))
        added = options[choice]
        made = [tree.child(a, b) for a, b in zip(nodes[source].tolist(), added.tolist(), strict=True)]
        parents = np.concatenate([parents[stay], nodes[source]])
        last = np.concatenate([last[stay], added])
        blank = np.concatenate([kept_blank[stay], np.full(len(extend), -np.inf)])
        symbol = np.concatenate([kept_symbol[stay], longer.ravel()[extend]])
        nodes = np.concatenate([nodes[stay], np.array(made, dtype=nodes.dtype)])
    return tree.spelt(int(nodes[np.logaddexp(blank, symbol).argmax()]))


def _likeliest(scores: np.ndarray, candidates: int) -> np.ndarray:
    """The symbols, without the blank, that score best in each frame: (frames, at most candidates)."""
    symbols = scores[:, 1:]
    if candidates >= symbols.shape[1]:
        return np.broadcast_to(np.arange(1, 1 + symbols.shape[1]), symbols.shape)
    return 1 + np.argpartition(-symbols, candidates - 1, axis=1)[:, :candidates]


def _totals(scores: Tensor, lengths: Tensor, transcripts: list[list[int]]) -> Tensor:
    """The log-probability of each transcript over all its paths, (n,)."""
    longest = max((len(each) for each in transcripts), default=0) or 1
    targets = torch.tensor([[*each, *[0] * (longest - len(each))] for each in transcripts])
    counts = torch.tensor([len(each) for each in transcripts])
    return -functional.ctc_loss(scores.transpose(0, 1), targets, lengths.cpu(), counts, reduction="none")


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
    _check_target(scores, symbols)
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


def _check_target(scores: np.ndarray, symbols: list[int]) -> None:
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
