"""What is hidden, and where."""

import pytest
import torch

from ferero.errors import InputError
from ferero_lab.speech.augment import blank, fixed_hide, hide
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
