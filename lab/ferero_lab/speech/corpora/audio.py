"""From the bytes of an audio file to samples, and back."""

from __future__ import annotations

import io
from math import gcd
from types import ModuleType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ferero.errors import InputError, MissingExtraError
from ferero_lab.speech.corpora.corpus import Utterance

__all__ = ["RATE", "AudioError", "wav_bytes", "waveform"]

RATE = 16_000
"""Samples a second of every waveform."""

_LARGEST = 1e6  # samples are within -1 and 1, or whole numbers of 16 bits; beyond this the spectrum's powers overflow
_UNKNOWN_LENGTH = 2**31 - 2**16  # what writers put into a WAV's head who do not know how long it will be


class AudioError(InputError):
    """A recording cannot be read, or holds no sound."""


def waveform(utterance: Utterance) -> Tensor:
    """The samples of a recording: float32, (samples,), one channel, 16,000 a second.

    Several channels are averaged; another rate is resampled with a polyphase filter.

    Args:
        utterance: in any format that soundfile reads.

    Raises:
        AudioError: when the file cannot be opened, is empty, damaged or cut off, has no samples, or has samples that
            are NaN, infinite or beyond a million. The message names the utterance.
        MissingExtraError: without soundfile; it comes with ``ferero-lab[speech]``.
    """
    soundfile = _soundfile()
    name = utterance.name
    try:
        data = utterance.read()
    except OSError as error:
        raise AudioError(f"{name}: expected an audio file, found none to read ({error.strerror}).") from None
    if not data:
        raise AudioError(f"{name}: expected an audio file, found an empty one.")
    _check_whole(name, data)
    try:
        samples, rate = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    except soundfile.SoundFileError as error:
        raise AudioError(
            f"{name}: expected audio that soundfile reads, found {len(data)} bytes that it does not "
            f"({str(getattr(error, 'error_string', error)).removeprefix('Error : ').rstrip('.')})."
        ) from None
    if not len(samples):
        raise AudioError(f"{name}: expected sound, found an audio file with no samples.")
    if not np.abs(samples).max() < _LARGEST:
        raise AudioError(f"{name}: expected samples between -1 and 1, found NaN, infinite or huge ones.")
    return torch.from_numpy(_resampled(samples.mean(axis=1), rate))


def wav_bytes(samples: NDArray[np.floating], rate: int = RATE) -> bytes:
    """A WAV file of 16 bits with these samples, (samples,) or (samples, channels), between -1 and 1.

    Raises:
        MissingExtraError: without soundfile; it comes with ``ferero-lab[speech]``.
    """
    file = io.BytesIO()
    _soundfile().write(file, samples, rate, format="WAV", subtype="PCM_16")
    return file.getvalue()


def _check_whole(name: str, data: bytes) -> None:
    """Raises AudioError for a WAV file that was cut off, which soundfile reads as a shorter recording."""
    if data[:4] != b"RIFF":
        return
    promised = 8 + int.from_bytes(data[4:8], "little")
    if len(data) < promised < _UNKNOWN_LENGTH:
        raise AudioError(f"{name}: expected a whole WAV file of {promised} bytes, found the first {len(data)}.")


def _resampled(samples: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
    if rate == RATE:
        return np.ascontiguousarray(samples)
    from scipy.signal import resample_poly  # takes a while to import, and most corpora need none of it

    common = gcd(RATE, rate)
    return np.asarray(resample_poly(samples, RATE // common, rate // common), dtype=np.float32)


def _soundfile() -> ModuleType:
    try:
        import soundfile  # type: ignore[import-untyped]
    except (ImportError, OSError):  # OSError: the package is there and libsndfile is not
        raise MissingExtraError(
            'speech: soundfile, which reads the recordings, is not installed; pip install "ferero-lab[speech]".'
        ) from None
    return soundfile  # type: ignore[no-any-return]
