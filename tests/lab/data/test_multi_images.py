"""Two images on one canvas: made of what they say, used evenly, the same bytes for ever."""

import hashlib
import re

import numpy as np
import pytest
import torch

from ferero.errors import InputError
from ferero_lab.data import fashion_mnist, mnist, multi_images, unit_range

from .conftest import idx, write

PARTS = ("train", "validation", "test")


def tensors(part):
    return part.images, part.labels, part.sources


def same(left, right):
    return all(torch.equal(a, b) for a, b in zip(tensors(left), tensors(right), strict=True))


def digest(data):
    content = b"".join(some.numpy().tobytes() for part in PARTS for some in tensors(getattr(data, part)))
    return hashlib.sha256(content).hexdigest()


def overlaid(one, two):
    """The same picture, pixel by pixel."""
    canvas = np.zeros((36, 36), np.uint8)
    for row in range(36):
        for column in range(36):
            top_left = one[row, column] if row < 28 and column < 28 else 0
            bottom_right = two[row - 8, column - 8] if row >= 8 and column >= 8 else 0
            canvas[row, column] = max(int(top_left), int(bottom_right))
    return canvas


def test_the_original_images_are_read(tiny_images):
    for both in (mnist(tiny_images), fashion_mnist(tiny_images)):
        for some, count in zip(both, (40, 20), strict=True):
            assert len(some) == count
            assert some.images.shape == (count, 28, 28)
            assert some.images.dtype == torch.uint8
            assert some.labels.tolist() == [i % 10 for i in range(count)]
    assert not torch.equal(mnist(tiny_images)[0].images, fashion_mnist(tiny_images)[0].images)


@pytest.mark.parametrize("kind", ["mnist", "fashion", "fashion-mnist"])
def test_images_are_their_sources_on_one_canvas(tiny_images, kind):
    data = multi_images(kind, tiny_images, 90, 30, validation=45)
    first = fashion_mnist(tiny_images) if kind == "fashion" else mnist(tiny_images)
    second = mnist(tiny_images) if kind == "mnist" else fashion_mnist(tiny_images)
    for part, count in zip(PARTS, (90, 45, 30), strict=True):
        some = getattr(data, part)
        one, two = (both[part == "test"] for both in (first, second))
        assert some.images.shape == (count, 1, 36, 36)
        assert some.images.dtype == torch.uint8
        assert some.labels.dtype == some.sources.dtype == torch.int64
        for image, labels, (i, j) in zip(some.images[:5, 0], some.labels, some.sources, strict=False):
            assert np.array_equal(image.numpy(), overlaid(one.images[i].numpy(), two.images[j].numpy()))
            assert labels.tolist() == [one.labels[i], two.labels[j]]


def test_the_seed_decides_and_nothing_else(tiny_images):
    before = torch.random.get_rng_state()
    data = multi_images("mnist", tiny_images, 90, 30, seed=3)
    assert digest(data) == digest(multi_images("mnist", tiny_images, 90, 30, seed=3))
    other = multi_images("mnist", tiny_images, 90, 30, seed=4)
    assert not same(data.train, other.train)
    assert not same(data.test, other.test)
    assert torch.equal(before, torch.random.get_rng_state())


def test_the_bytes_are_pinned(tiny_images):
    data = multi_images("fashion-mnist", tiny_images, 90, 30, validation=10)
    assert digest(data) == "12b9009b8ab9714cbae07b0771140dc46b3085590a83eadf00bfa23d4a1699d7"


def test_fewer_images_are_the_first_of_more(tiny_images):
    many, few = multi_images("mnist", tiny_images, 100, 50), multi_images("mnist", tiny_images, 30, 20)
    for part in ("train", "test"):
        some = getattr(few, part)
        assert all(
            torch.equal(a, b[: len(some)]) for a, b in zip(tensors(some), tensors(getattr(many, part)), strict=True)
        )


def test_test_images_do_not_change_with_the_other_parts(tiny_images):
    assert same(
        multi_images("mnist", tiny_images, 100, 50).test, multi_images("mnist", tiny_images, 30, 50, validation=9).test
    )


@pytest.mark.parametrize(("train", "test"), [(80, 40), (95, 30), (7, 3)])
def test_every_source_is_used_equally_often(tiny_images, train, test):
    data = multi_images("fashion-mnist", tiny_images, train, test)
    for part, size in ((data.train, 40), (data.test, 20)):
        for column in part.sources.T:
            used = torch.bincount(column, minlength=size)
            assert len(used) == size
            assert used.max() - used.min() <= 1
    assert len(data.train.sources.unique(dim=0)) > 0.8 * train  # pairs differ between passes


@pytest.mark.parametrize("kind", ["mnist", "fashion-mnist"])
def test_validation_has_its_own_sources(tiny_images, kind):
    data = multi_images(kind, tiny_images, 90, 30, validation=30)
    columns = [data.train.sources, data.validation.sources]
    if kind == "mnist":  # then also across the two places
        train, validation = (set(some.flatten().tolist()) for some in columns)
        assert train.isdisjoint(validation)
    for train, validation in zip(columns[0].T.tolist(), columns[1].T.tolist(), strict=True):
        assert (len(set(train)), len(set(validation))) == (30, 10)
        assert set(train) | set(validation) == set(range(40))


def test_no_validation_unless_asked_for(tiny_images):
    empty = multi_images("mnist", tiny_images, 10, 5).validation
    assert len(empty) == 0
    assert empty.images.shape == (0, 1, 36, 36)
    assert empty.labels.shape == (0, 2)


def test_unit_range():
    images = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    floats = unit_range(images)
    assert floats.dtype == torch.float32
    assert torch.equal(floats.flatten() * 255, torch.arange(256.0))
    assert unit_range(floats) is floats


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kind": "cifar"}, "kind: expected one of mnist, fashion, fashion-mnist, found 'cifar'."),
        ({"train": 0}, "train: expected at least 1 image, found 0."),
        ({"test": -1}, "test: expected at least 1 image, found -1."),
        ({"validation": -1}, "validation: expected at least 0 images, found -1."),
        ({"seed": -1}, "seed: expected an integer from 0, found -1."),
        ({"train": 1000, "validation": 1}, "validation: expected a share of the 40 source images that leaves some"),
        ({"train": 1, "validation": 1000}, "validation: expected a share of the 40 source images that leaves some"),
    ],
)
def test_what_cannot_be_made_is_refused(tiny_images, options, text):
    with pytest.raises(InputError, match=re.escape(text)):
        multi_images(**({"kind": "mnist", "folder": tiny_images, "train": 9, "test": 9} | options))


@pytest.mark.parametrize(
    ("name", "array", "text"),
    [
        ("images-idx3", np.zeros((40, 27, 28), np.uint8), "expected images of 28x28 pixels, found (27, 28)."),
        ("labels-idx1", np.zeros(39, np.uint8), "and at least one, found 39 labels and 40 images."),
        ("labels-idx1", np.full(40, 10, np.uint8), "expected labels from 0 to 9, found 10."),
    ],
)
def test_files_that_do_not_belong_together_are_refused(tiny_images, register, name, array, text):
    path = f"mnist/train-{name}-ubyte.gz"
    register(path, idx(array))
    write(tiny_images, path, idx(array))
    with pytest.raises(InputError, match=re.escape(text)):
        mnist(tiny_images)
