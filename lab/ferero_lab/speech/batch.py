"""What the recogniser is given: features and targets of several utterances, padded."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

__all__ = ["Batch"]


@dataclass(frozen=True)
class Batch:
    """Several utterances of one language.

    Attributes:
        features: (n, frames, bins), log-mel, standardised, zeros after the end.
        lengths: (n,), in frames.
        targets: (n, symbols), from 1 upwards, zeros after the end (0 is CTC's blank).
        target_lengths: (n,).
        index: (n,), which utterances of the set they are.
    """

    features: Tensor
    lengths: Tensor
    targets: Tensor
    target_lengths: Tensor
    index: Tensor

    def __len__(self) -> int:
        """How many utterances."""
        return len(self.lengths)

    def to(self, device: torch.device | str) -> Batch:
        """The same on another device."""
        return Batch(*(getattr(self, each.name).to(device, non_blocking=True) for each in fields(self)))
