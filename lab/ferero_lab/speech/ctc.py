"""CTC with the number of symbols beside the loss, so that languages with short and long transcripts can be compared."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["ctc_per_utterance", "frames_needed"]


def ctc_per_utterance(
    log_probs: Tensor, lengths: Tensor, targets: Tensor, target_lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """The negative log-likelihood of the targets, summed over all paths that spell them.

    An utterance whose target is empty, or needs more frames than there are, has loss 0, no symbols and no gradient.
    The loss for each symbol of a set is the sum of the losses over the sum of the numbers.

    Gradients are right for log-probabilities that come from log_softmax, as torch's CTC assumes. Padded targets
    always take torch's own kernels, never cuDNN's, which need all utterances of a batch to be equally long. On CUDA
    the value is repeatable; the gradient of a symbol that a long target repeats is summed in any order, so that its
    last bits can differ from run to run.

    Args:
        log_probs: (n, frames, 1 + symbols); 0 is the blank.
        lengths: (n,), in frames.
        targets: (n, longest), symbols from 1 upwards; what lies after the end is ignored.
        target_lengths: (n,).

    Returns:
        The losses in nats (n,) and the numbers of symbols (n,), int64.
    """
    counted = (target_lengths > 0) & (frames_needed(targets, target_lengths) <= lengths)
    with torch.autocast(log_probs.device.type, enabled=False):
        # Utterances left out are given a target that fits, since 0 times an infinite loss has no gradient.
        losses = functional.ctc_loss(
            log_probs.float().transpose(0, 1),
            targets.long(),
            torch.where(counted, lengths, 1).long(),
            torch.where(counted, target_lengths, 0).long(),
            blank=0,
            reduction="none",
        )
    return torch.where(counted, losses, 0), torch.where(counted, target_lengths, 0).long()


def frames_needed(targets: Tensor, target_lengths: Tensor) -> Tensor:
    """The fewest frames that spell each target: one a symbol, and a blank between two of the same.

    Args:
        targets: (n, longest).
        target_lengths: (n,).

    Returns:
        (n,).
    """
    inside = torch.arange(1, targets.shape[1], device=targets.device) < target_lengths[:, None]
    repeats = (targets[:, 1:] == targets[:, :-1]) & inside
    return target_lengths + repeats.sum(dim=1)
