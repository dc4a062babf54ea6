"""What is hidden and where; and another tempo and pitch: every frame and bin where the factors say."""

import re

import pytest
import torch

from ferero.errors import InputError
from ferero_lab.speech.augment import blank, fixed_hide, hide, warp
from ferero_lab.speech.features import encoder_frames

LENGTHS = torch.tensor([1, 4, 28, 29, 32, 33, 60, 99, 100, 101, 199, 200, 201, 640, 1000, 1999])


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def hidden_frames(hidden, row, steps):
    """Row by row and frame by frame: the encoder's frames that are hidden, and those that are anchors."""
    anchors = [int(a) for a, valid in zip(hidden.anchors[row], hidden.valid[row], strict=True) if valid]
    return anchors, [a + step for a in anchors for step in range(1, steps + 1)]


@pytest.mark.parametrize("spacing", [8, 25])
@pytest.mark.parametrize("make", [lambda n, **o: hide(n, generator(1), **o), fixed_hide])
def test_each_part_has_a_stretch_between_seen_frames_inside_the_utterance(make, spacing):
    hidden = make(LENGTHS, spacing=spacing)
    for row, length in enumerate(LENGTHS.tolist()):
        frames = encoder_frames(length)
        anchors, covered = hidden_frames(hidden, row, 6)
        assert len(anchors) == (max(1, frames // spacing) if frames >= 8 else 0)
        assert len(set(covered)) == len(covered)
        assert not set(anchors) & set(covered)
        assert all(a >= 0 and a + 7 <= frames - 1 for a in anchors)
        assert all(a + 7 not in covered for a in anchors)
        for part, anchor in enumerate(anchors):
            first, last = (int(k * frames / len(anchors)) for k in (part, part + 1))
            assert first <= anchor
            assert anchor + 7 <= last - 1
        assert (hidden.negatives[row] >= 0).all()
        assert (hidden.negatives[row] < frames).all()


def test_every_place_is_as_likely_as_another():
    # 25 frames of the encoder leave 25 - 6 - 1 = 18 places for the anchor.
    hidden = hide(torch.full((20000,), 100), generator(), negatives=4)
    places = hidden.anchors[:, 0].bincount(minlength=18)
    assert len(places) == 18
    assert (places / 20000 - 1 / 18).abs().max() < 0.01
    negatives = hidden.negatives.flatten().bincount(minlength=25)
    assert len(negatives) == 25
    assert (negatives / 80000 - 1 / 25).abs().max() < 0.01


def test_bands_are_runs_of_at_most_the_width_and_reach_every_bin():
    hidden = hide(torch.full((4000,), 100), generator(), bands=1, band_width=20)
    counts = hidden.bins.sum(dim=1)
    assert counts.min() == 0
    assert counts.max() == 20
    edges = (hidden.bins[:, 1:] != hidden.bins[:, :-1]).sum(dim=1) + hidden.bins[:, 0] + hidden.bins[:, -1]
    assert set(edges.tolist()) == {0, 2}
    assert hidden.bins.any(dim=0).all()
    assert not hide(LENGTHS, generator(), bands=0).bins.any()


def test_the_generator_decides_and_the_padded_length_may_be_told():
    one, two = hide(LENGTHS, generator(3)), hide(LENGTHS, generator(3), frames=1999)
    for name in ("anchors", "valid", "negatives", "bins"):
        assert torch.equal(getattr(one, name), getattr(two, name))
    assert not torch.equal(one.anchors, hide(LENGTHS, generator(4)).anchors)


def test_fixed_stretches_do_not_depend_on_the_others_of_the_batch():
    together = fixed_hide(LENGTHS)
    assert not together.bins.any()
    for row in range(len(LENGTHS)):
        alone = fixed_hide(LENGTHS[row : row + 1])
        columns = alone.anchors.shape[1]
        assert torch.equal(alone.anchors[0], together.anchors[row, :columns])
        assert torch.equal(alone.valid[0], together.valid[row, :columns])
        assert not together.valid[row, columns:].any()
        assert torch.equal(alone.negatives[0], together.negatives[row])


def test_blank_sets_exactly_the_hidden_frames_and_bins_to_zero():
    hidden = hide(LENGTHS, generator(5))
    features = torch.ones(len(LENGTHS), 1999, 80)
    expected = features.clone()
    for row in range(len(LENGTHS)):
        for frame in hidden_frames(hidden, row, 6)[1]:
            expected[row, 4 * frame : 4 * frame + 4] = 0
        expected[row, :, hidden.bins[row]] = 0
    assert torch.equal(blank(features, hidden), expected)
    assert features.all()


def test_blank_hides_nothing_of_what_is_too_short():
    hidden = fixed_hide(torch.tensor([20]))
    assert not hidden.valid.any()
    assert torch.equal(blank(torch.ones(1, 20, 80), hidden), torch.ones(1, 20, 80))


def test_what_is_hidden_cannot_be_seen_even_as_nan():
    hidden = fixed_hide(torch.tensor([100]))
    first = 4 * (int(hidden.anchors[0, 0]) + 1)
    features = torch.ones(1, 100, 80)
    features[0, first : first + 24] = torch.nan
    assert blank(features, hidden).sum() == 76 * 80


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: hide(LENGTHS, generator(), spacing=7), r"spacing: expected at least steps \+ 2 .* 7 with steps 6\."),
        (lambda: fixed_hide(LENGTHS, steps=0), "found spacing 25 with steps 0"),
        (lambda: hide(LENGTHS, generator(), bins=10), "band_width: expected 0 to 10, the number of bins, found 20"),
    ],
)
def test_arguments_are_checked(call, text):
    with pytest.raises(InputError, match=text):
        call()


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
