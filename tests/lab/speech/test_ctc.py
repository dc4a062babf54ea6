"""CTC against the sum over all paths, and utterances that must not count."""

from __future__ import annotations

import itertools

import pytest
import torch

from ferero_lab.speech.ctc import ctc_per_utterance, frames_needed


def summed(
    log_probs: torch.Tensor, lengths: torch.Tensor, targets: torch.Tensor, target_lengths: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    losses, symbols = ctc_per_utterance(log_probs, lengths, targets, target_lengths)
    assert losses.shape == symbols.shape == lengths.shape
    return losses.sum(), symbols.sum()


def spelt(path: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(symbol for symbol, _ in itertools.groupby(path) if symbol)


def by_all_paths(log_probs: torch.Tensor, target: tuple[int, ...]) -> torch.Tensor:
    frames, symbols = log_probs.shape
    paths = [path for path in itertools.product(range(symbols), repeat=frames) if spelt(path) == target]
    scores = [sum(log_probs[t, symbol] for t, symbol in enumerate(path)) for path in paths]
    return -torch.stack(scores).logsumexp(dim=0)


def random_scores(*shape: int, seed: int = 0) -> torch.Tensor:
    return 2 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def padded(*targets: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(len(target) for target in targets)
    rows = [[*target, *[0] * (longest - len(target))] for target in targets]
    return torch.tensor(rows), torch.tensor([len(target) for target in targets])


TARGETS = ((1, 2), (2, 2), (1,), (1, 2, 1), (2, 1))
LENGTHS = (5, 4, 1, 3, 5)


def test_equals_the_sum_over_all_paths() -> None:
    log_probs = random_scores(5, 5, 3).log_softmax(dim=-1)
    losses, symbols = ctc_per_utterance(log_probs, torch.tensor(LENGTHS), *padded(*TARGETS))
    parts = [by_all_paths(log_probs[i, :length], TARGETS[i]) for i, length in enumerate(LENGTHS)]
    torch.testing.assert_close(losses, torch.stack(parts))
    assert symbols.tolist() == [len(target) for target in TARGETS]


def test_gradient_is_that_of_the_sum_over_all_paths() -> None:
    scores = random_scores(5, 5, 3).requires_grad_()
    total, _ = summed(scores.log_softmax(dim=-1), torch.tensor(LENGTHS), *padded(*TARGETS))
    (found,) = torch.autograd.grad(total, scores)
    exact = scores.double().log_softmax(dim=-1)
    parts = [by_all_paths(exact[i, :length], TARGETS[i]) for i, length in enumerate(LENGTHS)]
    (expected,) = torch.autograd.grad(torch.stack(parts).sum(), scores)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    assert not found[2, 1:].any()


def test_gradient_agrees_with_finite_differences() -> None:
    targets, counts = padded((1, 2, 2), (3,))
    lengths = torch.tensor([6, 4])

    def loss(values: torch.Tensor) -> torch.Tensor:
        return summed(values.log_softmax(dim=-1), lengths, targets, counts)[0]

    scores = random_scores(2, 6, 4).requires_grad_()
    (slope,) = torch.autograd.grad(loss(scores), scores)
    for seed in range(5):
        way = random_scores(2, 6, 4, seed=10 + seed)
        step = 1e-2 / way.norm()
        difference = (loss(scores + step * way) - loss(scores - step * way)) / (2 * step)
        torch.testing.assert_close((slope * way).sum(), difference.detach(), rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize(
    ("target", "length"), [((1, 2, 1), 2), ((1, 1), 2), ((2, 2, 2), 4), ((1,), 0), ((), 5)], ids=str
)
def test_what_does_not_fit_counts_nowhere(target: tuple[int, ...], length: int) -> None:
    scores = random_scores(3, 5, 3).requires_grad_()
    targets, counts = padded((1, 2), target, (2, 1, 2))
    log_probs = scores.log_softmax(dim=-1)
    total, number = summed(log_probs, torch.tensor([5, length, 4]), targets, counts)
    kept = torch.tensor([0, 2])
    expected, kept_number = summed(log_probs[kept], torch.tensor([5, 4]), targets[kept], counts[kept])
    torch.testing.assert_close(total, expected)
    assert number == kept_number == 5
    (slope,) = torch.autograd.grad(total, scores)
    assert slope.isfinite().all()
    assert not slope[1].any()
    assert slope[0].any()


def test_nothing_fits() -> None:
    scores = random_scores(1, 2, 3).requires_grad_()
    total, number = summed(scores.log_softmax(dim=-1), torch.tensor([2]), *padded((1, 1)))
    total.backward()
    assert total == 0
    assert number == 0
    assert scores.grad is not None
    assert not scores.grad.any()


def test_extreme_scores_stay_finite() -> None:
    scores = (1e4 * random_scores(2, 8, 5)).requires_grad_()
    total, _ = summed(scores.log_softmax(dim=-1), torch.tensor([8, 3]), *padded((1, 1, 4), (3,)))
    total.backward()
    assert total.isfinite()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()


def test_padding_of_targets_is_ignored() -> None:
    log_probs = random_scores(2, 5, 3).log_softmax(dim=-1)
    counts, lengths = torch.tensor([1, 2]), torch.tensor([2, 5])
    zeros = summed(log_probs, lengths, torch.tensor([[1, 0, 0], [2, 1, 0]]), counts)
    others = summed(log_probs, lengths, torch.tensor([[1, 1, 1], [2, 1, 1]]), counts)
    assert zeros == others


def test_float32_whatever_autocast_says() -> None:
    log_probs = random_scores(1, 5, 3).log_softmax(dim=-1)
    expected, _ = summed(log_probs.bfloat16().float(), torch.tensor([5]), *padded((1, 2)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, number = summed(log_probs.bfloat16(), torch.tensor([5]), *padded((1, 2)))
    assert found.dtype == torch.float32
    assert number.dtype == torch.int64
    assert found == expected


def test_frames_needed_is_the_length_of_the_shortest_path() -> None:
    targets = [target for size in range(4) for target in itertools.product((1, 2), repeat=size)]
    found = frames_needed(*padded(*targets)).tolist()
    paths = [path for size in range(6) for path in itertools.product((0, 1, 2), repeat=size)]
    assert found == [min(len(path) for path in paths if spelt(path) == target) for target in targets]
