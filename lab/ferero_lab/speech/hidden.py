"""Which frames are hidden from the recogniser, to be predicted from what comes before them."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

__all__ = ["Hidden"]


@dataclass(frozen=True)
class Hidden:
    """Stretches of each utterance that are blanked out, in frames of the encoder (4 frames of features each).

    The stretch after anchor a is a+1 .. a+steps: features 4 (a+1) .. 4 (a+1+steps) - 1 are zero.

    Attributes:
        anchors: (n, s), the last frame of the encoder that is seen before a stretch.
        valid: (n, s), False where an utterance has fewer stretches than the longest one of the batch.
        negatives: (n, k), other frames of the same utterance, to tell the hidden ones from.
        bins: (n, bins), True for the frequencies that are blanked out over the whole utterance.
    """

    anchors: Tensor
    valid: Tensor
    negatives: Tensor
    bins: Tensor

    def to(self, device: torch.device | str) -> Hidden:
        """The same on another device."""
        return Hidden(*(getattr(self, each.name).to(device, non_blocking=True) for each in fields(self)))
