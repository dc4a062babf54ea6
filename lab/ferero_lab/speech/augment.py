"""Augmentation: stretches and bands hidden from the recogniser, and other tempo and pitch."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor
from torch.nn import functional

from ferero.errors import InputError
from ferero_lab.speech.features import encoder_frames

__all__ = ["Hidden", "blank", "fixed_hide", "hide", "warp"]


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


def hide(
    lengths: Tensor,
    generator: torch.Generator,
    *,
    frames: int | None = None,
    spacing: int = 25,
    steps: int = 6,
    negatives: int = 64,
    bins: int = 80,
    bands: int = 2,
    band_width: int = 20,
) -> Hidden:
    """Stretches at random: an utterance of e frames of the encoder has max(1, e // spacing), one in each equal part.

    Every stretch lies in its own part of the utterance, with a seen frame of that part before it and after it. An
    utterance of fewer than steps + 2 frames has none.

    Args:
        lengths: (n,), in frames of features; the result is on the same device.
        generator: on the CPU, so that a run can be repeated on another device.
        frames: the longest length, which a padded batch knows from its shape; None to read it from the lengths,
            for which a GPU has to be waited for.
        spacing: in frames of the encoder, at least steps + 2.
        steps: frames of the encoder in a stretch.
        negatives: how many frames to draw from each utterance, uniform, with replacement.
        bins: how many frequencies there are.
        bands: how many bands of frequencies are hidden in each utterance.
        band_width: each is 0 to band_width bins wide, uniform.

    Returns:
        Hidden, with one column of stretches or more.

    Raises:
        InputError: for a spacing that has no room for a stretch, or bands wider than the features.
    """
    if not 0 <= band_width <= bins:
        raise InputError(f"band_width: expected 0 to {bins}, the number of bins, found {band_width}.")
    parts = _parts(lengths, frames, spacing, steps)
    sizes = [parts, negatives, bands, bands]
    drawn = torch.rand(len(lengths), sum(sizes), generator=generator)
    if lengths.is_cuda:
        drawn = drawn.pin_memory()
    at, among, widths, starts = torch.split(drawn.to(lengths.device, non_blocking=True), sizes, dim=1)
    width = (widths * (band_width + 1)).floor()[..., None]
    start = (starts[..., None] * (bins - width + 1)).floor()
    bin_ = torch.arange(bins, device=lengths.device)
    covered = ((bin_ >= start) & (bin_ < start + width)).any(dim=1)
    return _placed(lengths, at, among, covered, spacing, steps)


def fixed_hide(
    lengths: Tensor,
    *,
    frames: int | None = None,
    spacing: int = 25,
    steps: int = 6,
    negatives: int = 64,
    bins: int = 80,
) -> Hidden:
    """Stretches for evaluation: in the middle of each part, negatives evenly spread, no frequency hidden.

    What an utterance gets depends on its own length alone, not on the others of the batch. The arguments are those
    of ``hide``.
    """
    parts = _parts(lengths, frames, spacing, steps)
    at = torch.full((len(lengths), parts), 0.5, device=lengths.device)
    among = (torch.arange(negatives, device=lengths.device) + 0.5) / max(1, negatives)
    covered = torch.zeros(len(lengths), bins, dtype=torch.bool, device=lengths.device)
    return _placed(lengths, at, among.expand(len(lengths), -1), covered, spacing, steps)


def blank(features: Tensor, hidden: Hidden, steps: int = 6) -> Tensor:
    """The features with zeros where they are hidden.

    Args:
        features: (n, frames, bins).
        hidden: of the same n utterances, on the same device.
        steps: the one that ``hidden`` was made with.

    Returns:
        (n, frames, bins), another tensor.
    """
    frame = torch.arange(encoder_frames(features.shape[1]), device=features.device)
    after = frame - hidden.anchors[..., None]
    covered = ((after >= 1) & (after <= steps) & hidden.valid[..., None]).any(dim=1)
    times = covered.repeat_interleave(4, dim=1)[:, : features.shape[1]]
    return features.masked_fill(times[..., None] | hidden.bins[:, None], 0)


def _parts(lengths: Tensor, frames: int | None, spacing: int, steps: int) -> int:
    """How many stretches the longest utterance has."""
    if steps < 1 or spacing < steps + 2:
        raise InputError(
            f"spacing: expected at least steps + 2 frames, a stretch and a seen frame on both sides, "
            f"found spacing {spacing} with steps {steps}."
        )
    longest = frames if frames is not None else int(lengths.max()) if len(lengths) else 0
    return max(1, encoder_frames(longest) // spacing)


def _placed(lengths: Tensor, at: Tensor, among: Tensor, bins: Tensor, spacing: int, steps: int) -> Hidden:
    """The stretches at the places ``at`` (n, s) of their parts, the negatives at ``among`` (n, k) of the utterance.

    Both are from 0 (the first place there is) to 1, exclusive.
    """
    frames = encoder_frames(lengths)[:, None]
    parts = (frames // spacing).clamp(min=1)
    part = torch.arange(at.shape[1], device=lengths.device)
    start = part * frames // parts
    room = (part + 1) * frames // parts - start - steps - 1
    valid = (part < parts) & (room > 0)
    anchors = start + (at * room).long().minimum(room - 1)
    negatives = (among * frames).long().minimum(frames - 1).clamp(min=0)
    return Hidden(anchors.masked_fill(~valid, 0), valid, negatives, bins)


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
