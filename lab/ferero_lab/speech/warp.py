"""The same sentence by another voice: slower or faster, and a little higher or lower."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ferero.errors import InputError

__all__ = ["warp"]


def warp(
    features: Tensor, lengths: Tensor, generator: torch.Generator, *, tempo: float = 0.15, pitch: float = 0.1
) -> tuple[Tensor, Tensor]:
    """Each utterance at a tempo and a pitch of its own, by bilinear interpolation of its features.

    Frame t of the result is frame t / a of the utterance and bin b is bin b / c, with a uniform in 1 -+ tempo and c
    uniform in 1 -+ pitch. Bins beyond the last one repeat it.

    Args:
        features: (n, frames, bins), zeros after the end.
        lengths: (n,), in frames.
        generator: on the CPU, so that a run can be repeated on another device.
        tempo: by which share an utterance may become longer or shorter.
        pitch: by which share its frequencies may move, on the mel scale.

    Returns:
        (n, frames', bins), zeros after the end, and the new lengths (n,), at least 1 where they were.

    Raises:
        InputError: for shares outside [0, 1).
    """
    for name, share in (("tempo", tempo), ("pitch", pitch)):
        if not 0 <= share < 1:
            raise InputError(f"{name}: expected a share in [0, 1), found {share}.")
    drawn = 1 + (2 * torch.rand(2, len(lengths), generator=generator) - 1) * torch.tensor([[tempo], [pitch]])
    frames, bins = features.shape[1], features.shape[2]
    if features.numel() == 0:
        return features.clone(), lengths.clone()
    count = max(1, int(frames * float(drawn[0].max())))
    slower, higher = drawn.to(features.device, features.dtype)
    longer = (lengths * slower).long().clamp(max=count).maximum((lengths > 0).long())
    time = torch.arange(count, device=features.device, dtype=features.dtype)
    band = torch.arange(bins, device=features.device, dtype=features.dtype)
    last = (lengths - 1).clamp(min=0)[:, None]
    rows = (time / slower[:, None]).minimum(last) * (2 / max(frames - 1, 1)) - 1
    columns = band / higher[:, None] * (2 / max(bins - 1, 1)) - 1
    grid = torch.stack([columns[:, None].expand(-1, count, -1), rows[..., None].expand(-1, -1, bins)], dim=-1)
    moved = functional.grid_sample(features[:, None], grid, padding_mode="border", align_corners=True)[:, 0]
    return moved.masked_fill((time >= longer[:, None])[..., None], 0), longer
