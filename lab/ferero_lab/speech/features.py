"""Sound as a picture: log-mel features, 100 frames a second, on the scale of their own utterance."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn.functional import avg_pool1d

from ferero.errors import InputError
from ferero_lab.speech.corpora.audio import RATE

__all__ = ["HOP", "SETTINGS", "WINDOW", "encoder_frames", "log_mel", "mel_filters", "trim"]

WINDOW = 400
HOP = 160
SETTINGS = "log-mel 1: rate 16000, Hann 400, hop 160, fft 512, HTK, 90 dB, standardised; trim 1"

_FFT = 512
_RANGE = 1e-9
_LEAST_DEVIATION = 0.1
_EDGE = RATE // 10
_LOUDNESS = 5 * HOP

Frames = TypeVar("Frames", int, Tensor)


def encoder_frames(frames: Frames) -> Frames:
    """How many frames the encoder makes of ``frames`` frames of features: it halves them twice, rounding up."""
    return (frames + 3) // 4


def log_mel(waveform: Tensor, bins: int = 80) -> Tensor:
    """The logarithm of the energy in each mel band, every 10 ms, with mean 0 and standard deviation 1 in each band.

    Frame t is centred at sample 160 t and seen through a Hann window of 25 ms. Energies more than 90 dB under the
    loudest of the utterance are raised to that level, so that the result does not depend on the volume. A band that
    moves by less than 0.1 nats is only centred and divided by 0.1: silence is 0 everywhere.

    Args:
        waveform: (samples,), 16 kHz.
        bins: the number of mel bands.

    Returns:
        (samples // 160, bins), float32.

    Raises:
        InputError: unless the waveform is one channel of at least one window (400 samples) of finite numbers.
    """
    if waveform.ndim != 1 or len(waveform) < WINDOW:
        raise InputError(
            f"waveform: expected (samples,) with at least {WINDOW} samples, one window, found {tuple(waveform.shape)}."
        )
    if not bool(waveform.isfinite().all()):
        raise InputError("waveform: expected finite samples, found NaN or infinity.")
    peak = waveform.abs().max().clamp(min=torch.finfo(torch.float32).tiny)
    spectrum = torch.stft(
        (waveform / peak).float(),
        _FFT,
        hop_length=HOP,
        win_length=WINDOW,
        window=torch.hann_window(WINDOW),
        pad_mode="constant",
        return_complex=True,
    )
    power = spectrum[:, : len(waveform) // HOP].abs().square()
    energy = mel_filters(bins, _FFT, RATE) @ power
    least = (energy.max() * _RANGE).clamp(min=torch.finfo(torch.float32).tiny)
    level = energy.maximum(least).log().double()
    centred = level - level.mean(dim=1, keepdim=True)
    deviation = centred.square().mean(dim=1, keepdim=True).sqrt()
    return (centred / deviation.clamp(min=_LEAST_DEVIATION)).T.float().contiguous()


@lru_cache(maxsize=8)
def mel_filters(bins: int, n_fft: int, rate: int) -> Tensor:
    """Triangles, evenly spaced on the mel scale of HTK, m(f) = 2595 log10(1 + f / 700), from 0 to rate / 2.

    With d = m(rate / 2) / (bins + 1), filter k is max(0, 1 - |m(f) / d - (k + 1)|): 1 at its own centre, 0 at its
    neighbours'; between the first centre and the last one the filters add up to 1.

    Args:
        bins: how many filters.
        n_fft: the length of the Fourier transform.
        rate: samples a second.

    Returns:
        (bins, n_fft // 2 + 1). It is kept and given again: do not write into it.

    Raises:
        InputError: when a filter is so narrow that it falls between two frequencies of the transform.
    """
    frequencies = torch.linspace(0, rate / 2, n_fft // 2 + 1, dtype=torch.float64)
    mel = 2595 * torch.log10(1 + frequencies / 700)
    place = mel / mel[-1] * (bins + 1)
    centres = torch.arange(1, bins + 1, dtype=torch.float64)[:, None]
    filters = (1 - (place - centres).abs()).clamp(min=0)
    empty = int((filters.amax(dim=1) == 0).sum())
    if empty:
        raise InputError(
            f"bins: expected filters that each hold a frequency of the transform ({n_fft} points at {rate} Hz), "
            f"found {empty} of {bins} without one. Take fewer bins."
        )
    return filters.float()


def trim(waveform: Tensor) -> Tensor:
    """The waveform without the quiet at both ends, but for 0.1 s of it.

    Loudness is measured in decibels over 50 ms, every 10 ms. Quiet is what lies in the lower third between the
    level that a tenth of the clip stays under and its loudest moment.

    Args:
        waveform: (samples,), 16 kHz.

    Returns:
        A part of it, never empty unless the waveform is; all of it when nothing stands out.
    """
    if len(waveform) < _LOUDNESS:
        return waveform
    power = avg_pool1d(waveform.float().square()[None, None], _LOUDNESS, HOP)[0, 0]
    loudest = power.max()
    if not bool(loudest > 0):
        return waveform
    level = power.maximum(loudest * _RANGE).log()
    quiet = level.quantile(0.1)
    loud = (level > quiet + (level.max() - quiet) / 3).nonzero()[:, 0]
    if len(loud) == 0:
        return waveform
    start = int(loud[0]) * HOP - _EDGE
    end = int(loud[-1]) * HOP + _LOUDNESS + _EDGE
    return waveform[max(0, start) : end]
