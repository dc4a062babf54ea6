"""Forced alignment against the best of all paths."""

from __future__ import annotations

import itertools
import re

import pytest
import torch

from ferero.errors import InputError
from ferero_lab.speech.alignment import align


def spelt(path: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(symbol for symbol, _ in itertools.groupby(path) if symbol)


def stretches(path: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    ends = []
    for symbol, group in itertools.groupby(enumerate(path), key=lambda pair: pair[1]):
        frames = [frame for frame, _ in group]
        if symbol:
            ends.append((frames[0], frames[-1]))
    return tuple(ends)


@pytest.mark.parametrize("target", [(), (1,), (2, 1), (1, 1), (1, 2, 1), (2, 2, 1), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_equals_the_best_of_all_paths(target: tuple[int, ...], seed: int) -> None:
    log_probs = torch.randn(6, 3, generator=torch.Generator().manual_seed(seed)).double().log_softmax(dim=-1)
    rows = log_probs.tolist()
    paths = [path for path in itertools.product(range(3), repeat=6) if spelt(path) == target]
    score, best = max((sum(row[symbol] for row, symbol in zip(rows, path, strict=True)), path) for path in paths)
    found = align(log_probs, target)
    assert found.total == pytest.approx(score)
    assert found.frames == stretches(best)


def test_a_target_that_just_fits() -> None:
    log_probs = torch.zeros(3, 4).log_softmax(dim=-1)
    assert align(log_probs, [2, 2]).frames == ((0, 0), (2, 2))
    assert align(log_probs, [3, 1, 2]).frames == ((0, 0), (1, 1), (2, 2))


def test_gradients_and_inputs_are_left_alone() -> None:
    log_probs = torch.zeros(3, 4, requires_grad=True).log_softmax(dim=-1)
    before = log_probs.detach().clone()
    align(log_probs, torch.tensor([1, 2]))
    assert torch.equal(log_probs.detach(), before)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ([1, 4], "target: expected symbols between 1 and 3; found 4."),
        ([0], "target: expected symbols between 1 and 3; found 0."),
        ([1, 1, 2], "target: expected one that fits into 3 frames; this one needs 4."),
    ],
)
def test_refusals(target: list[int], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        align(torch.zeros(3, 4).log_softmax(dim=-1), target)


def test_a_target_without_probability_is_refused() -> None:
    log_probs = torch.tensor([[1.0, 0.0], [1.0, 0.0]]).log()
    with pytest.raises(InputError, match="positive probability; found probability 0"):
        align(log_probs, [1])
