"""Another tempo and another pitch: every frame and bin where the factors say, and nothing of the neighbours."""

import re

import pytest
import torch

from ferero.errors import InputError
from ferero_lab.speech.warp import warp


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def factors(n, tempo, pitch, seed=0):
    """The two factors of each utterance, in the order in which they are drawn."""
    drawn = 2 * torch.rand(2, n, generator=generator(seed)).double() - 1
    return (1 + tempo * drawn[0]).tolist(), (1 + pitch * drawn[1]).tolist()


def speech(lengths, frames, bins=8, seed=1):
    features = torch.randn(len(lengths), frames, bins, generator=generator(seed))
    for row, length in enumerate(lengths):
        features[row, length:] = 0
    return features, torch.tensor(lengths, dtype=torch.int64)


def test_nothing_changes_without_a_change():
    features, lengths = speech([1, 7, 30, 300], 300, bins=80)
    same, new = warp(features, lengths, generator(), tempo=0.0, pitch=0.0)
    torch.testing.assert_close(same, features, atol=2e-4, rtol=0)
    assert torch.equal(new, lengths)
    assert new.dtype == lengths.dtype


@pytest.mark.parametrize("seed", range(4))
def test_a_slope_in_time_and_frequency_is_read_off_where_the_factors_say(seed):
    lengths, frames, bins = [*range(1, 101, 2), 100], 100, 12
    features = torch.zeros(len(lengths), frames, bins)
    for row, length in enumerate(lengths):
        features[row, :length] = 1 + torch.arange(length)[:, None] + 1000 * torch.arange(bins)
    found, new = warp(features, torch.tensor(lengths), generator(seed), tempo=0.3, pitch=0.2)
    slower, higher = factors(len(lengths), 0.3, 0.2, seed=seed)
    assert new.tolist() == [max(1, int(length * a)) for length, a in zip(lengths, slower, strict=True)]
    for row, (length, count) in enumerate(zip(lengths, new.tolist(), strict=True)):
        frame = (torch.arange(count) / slower[row]).clamp(max=length - 1)
        place = (torch.arange(bins) / higher[row]).clamp(max=bins - 1)
        expected = 1 + frame[:, None] + 1000 * place
        torch.testing.assert_close(found[row, :count], expected, atol=0.02, rtol=1e-5)
        assert not found[row, count:].any()


def test_padding_and_mates_do_not_matter():
    features, lengths = speech([40, 90, 13], 90)
    together, new = warp(features, lengths, generator(2))
    drawn = torch.rand(2, 3, generator=generator(2))
    for row, length in enumerate(lengths.tolist()):
        alone = features[row : row + 1, :length]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "rand", lambda *_, row=row, **__: drawn[:, row : row + 1])
            one, count = warp(alone, lengths[row : row + 1], generator())
        assert count == new[row]
        torch.testing.assert_close(together[row, : int(count)], one[0, : int(count)], atol=2e-4, rtol=0)
    features[0, 40:] = 7.0
    again, _ = warp(features, lengths, generator(2))
    torch.testing.assert_close(again, together, atol=2e-4, rtol=0)


def test_the_generator_decides_within_the_shares():
    features, lengths = speech([100] * 500, 100, bins=2)
    one, two = (warp(features, lengths, generator(3), tempo=0.2) for _ in range(2))
    assert torch.equal(one[0], two[0])
    assert torch.equal(one[1], two[1])
    assert not torch.equal(one[1], warp(features, lengths, generator(4), tempo=0.2)[1])
    assert 79 <= one[1].min() < 84
    assert 116 < one[1].max() <= 120
    assert one[1].float().mean() == pytest.approx(99.5, abs=2)
    assert one[0].shape[1] <= 120


@pytest.mark.parametrize(("lengths", "frames"), [([], 10), ([0], 5), ([1], 1), ([0, 1, 2], 2), ([0], 0), ([], 0)])
@pytest.mark.parametrize("bins", [1, 8])
def test_very_short_utterances(lengths, frames, bins):
    for seed in range(5):
        features, before = speech(lengths, frames, bins)
        found, new = warp(features, before, generator(seed), tempo=0.9, pitch=0.9)
        assert found.isfinite().all()
        assert found.shape[::2] == (len(lengths), bins)
        assert [bool(n) for n in new] == [bool(n) for n in lengths]
        assert (new <= found.shape[1]).all()
        for row, count in enumerate(new.tolist()):
            assert not found[row, count:].any()


def test_inputs_are_left_as_they_are():
    features, lengths = speech([9, 20], 20)
    kept, count = features.clone(), lengths.clone()
    warp(features, lengths, generator())
    assert torch.equal(features, kept)
    assert torch.equal(lengths, count)


@pytest.mark.parametrize(("name", "share"), [("tempo", 1.0), ("tempo", -0.1), ("pitch", 1.5), ("pitch", float("nan"))])
def test_shares_are_checked(name, share):
    features, lengths = speech([9], 9)
    with pytest.raises(InputError, match=re.escape(f"{name}: expected a share in [0, 1), found {share}.")):
        warp(features, lengths, generator(), **{name: share})
