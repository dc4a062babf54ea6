"""The three losses of a bilingual recogniser, on a training step's batches and on a held-out set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ferero_lab.speech.augment import Hidden, blank, fixed_hide, hide, warp
from ferero_lab.speech.batches import SpeechBatch
from ferero_lab.speech.ctc import ctc_per_utterance
from ferero_lab.speech.recogniser import Recogniser

__all__ = ["NAMES", "Given", "Sums", "draw", "held_out_sums", "mixed", "training_losses"]

NAMES = ("cpc", "zh", "en")
"""CPC in nats for each predicted frame, CTC in nats for each symbol of the target."""


@dataclass(frozen=True)
class Given:
    """What one step is computed from.

    Attributes:
        batches: one of each language, warped.
        hidden: what the model does not see of each.
    """

    batches: Mapping[str, SpeechBatch]
    hidden: Mapping[str, Hidden]


@dataclass(frozen=True)
class Sums:
    """The three losses of every utterance in a set, and how much there was to predict in it: NAMES[i] -> (n,) each."""

    total: Mapping[str, Tensor]
    count: Mapping[str, Tensor]

    def mean(self, name: str) -> float:
        """The loss of the set: the sum over its utterances, for each thing predicted."""
        return float(self.total[name].sum() / self.count[name].sum())

    def means(self) -> dict[str, float]:
        """All three."""
        return {name: self.mean(name) for name in NAMES}

    def standard_error(self, name: str) -> float | None:
        """Of the mean, as utterances vary: that of a ratio of two means (delta method). None for a single utterance."""
        total, count = self.total[name], self.count[name]
        n = len(total)
        if n < 2:
            return None
        residual = total - total.sum() / count.sum() * count
        return float((n / (n - 1) * residual.square().sum()).sqrt() / count.sum())


def draw(
    batches: Mapping[str, SpeechBatch], generator: torch.Generator, steps: int, *, tempo: float, pitch: float
) -> Given:
    """Warp a batch of each language, and choose what to hide of it."""
    warped, hidden = {}, {}
    for language, batch in batches.items():
        features, lengths = warp(batch.features, batch.lengths, generator, tempo=tempo, pitch=pitch)
        hidden[language] = hide(
            lengths, generator, frames=features.shape[1], spacing=spacing_of(steps), steps=steps, bins=features.shape[2]
        )
        warped[language] = replace(batch, features=features, lengths=lengths)
    return Given(warped, hidden)


def training_losses(model: Recogniser, given: Given) -> tuple[Tensor, Tensor]:
    """The losses (3,) in the order of NAMES with their graph, and how many predictions are behind each (3,).

    The languages are encoded one after the other: their sentences differ in length, and what is padding costs as much
    as speech.
    """
    sums = dict.fromkeys(NAMES, torch.zeros((), device=next(model.parameters()).device))
    counts = dict.fromkeys(NAMES, torch.zeros((), dtype=torch.int64, device=sums["cpc"].device))
    with mixed(sums["cpc"].device):
        for language, batch in given.batches.items():
            hidden = given.hidden[language]
            states, lengths = model.encode(blank(batch.features, hidden, model.contrast.steps), batch.lengths)
            log_probs = model.log_probs(states, language)
            for name, (total, count) in {
                "cpc": model.contrast(states, batch.features, lengths, hidden),
                language: ctc_per_utterance(log_probs, lengths, batch.targets, batch.target_lengths),
            }.items():
                sums[name], counts[name] = sums[name] + total.sum(), counts[name] + count.sum()
    number = torch.stack([counts[name] for name in NAMES])
    return torch.stack([sums[name] for name in NAMES]) / number.clamp(min=1), number


@torch.no_grad()
def held_out_sums(model: Recogniser, batches: Mapping[str, Sequence[SpeechBatch]]) -> Sums:
    """The losses of every utterance of a set, nothing augmented: CTC on all of it, CPC with evenly hidden stretches.

    Args:
        model: is put back into the mode it was in.
        batches: of each language.
    """
    total: dict[str, list[Tensor]] = {name: [] for name in NAMES}
    count: dict[str, list[Tensor]] = {name: [] for name in NAMES}
    was_training = model.training
    model.eval()
    for language, several in batches.items():
        for batch in several:
            for name, (losses, number) in _held_out(model, language, batch).items():
                total[name].append(losses.double())
                count[name].append(number)
    model.train(was_training)
    return Sums(
        {name: torch.cat(each).cpu() for name, each in total.items()},
        {name: torch.cat(each).cpu() for name, each in count.items()},
    )


def spacing_of(steps: int) -> int:
    """How far stretches of so many frames lie apart: a quarter of the time is hidden."""
    return 4 * steps + 1


def mixed(device: torch.device) -> AbstractContextManager[None]:
    """bf16 on a GPU, float32 elsewhere."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


def _held_out(model: Recogniser, language: str, batch: SpeechBatch) -> dict[str, tuple[Tensor, Tensor]]:
    steps, frames = model.contrast.steps, batch.features.shape[1]
    bins = batch.features.shape[2]
    hidden = fixed_hide(batch.lengths, frames=frames, spacing=spacing_of(steps), steps=steps, bins=bins)
    with mixed(batch.features.device):
        heard, lengths = model.encode(batch.features, batch.lengths)
        states, _ = model.encode(blank(batch.features, hidden, steps), batch.lengths)
    log_probs = model.log_probs(heard, language)
    return {
        "cpc": model.contrast(states, batch.features, lengths, hidden),
        language: ctc_per_utterance(log_probs, lengths, batch.targets, batch.target_lengths),
    }
