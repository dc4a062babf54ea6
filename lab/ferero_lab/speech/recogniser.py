"""The recogniser: a conformer, a CTC head for each language, and a head that predicts hidden frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from ferero.errors import InputError, MissingExtraError
from ferero_lab.speech.contrast import FutureContrast
from ferero_lab.speech.features import encoder_frames

__all__ = ["SIZES", "ChannelNorm", "ConformerSize", "Recogniser", "conformer"]


@dataclass(frozen=True)
class ConformerSize:
    """How large a conformer is.

    Attributes:
        blocks: how many.
        width: of its states; a multiple of `heads`.
        heads: of attention.
        kernel: of the convolution over time, in frames of the encoder; odd.
        inner: width of the feed-forward layers.
        channels: of the two convolutions that reduce time by four.
        dropout: share of units dropped while training.
        layer_dropout: share of blocks skipped while training.
    """

    blocks: int
    width: int
    heads: int
    kernel: int
    inner: int
    channels: int
    dropout: float = 0.1
    layer_dropout: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what no conformer can have."""
        for name in ("blocks", "width", "heads", "kernel", "inner", "channels"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}: expected at least 1; found {getattr(self, name)}.")
        if self.width % self.heads or self.width % 2:
            raise InputError(
                f"width: expected an even multiple of the {self.heads} heads; found {self.width}; change one of them."
            )
        if self.kernel % 2 == 0:
            raise InputError(f"kernel: expected an odd number of frames; found {self.kernel}.")
        for name in ("dropout", "layer_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name}: expected a share in [0, 1); found {getattr(self, name)}.")


SIZES = {
    "paper": ConformerSize(blocks=8, width=512, heads=8, kernel=31, inner=2464, channels=64),
    "small": ConformerSize(blocks=2, width=112, heads=4, kernel=15, inner=224, channels=16),
}


class ChannelNorm(nn.LayerNorm):
    """Layer norm over the channels of (n, channels, time): each frame by itself, so that no other one matters."""

    def forward(self, values: Tensor) -> Tensor:
        """(n, channels, time) to the same shape."""
        return super().forward(values.transpose(1, 2)).transpose(1, 2)


class PositionMap(nn.Linear):
    """A linear map of relative positions, which are the same for all utterances of a batch: computed for the first."""

    def forward(self, values: Tensor) -> Tensor:
        """(n, positions, width), n times the same, to (n, positions, outputs)."""
        return super().forward(values[:1]).expand(len(values), -1, -1)


class Conformer(nn.Module):
    """Features to states, a quarter as many.

    Frame j of the states starts from features 4j-3 .. 4j+3; attention and convolutions then look at the whole
    utterance, and at nothing beyond its end or in another utterance.
    """

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Encode a batch.

        Args:
            features: (n, frames, bins); what lies after the end of an utterance is ignored.
            lengths: (n,), in frames; 0 is allowed.

        Returns:
            The states (n, ceil(frames / 4), width), zero after the end, and their lengths (n,).
        """
        seen = _until(lengths, features.shape[1])
        read = self.layers(features.masked_fill(~seen[..., None], 0), attention_mask=seen)
        short = encoder_frames(lengths)
        states: Tensor = read.last_hidden_state
        return states.masked_fill(~_until(short, states.shape[1])[..., None], 0), short


def conformer(size: ConformerSize, bins: int = 80) -> Conformer:
    """A conformer with fresh weights, drawn from torch's global generator.

    The layers are those of transformers' ParakeetEncoder, with three changes. Batch norm becomes `ChannelNorm`: batch
    norm mixes the utterances of a batch and counts their padding. And linear maps and convolutions start as torch
    starts them, 1 / sqrt(inputs) wide: with a fixed width of 0.02 so little of the features passes a narrow encoder
    that its first gradients are in the thousands. Positions are mapped once for a batch: see `PositionMap`.

    Args:
        size: see SIZES.
        bins: of the features; a multiple of 4.

    Raises:
        InputError: for bins that the time reduction cannot halve twice.
        MissingExtraError: without transformers.
    """
    if bins < 4 or bins % 4:
        raise InputError(f"bins: expected a multiple of 4; found {bins}.")
    layers = _parakeet(size, bins)
    for module in list(layers.modules()):
        if isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d):
            module.reset_parameters()
        for name, child in list(module.named_children()):
            if isinstance(child, nn.BatchNorm1d):
                setattr(module, name, ChannelNorm(size.width))
            if name == "relative_k_proj" and isinstance(child, nn.Linear):
                setattr(module, name, PositionMap(child.in_features, child.out_features, bias=False))
    return Conformer(layers)


def _until(lengths: Tensor, frames: int) -> Tensor:
    return torch.arange(frames, device=lengths.device) < lengths[:, None]


def _parakeet(size: ConformerSize, bins: int) -> nn.Module:
    try:
        from transformers.models.parakeet import ParakeetEncoder, ParakeetEncoderConfig
    except ImportError:
        raise MissingExtraError(
            'speech: transformers (5.17 or newer) is not installed; it comes with pip install "ferero-lab[speech]".'
        ) from None
    config = cast(Any, ParakeetEncoderConfig)(
        hidden_size=size.width,
        num_hidden_layers=size.blocks,
        num_attention_heads=size.heads,
        intermediate_size=size.inner,
        conv_kernel_size=size.kernel,
        subsampling_factor=4,
        subsampling_conv_channels=size.channels,
        num_mel_bins=bins,
        dropout=size.dropout,
        activation_dropout=size.dropout,
        attention_dropout=size.dropout,
        layerdrop=size.layer_dropout,
        attn_implementation="sdpa",
    )
    return cast(nn.Module, cast(Any, ParakeetEncoder)(config))


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
