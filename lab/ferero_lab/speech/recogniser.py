"""One encoder, a CTC head for each language, and a head that predicts hidden frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from ferero.errors import InputError
from ferero_lab.speech.contrast import FutureContrast
from ferero_lab.speech.encoder import ConformerSize, conformer

__all__ = ["Recogniser"]


class Recogniser(nn.Module):
    """A conformer with linear heads.

    Attributes:
        encoder: features to states.
        heads: states to symbols, one for each language; symbol 0 is CTC's blank.
        contrast: states to hidden frames, the CPC loss.
    """

    def __init__(
        self, size: ConformerSize, symbols: Mapping[str, int], *, future_steps: int = 6, bins: int = 80
    ) -> None:
        """Draw fresh weights from torch's global generator.

        Args:
            size: of the conformer.
            symbols: how many each language has, without the blank.
            future_steps: how many frames of the encoder are predicted.
            bins: of the features.

        Raises:
            InputError: without languages, or for a language without symbols.
            MissingExtraError: without transformers.
        """
        super().__init__()
        if not symbols:
            raise InputError("symbols: expected at least one language; found none.")
        for language, count in symbols.items():
            if count < 1:
                raise InputError(f"symbols: expected at least one for {language!r}; found {count}.")
        self.encoder = conformer(size, bins)
        self.heads = nn.ModuleDict({language: nn.Linear(size.width, 1 + count) for language, count in symbols.items()})
        self.contrast = FutureContrast(size.width, bins, steps=future_steps)

    def encode(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Features (n, frames, bins) with lengths (n,) to states (n, frames', width) with lengths (n,)."""
        states, short = self.encoder(features, lengths)
        return states, short

    def log_probs(self, states: Tensor, language: str) -> Tensor:
        """Log-probabilities of the blank and the symbols, in float32 even under autocast.

        Args:
            states: (n, frames', width).
            language: whose symbols.

        Returns:
            (n, frames', 1 + symbols).

        Raises:
            InputError: for a language that has no head.
        """
        if language not in self.heads:
            raise InputError(f"language: expected one of {', '.join(self.heads)}; found {language!r}.")
        head = self.heads[language]
        with torch.autocast(states.device.type, enabled=False):
            scores: Tensor = head(states.float())
            return scores.log_softmax(dim=-1)

    def encoder_parameters(self) -> Iterator[nn.Parameter]:
        """What the losses share."""
        return self.encoder.parameters()
