"""What a trained recogniser is worth on a split: its losses with standard errors, and its error rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ferero_lab.speech.batch import Batch
from ferero_lab.speech.error_rates import error_rate
from ferero_lab.speech.experiment.losses import NAMES, held_out_sums, mixed
from ferero_lab.speech.experiment.sets import Sets
from ferero_lab.speech.greedy import greedy
from ferero_lab.speech.recogniser import Recogniser

__all__ = ["Decoder", "measure", "transcripts"]

Decoder = Callable[[Tensor, Tensor], list[list[int]]]
"""Log-probabilities (n, frames, 1 + symbols) and lengths (n,) to symbols."""


def measure(
    model: Recogniser, sets: Sets, split: str, device: torch.device, decoder: Decoder = greedy
) -> dict[str, Any]:
    """Losses, their standard errors, error rates in percent, their average and gap.

    The error rate of English is counted in words (WER), that of Mandarin in characters (CER), as the paper does; or in
    syllables, where it is written in them.
    """
    batches = sets.held_out(split, device)
    sums = held_out_sums(model, batches)
    found: dict[str, Any] = {
        "losses": sums.means(),
        "standard_errors": {name: sums.standard_error(name) for name in NAMES},
    }
    for language, several in batches.items():
        heard = transcripts(model, sets, language, split, several, decoder)
        alphabet, utterances = sets.alphabets[language], sets.prepared[language, split].utterances
        truths = [alphabet.reference(each) for each in utterances]
        rate = error_rate(truths, heard, "characters" if alphabet.unit == "characters" else "words")
        letters = error_rate(truths, heard, "characters")
        found[language] = {
            "error": 100 * rate.rate,
            "standard_error": None if rate.standard_error is None else 100 * rate.standard_error,
            "characters": 100 * letters.rate,
        }
    rates = [found[language]["error"] for language in ("zh", "en")]
    return {**found, "average": sum(rates) / 2, "gap": abs(rates[0] - rates[1])}


@torch.no_grad()
def transcripts(
    model: Recogniser, sets: Sets, language: str, split: str, batches: Sequence[Batch], decoder: Decoder = greedy
) -> list[str]:
    """What the model hears in each utterance of a split, in the order of the set."""
    was_training = model.training
    model.eval()
    heard = [""] * len(sets.prepared[language, split])
    for batch in batches:
        with mixed(batch.features.device):
            states, lengths = model.encode(batch.features, batch.lengths)
        found = decoder(model.log_probs(states, language), lengths)
        for index, symbols in zip(batch.index.tolist(), found, strict=True):
            heard[index] = sets.alphabets[language].decode(symbols)
    model.train(was_training)
    return heard
