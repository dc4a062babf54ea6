"""The true files, where FERERO_DATA names a folder that has them: their counts are the published ones."""

import os
from pathlib import Path

import pytest
import torch

from ferero_lab.data import adult, emotions, fashion_mnist, mnist, multi_images
from ferero_lab.data.registry import FILES

FOLDER = os.environ.get("FERERO_DATA", "")


def needs(data_set):
    names = [file.spellings for name, file in FILES.items() if name.startswith(f"{data_set}/")]
    there = FOLDER and all(any((Path(FOLDER) / data_set / name).is_file() for name in some) for some in names)
    return pytest.mark.skipif(not there, reason=f"FERERO_DATA names no folder with {data_set}")


@needs("mnist")
@needs("fashion-mnist")
def test_images():
    digits, articles = mnist(), fashion_mnist()
    for both in (digits, articles):
        assert [tuple(some.images.shape) for some in both] == [(60_000, 28, 28), (10_000, 28, 28)]
    published = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert torch.bincount(digits[0].labels).tolist() == published
    assert torch.bincount(articles[0].labels).tolist() == [6000] * 10
    assert torch.bincount(articles[1].labels).tolist() == [1000] * 10


@needs("mnist")
@needs("fashion-mnist")
def test_multi_images():
    data = multi_images("fashion-mnist", train=60_000, test=10_000)
    assert data.train.images.shape == (60_000, 1, 36, 36)
    assert data.test.images.shape == (10_000, 1, 36, 36)
    assert torch.bincount(data.train.labels[:, 1]).tolist() == [6000] * 10
    assert torch.bincount(data.test.labels[:, 1]).tolist() == [1000] * 10


@needs("emotions")
def test_emotions():
    data = emotions()
    assert data.train.features.shape == (391, 72)
    assert data.test.features.shape == (202, 72)
    both = torch.cat([data.train.labels, data.test.labels])
    assert both.sum(0).tolist() == [173, 166, 264, 148, 168, 189]


@needs("adult")
def test_adult():
    data = adult()
    assert [len(part) for part in (data.train, data.validation, data.test)] == [26_049, 6_512, 16_281]
    assert data.train.labels.sum() + data.validation.labels.sum() == 7841
    assert data.test.labels.sum() == 3846
    assert data.test.features.shape[1] == len(data.feature_names) == 108
    rates = [data.test.labels[data.test.groups == group].mean().item() for group in (0, 1)]
    assert rates == pytest.approx([0.109, 0.300], abs=1e-3)
