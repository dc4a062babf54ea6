"""Log-mel features: the filters, the scale, and the silence around a word."""

import math

import pytest
import torch

from ferero.errors import InputError
from ferero_lab.speech.features import encoder_frames, log_mel, mel_filters, trim


def tone(hertz, seconds=1.0, volume=0.5):
    return volume * torch.sin(2 * math.pi * hertz * torch.arange(int(16000 * seconds)) / 16000)


def noise(seconds, seed=0, volume=0.1):
    return volume * torch.randn(int(16000 * seconds), generator=torch.Generator().manual_seed(seed))


def centre(k, bins=80):
    """The frequency of filter k, by the inverse of the scale: f = 700 (10^(m / 2595) - 1)."""
    top = 2595 * math.log10(1 + 8000 / 700)
    return 700 * (10 ** ((k + 1) * top / (bins + 1) / 2595) - 1)


@pytest.mark.parametrize("bins", [20, 40, 80])
def test_the_filters_add_up_to_one_between_the_first_centre_and_the_last(bins):
    filters = mel_filters(bins, 512, 16000)
    assert filters.shape == (bins, 257)
    assert filters.min() >= 0
    assert filters.max() <= 1
    frequency = torch.arange(257) * 16000 / 512
    between = (frequency >= centre(0, bins)) & (frequency <= centre(bins - 1, bins))
    torch.testing.assert_close(filters.sum(dim=0)[between], torch.ones(int(between.sum())))


def test_the_peaks_are_where_the_inverse_of_the_scale_puts_them():
    fine = mel_filters(80, 2**16, 16000)
    peaks = fine.argmax(dim=1) * 16000 / 2**16
    expected = torch.tensor([centre(k) for k in range(80)])
    assert (peaks - expected).abs().max() <= 16000 / 2**16


def test_a_filter_between_two_frequencies_is_refused():
    with pytest.raises(InputError, match=r"bins: expected filters that each hold .* of 200 without one\. Take fewer"):
        mel_filters(200, 512, 16000)


@pytest.mark.parametrize("hertz", [300, 1000, 2500, 6000])
def test_a_tone_lands_in_the_bin_whose_centre_is_nearest(hertz):
    # Steady noise, with a faint tone in the second half: its bin alone is clearly higher there.
    features = log_mel(noise(4.0) + torch.cat([torch.zeros(32000), tone(hertz, 2.0, volume=0.05)]))
    rise = features[210:390].mean(dim=0) - features[10:190].mean(dim=0)
    nearest = min(range(80), key=lambda k: abs(centre(k) - hertz))
    assert abs(int(rise.argmax()) - nearest) <= 1
    assert rise.max() > 0.8
    assert rise[[k for k in range(80) if abs(k - nearest) > 8]].max() < 0.5


def test_a_bin_has_mean_zero_and_deviation_one_and_there_are_a_hundred_frames_a_second():
    features = log_mel(noise(2.345))
    assert features.shape == (234, 80)
    assert features.dtype == torch.float32
    torch.testing.assert_close(features.mean(dim=0), torch.zeros(80), atol=1e-5, rtol=0)
    torch.testing.assert_close(features.std(dim=0, correction=0), torch.ones(80), atol=1e-5, rtol=0)


@pytest.mark.parametrize("volume", [1e-6, 1e-3, 30.0])
def test_the_volume_does_not_matter(volume):
    sound = noise(1.0) * torch.linspace(0, 1, 16000)
    torch.testing.assert_close(log_mel(sound * volume), log_mel(sound), atol=2e-3, rtol=0)


def test_silence_is_zero_and_a_silent_half_is_finite():
    assert log_mel(torch.zeros(16000)).count_nonzero() == 0
    assert log_mel(torch.cat([torch.zeros(8000), noise(0.5)])).isfinite().all()
    assert log_mel(torch.full((400,), 1e-30)).isfinite().all()


@pytest.mark.parametrize(
    ("sound", "text"),
    [
        (torch.zeros(399), r"waveform: expected \(samples,\) with at least 400 samples, one window, found \(399,\)\."),
        (torch.zeros(1, 800), r"found \(1, 800\)\."),
        (torch.full((800,), math.nan), "waveform: expected finite samples, found NaN or infinity"),
    ],
)
def test_what_is_no_waveform_is_refused(sound, text):
    with pytest.raises(InputError, match=text):
        log_mel(sound)


@pytest.mark.parametrize("frames", range(1, 40))
def test_the_encoder_halves_twice(frames):
    once = (frames - 1) // 2 + 1
    assert encoder_frames(frames) == (once - 1) // 2 + 1
    assert encoder_frames(torch.tensor([frames])).tolist() == [encoder_frames(frames)]


def test_trim_leaves_a_tenth_of_a_second_around_the_word():
    sound = noise(2.0, volume=0.001)
    sound[12000:20000] += tone(500, 0.5)
    trimmed = trim(sound)
    assert 0.65 <= len(trimmed) / 16000 <= 0.85
    kept = (trimmed.square().sum() / sound.square().sum()).item()
    assert kept > 0.999


@pytest.mark.parametrize("sound", [torch.zeros(16000), torch.zeros(10), torch.ones(16000), torch.zeros(0)])
def test_trim_leaves_all_of_what_has_no_word_in_it(sound):
    assert torch.equal(trim(sound), sound)
