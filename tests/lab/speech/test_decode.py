"""Greedy, beam and alignment against all transcripts and all paths there are."""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict

import pytest
import torch

from ferero.errors import InputError
from ferero_lab.speech.decode import align, beam, greedy


def spelt(path: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(symbol for symbol, _ in itertools.groupby(path) if symbol)


def totals(log_probs: torch.Tensor) -> dict[tuple[int, ...], float]:
    """The probability of every transcript of one utterance."""
    found: dict[tuple[int, ...], float] = defaultdict(float)
    rows = log_probs.tolist()
    for path in itertools.product(range(log_probs.shape[1]), repeat=len(rows)):
        found[spelt(path)] += math.exp(sum(row[symbol] for row, symbol in zip(rows, path, strict=True)))
    return found


def random_log_probs(*shape: int, seed: int, scale: float = 1.0) -> torch.Tensor:
    return (scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))).log_softmax(dim=-1)


def path_of(*symbols: int, count: int = 4) -> torch.Tensor:
    return torch.nn.functional.one_hot(torch.tensor(symbols), count).float().mul(5).log_softmax(dim=-1)


def test_greedy_merges_repeats_and_drops_blanks() -> None:
    log_probs = torch.stack([path_of(0, 1, 1, 0, 1, 2, 2), path_of(3, 3, 0, 0, 2, 1, 3), path_of(0, 0, 0, 1, 1, 1, 1)])
    assert greedy(log_probs, torch.tensor([7, 5, 3])) == [[1, 1, 2], [3, 2], []]


@pytest.mark.parametrize("seed", range(5))
def test_greedy_spells_the_likeliest_path(seed: int) -> None:
    log_probs = random_log_probs(3, 4, 3, seed=seed)
    lengths = [4, 2, 0]
    for row, length, found in zip(log_probs, lengths, greedy(log_probs, torch.tensor(lengths)), strict=True):
        paths = itertools.product(range(3), repeat=length)
        best = max(paths, key=lambda path: sum(row[t, symbol].item() for t, symbol in enumerate(path)))
        assert tuple(found) == spelt(best)


@pytest.mark.parametrize("seed", range(20))
def test_a_wide_beam_finds_the_likeliest_transcript(seed: int) -> None:
    log_probs = random_log_probs(3, 6, 3, seed=seed, scale=0.7)
    lengths = [6, 5, 3]
    for row, length, found in zip(
        log_probs, lengths, beam(log_probs, torch.tensor(lengths), width=10_000), strict=True
    ):
        every = totals(row[:length])
        assert every[tuple(found)] == pytest.approx(max(every.values()), rel=1e-6)


def test_a_beam_finds_what_greedy_misses() -> None:
    log_probs = torch.tensor([[[0.6, 0.4], [0.6, 0.4]]]).log()
    lengths = torch.tensor([2])
    assert greedy(log_probs, lengths) == [[]]
    assert beam(log_probs, lengths) == [[1]]


@pytest.mark.parametrize("width", [1, 2, 8])
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_never_less_likely_than_greedy(width: int, scale: float) -> None:
    log_probs = random_log_probs(30, 6, 4, seed=width, scale=scale)
    lengths = torch.full((30,), 6)
    found = beam(log_probs, lengths, width=width, candidates=2)
    for row, searched, plain in zip(log_probs, found, greedy(log_probs, lengths), strict=True):
        every = totals(row)
        assert every[tuple(searched)] >= every[tuple(plain)] * (1 - 1e-9)


def test_a_wider_beam_is_no_less_likely_on_average() -> None:
    log_probs = random_log_probs(40, 6, 4, seed=0, scale=0.7)
    lengths = torch.full((40,), 6)
    means = []
    for width in (1, 4, 64):
        found = beam(log_probs, lengths, width=width)
        means.append(sum(math.log(totals(row)[tuple(each)]) for row, each in zip(log_probs, found, strict=True)))
    assert means[0] < means[1] <= means[2]


def test_few_candidates_suffice_where_the_scores_are_clear() -> None:
    log_probs = random_log_probs(5, 30, 50, seed=4, scale=4.0)
    lengths = torch.full((5,), 30)
    assert beam(log_probs, lengths, candidates=20) == beam(log_probs, lengths, candidates=49)


def test_repeats_need_a_blank() -> None:
    log_probs = torch.stack([path_of(1, 1, 0, 1), path_of(1, 1, 1, 1)])
    assert beam(log_probs, torch.tensor([4, 4])) == [[1, 1], [1]]


def test_impossible_symbols_are_never_chosen() -> None:
    log_probs = torch.tensor([[[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]]]).log()
    every = totals(log_probs[0])
    (found,) = beam(log_probs, torch.tensor([3]), width=100)
    assert every[tuple(found)] == pytest.approx(max(every.values()))


def test_utterances_without_frames_say_nothing() -> None:
    log_probs = random_log_probs(2, 4, 3, seed=0)
    assert beam(log_probs, torch.tensor([0, 4]))[0] == []
    assert beam(log_probs[:0], torch.tensor([], dtype=torch.long)) == greedy(log_probs[:0], torch.tensor([])) == []


@pytest.mark.parametrize("name", ["width", "candidates"])
def test_refusals(name: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"{name}: expected at least 1; found 0.")):
        beam(random_log_probs(1, 2, 3, seed=0), torch.tensor([2]), **{name: 0})


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
def test_targets_that_cannot_be_aligned(target: list[int], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        align(torch.zeros(3, 4).log_softmax(dim=-1), target)


def test_a_target_without_probability_is_refused() -> None:
    log_probs = torch.tensor([[1.0, 0.0], [1.0, 0.0]]).log()
    with pytest.raises(InputError, match="positive probability; found probability 0"):
        align(log_probs, [1])
