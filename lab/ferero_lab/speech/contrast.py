"""Contrastive predictive coding: what comes next, told apart from what comes at other times."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ferero.errors import InputError
from ferero_lab.speech.augment import Hidden

__all__ = ["REDUCTION", "FutureContrast"]

REDUCTION = 4
"""Frames of features in one frame of the encoder."""


class FutureContrast(nn.Module):
    """InfoNCE between predictions and contents of hidden frames.

    With z_j the contents of frame j (four frames of features, a linear map, a layer norm) and p_k = W_k s_a the
    prediction for step k from the state s_a at anchor a,

        loss(a, k) = -log( exp(c(p_k, z_{a+k})) / sum over j in {a+k} and the negatives of exp(c(p_k, z_j)) )

    where c is the cosine divided by the temperature. The cosine is bounded, so that one bad prediction cannot blow
    up a step. Guessing costs log(1 + negatives).
    """

    def __init__(self, width: int, bins: int = 80, *, steps: int = 6, dim: int = 256, temperature: float = 0.1) -> None:
        """Draw fresh weights from torch's global generator.

        Args:
            width: of the states.
            bins: of the features.
            steps: how many frames of the encoder are predicted.
            dim: of predictions and contents.
            temperature: of the scores.

        Raises:
            InputError: for anything that is not positive.
        """
        super().__init__()
        for name, value in (("width", width), ("bins", bins), ("steps", steps), ("dim", dim)):
            if value < 1:
                raise InputError(f"{name}: expected at least 1; found {value}.")
        if not temperature > 0:
            raise InputError(f"temperature: expected a positive number; found {temperature}.")
        self.steps, self.dim, self.temperature = steps, dim, temperature
        self.contents = nn.Sequential(nn.Linear(REDUCTION * bins, dim), nn.LayerNorm(dim))
        self.predict = nn.Linear(width, steps * dim)

    def forward(self, states: Tensor, features: Tensor, lengths: Tensor, hidden: Hidden) -> tuple[Tensor, Tensor]:
        """The loss of all predictions in a batch, in float32 even under autocast.

        A prediction counts if its stretch is valid, its frame lies within the utterance, and at least one negative
        is another frame of the utterance. A negative that is the true frame, or lies beyond the end, is left out.

        Args:
            states: (n, frames', width), of features with hidden stretches.
            features: (n, frames, bins), with nothing hidden.
            lengths: (n,), in frames of the encoder.
            hidden: the stretches.

        Returns:
            For each utterance the summed loss in nats (n,) and the number of predictions (n,), int64.
        """
        with torch.autocast(states.device.type, enabled=False):
            contents = self._contents(features.float(), states.shape[1])
            last = states.shape[1] - 1
            anchors = hidden.anchors.clamp(0, last)
            predicted = self.predict(_frames(states.float(), anchors))
            predicted = functional.normalize(predicted.view(*anchors.shape, self.steps, self.dim), dim=-1)
            steps = torch.arange(1, 1 + self.steps, device=states.device)
            frames = hidden.anchors[..., None] + steps
            true = _frames(contents, frames.clamp(0, last).flatten(1)).view_as(predicted)
            others = _frames(contents, hidden.negatives.clamp(0, last))
            score_true = (predicted * true).sum(dim=-1, keepdim=True) / self.temperature
            score_others = torch.einsum("nskd,njd->nskj", predicted, others) / self.temperature
            negatives = hidden.negatives[:, None, None, :]
            left_out = (negatives == frames[..., None]) | (negatives >= lengths[:, None, None, None])
            scores = torch.cat([score_true, score_others.masked_fill(left_out, -torch.inf)], dim=-1)
            losses = scores.logsumexp(dim=-1) - score_true[..., 0]
        counted = hidden.valid[..., None] & (frames < lengths[:, None, None]) & ~left_out.all(dim=-1)
        return torch.where(counted, losses, 0).sum(dim=(1, 2)), counted.sum(dim=(1, 2))

    def _contents(self, features: Tensor, frames: int) -> Tensor:
        """(n, frames of features, bins) to (n, frames, dim), of length 1."""
        missing = REDUCTION * frames - features.shape[1]
        stacked = functional.pad(features, (0, 0, 0, missing)).reshape(len(features), frames, -1)
        return functional.normalize(self.contents(stacked), dim=-1)


def _frames(values: Tensor, index: Tensor) -> Tensor:
    """Rows `index` (n, s) of `values` (n, t, d): (n, s, d)."""
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[-1]))
