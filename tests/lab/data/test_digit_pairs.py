"""Pairs of digits: made of what they say, of images no other part has, with the noise that was asked for."""

import sys
from itertools import combinations

import pytest
import torch

from ferero.errors import InputError, MissingExtraError
from ferero_lab.data import digit_pairs
from ferero_lab.data.digits import digits

SMALL = {"train": 300, "validation": 200, "test": 100}
PARTS = ("train", "validation", "test")


def tensors(data):
    return [getattr(getattr(data, part), name) for part in PARTS for name in ("images", "labels", "sources")]


def same(left, right):
    return [torch.equal(a, b) for a, b in zip(tensors(left), tensors(right), strict=True)]


def test_the_seed_decides():
    before = torch.random.get_rng_state()
    assert all(same(digit_pairs(**SMALL), digit_pairs(**SMALL)))
    assert not any(same(digit_pairs(**SMALL), digit_pairs(**SMALL, seed=1)))
    assert torch.equal(before, torch.random.get_rng_state())


def test_shapes_dtypes_and_ranges():
    data = digit_pairs(**SMALL)
    for part in PARTS:
        some = getattr(data, part)
        n = SMALL[part]
        assert len(some) == n
        assert some.images.shape == (n, 1, 12, 12)
        assert some.images.dtype == torch.float32
        assert some.images.min() == 0
        assert some.images.max() == 1
        assert some.labels.shape == some.sources.shape == (n, 2)
        assert some.labels.dtype == torch.int64
        assert set(some.labels.unique().tolist()) == set(range(10))


def test_no_digit_occurs_in_two_parts():
    data = digit_pairs()
    owned = [set(getattr(data, part).sources.flatten().tolist()) for part in PARTS]
    assert all(left.isdisjoint(right) for left, right in combinations(owned, 2))
    assert len(digits()[0].flatten(1).unique(dim=0)) == 1797  # and no digit is there twice


@pytest.mark.parametrize("part", PARTS)
def test_images_are_their_sources_on_one_canvas(part):
    some = getattr(digit_pairs(**SMALL, noise=(0, 0)), part)
    images, labels = digits()
    assert torch.equal(some.labels, labels[some.sources])
    for image, (one, two) in zip(some.images[:20, 0], some.sources[:20], strict=True):
        assert torch.equal(image[:4, :8], images[one][:4])
        assert torch.equal(image[:8, :4], images[one][:, :4])
        assert torch.equal(image[8:, 4:], images[two][4:])
        assert torch.equal(image[4:, 8:], images[two][:, 4:])
        assert torch.equal(image[4:8, 4:8], images[one][4:, 4:].maximum(images[two][:4, :4]))
        assert not image[:4, 8:].any()
        assert not image[8:, :4].any()


def test_each_task_has_its_own_share_of_wrong_labels():
    clean, noisy = digit_pairs(noise=(0, 0)), digit_pairs(noise=(0.1, 0.35))
    wrong = clean.train.labels != noisy.train.labels
    assert wrong.sum(dim=0).tolist() == [round(0.1 * 4096), round(0.35 * 4096)]
    assert same(clean, noisy) == [True, False] + [True] * 7  # all but the training labels
    shifts = (noisy.train.labels - clean.train.labels)[:, 1][wrong[:, 1]] % 10
    counts = torch.bincount(shifts, minlength=10)
    assert counts[0] == 0
    assert counts[1:].min() > 0.6 * counts[1:].float().mean()  # every other digit about equally often


def test_more_noise_only_adds_wrong_labels_and_leaves_the_other_task_alone():
    clean, some, more = (digit_pairs(**SMALL, noise=noise).train.labels for noise in ((0, 0), (0.1, 0.2), (0.3, 0.2)))
    assert ((some != clean)[:, 0] <= (more != clean)[:, 0]).all()
    assert torch.equal(some[:, 1], more[:, 1])


def test_held_out_parts_do_not_depend_on_the_number_of_training_images():
    few, many = digit_pairs(train=10), digit_pairs(train=1000)
    assert torch.equal(few.test.images, many.test.images)
    assert torch.equal(few.validation.images, many.validation.images)


@pytest.mark.parametrize("argument", PARTS)
def test_counts_are_checked(argument):
    with pytest.raises(InputError, match=f"{argument}: expected a positive number of images, found 0"):
        digit_pairs(**{argument: 0})


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_noise_is_checked(share):
    with pytest.raises(InputError, match=r"noise: expected a share of wrong labels in \[0, 1\), found"):
        digit_pairs(noise=(0.1, share))


def test_noise_is_one_share_a_task():
    with pytest.raises(InputError, match=r"noise: expected two shares, one for each task, found \(0.1,\)"):
        digit_pairs(noise=(0.1,))


def test_without_scikit_learn_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingExtraError, match=r"pip install ferero-lab"):
        digit_pairs(**SMALL)
