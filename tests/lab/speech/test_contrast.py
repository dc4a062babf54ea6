"""The contrast between what comes next and what comes at other times, against a plain loop."""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch.nn import functional

from ferero.errors import InputError
from ferero_lab.speech.augment import Hidden
from ferero_lab.speech.contrast import FutureContrast

N, FRAMES, WIDTH, BINS, STEPS = 3, 9, 5, 4, 3


@pytest.fixture
def contrast() -> FutureContrast:
    torch.manual_seed(0)
    return FutureContrast(WIDTH, BINS, steps=STEPS, dim=6)


@pytest.fixture
def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, Hidden]:
    draw = torch.Generator().manual_seed(1)
    lengths = torch.tensor([9, 6, 4])
    states = torch.randn(N, FRAMES, WIDTH, generator=draw)
    features = torch.randn(N, 4 * FRAMES - 2, BINS, generator=draw)
    hidden = Hidden(
        anchors=torch.tensor([[0, 4], [1, 3], [2, 0]]),
        valid=torch.tensor([[True, True], [True, True], [True, False]]),
        negatives=torch.tensor([[0, 2, 7, 5, 5], [0, 5, 2, 3, 1], [0, 1, 3, 3, 8]]),
        bins=torch.zeros(N, BINS, dtype=torch.bool),
    )
    return states, features, lengths, hidden


def summed(contrast: FutureContrast, *inputs: torch.Tensor | Hidden) -> tuple[torch.Tensor, torch.Tensor]:
    losses, numbers = contrast(*inputs)
    assert losses.shape == numbers.shape == (len(inputs[0]),)
    return losses.sum(), numbers.sum()


def by_loop(
    contrast: FutureContrast, states: torch.Tensor, features: torch.Tensor, lengths: torch.Tensor, hidden: Hidden
) -> tuple[float, int]:
    total, number = 0.0, 0
    maps = contrast.predict.weight.view(contrast.steps, -1, WIDTH), contrast.predict.bias.view(contrast.steps, -1)
    for i in range(len(states)):
        contents = []
        for frame in range(int(lengths[i])):
            rows = [
                features[i, t] if t < features.shape[1] else torch.zeros(BINS) for t in range(4 * frame, 4 * frame + 4)
            ]
            contents.append(contrast.contents(torch.cat(rows)))
        for anchor, valid in zip(hidden.anchors[i].tolist(), hidden.valid[i].tolist(), strict=True):
            for k in range(1, 1 + contrast.steps):
                truth = anchor + k
                others = [j for j in hidden.negatives[i].tolist() if j != truth and j < lengths[i]]
                if not valid or truth >= lengths[i] or not others:
                    continue
                guess = maps[0][k - 1] @ states[i, anchor] + maps[1][k - 1]
                scores = [
                    functional.cosine_similarity(guess, contents[j], dim=0).item() / contrast.temperature
                    for j in (truth, *others)
                ]
                total += math.log(sum(math.exp(score) for score in scores)) - scores[0]
                number += 1
    return total, number


def test_equals_a_plain_loop(contrast: FutureContrast, inputs: tuple) -> None:
    states, features, lengths, hidden = inputs
    losses, numbers = contrast(*inputs)
    for i in range(N):
        one = slice(i, i + 1)
        here = Hidden(hidden.anchors[one], hidden.valid[one], hidden.negatives[one], hidden.bins[one])
        expected, number = by_loop(contrast, states[one], features[one], lengths[one], here)
        assert numbers[i] == number == (3 + 3, 3 + 2, 1)[i]
        assert losses[i].item() == pytest.approx(expected, rel=1e-5)


def test_guessing_costs_the_logarithm_of_the_choices(contrast: FutureContrast, inputs: tuple) -> None:
    states, features, lengths, hidden = inputs
    torch.nn.init.zeros_(contrast.predict.weight)
    torch.nn.init.zeros_(contrast.predict.bias)
    away = Hidden(torch.tensor([[5]]), torch.tensor([[True]]), torch.tensor([[0, 1, 2, 3, 4]]), hidden.bins[:1])
    total, number = summed(contrast, states[:1], features[:1], lengths[:1], away)
    assert number == STEPS
    assert (total / number).item() == pytest.approx(math.log(1 + 5))
    total.backward()
    assert all(each.grad.isfinite().all() for each in contrast.parameters())


def test_what_does_not_count_gets_no_gradient(contrast: FutureContrast, inputs: tuple) -> None:
    states, features, lengths, hidden = inputs
    states.requires_grad_()
    total, _ = summed(contrast, states, features, lengths, hidden)
    (slope,) = torch.autograd.grad(total, states)
    counted = torch.zeros(N, FRAMES, dtype=torch.bool)
    counted[[0, 0, 1, 1, 2], [0, 4, 1, 3, 2]] = True
    assert torch.equal(slope.abs().sum(dim=-1) > 0, counted)


def test_padding_and_invalid_stretches_do_not_matter(contrast: FutureContrast, inputs: tuple) -> None:
    states, features, lengths, hidden = inputs
    expected = summed(contrast, states, features, lengths, hidden)
    for i, length in enumerate(lengths.tolist()):
        states[i, length:] = 7.0
        features[i, 4 * length :] = 7.0
    anchors = torch.where(hidden.valid, hidden.anchors, 8)
    assert (
        summed(contrast, states, features, lengths, Hidden(anchors, hidden.valid, hidden.negatives, hidden.bins))
        == expected
    )


@pytest.mark.parametrize("anchors", [0, 8, -1])
def test_no_valid_stretch_is_a_zero_that_has_gradients(contrast: FutureContrast, inputs: tuple, anchors: int) -> None:
    states, features, lengths, hidden = inputs
    none = Hidden(torch.full((N, 2), anchors), torch.zeros(N, 2, dtype=torch.bool), hidden.negatives, hidden.bins)
    states.requires_grad_()
    total, number = summed(contrast, states, features, lengths, none)
    total.backward()
    assert total == 0
    assert number == 0
    assert not states.grad.any()
    assert not any(each.grad.any() for each in contrast.parameters())


def test_no_stretch_or_no_other_frame_counts_nothing(contrast: FutureContrast, inputs: tuple) -> None:
    states, features, lengths, hidden = inputs
    nowhere = Hidden(hidden.anchors[:, :0], hidden.valid[:, :0], hidden.negatives, hidden.bins)
    assert [each.item() for each in summed(contrast, states, features, lengths, nowhere)] == [0, 0]
    alone = Hidden(hidden.anchors, hidden.valid, torch.full((N, 2), 8), hidden.bins)
    total, number = summed(contrast, states, features, torch.tensor([6, 6, 6]), alone)
    assert [total.item(), number.item()] == [0, 0]


def test_it_learns_to_predict(contrast: FutureContrast) -> None:
    draw = torch.Generator().manual_seed(2)
    turns = torch.rand(16, 1, generator=draw) + torch.arange(12) / 8
    states = torch.stack([(2 * math.pi * turns).sin(), (2 * math.pi * turns).cos()], dim=-1)
    states = functional.pad(states, (0, WIDTH - 2))
    features = functional.pad(states[..., :2], (0, BINS - 2)).repeat_interleave(4, dim=1)
    negatives = torch.randint(0, 12, (16, 6), generator=draw)
    hidden = Hidden(torch.full((16, 1), 5), torch.ones(16, 1, dtype=torch.bool), negatives, torch.zeros(16, BINS))
    optimizer = torch.optim.Adam(contrast.parameters(), lr=0.02)
    means = []
    for _ in range(60):
        total, number = summed(contrast, states, features, torch.full((16,), 12), hidden)
        optimizer.zero_grad()
        (total / number).backward()
        optimizer.step()
        means.append((total / number).item())
    assert means[-1] < 0.3 * math.log(7) < means[0]


def test_float32_under_autocast(contrast: FutureContrast, inputs: tuple) -> None:
    expected, _ = summed(contrast, *inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, _ = summed(contrast, *inputs)
    assert found.dtype == torch.float32
    assert found == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps: expected at least 1; found 0."),
        ({"temperature": 0.0}, "temperature: expected a positive number; found 0.0."),
    ],
)
def test_refusals(changes: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        FutureContrast(4, 4, **changes)
