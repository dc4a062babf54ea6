"""Data sets and networks whose tasks compete, so that what a training method does with a preference shows."""

from __future__ import annotations

from ferero_lab.data.adult import Census, CensusPart, adult, adult_like
from ferero_lab.data.batches import batches
from ferero_lab.data.digit_models import LeNet, PairNet, ThreeNet, cross_entropies
from ferero_lab.data.digits import digit_pairs, digits_three
from ferero_lab.data.emotions import Emotions, Songs, emotions, emotions_like
from ferero_lab.data.files import DownloadError, find_file
from ferero_lab.data.german import german
from ferero_lab.data.mnist import Originals, fashion_mnist, mnist
from ferero_lab.data.multi_images import multi_images, unit_range
from ferero_lab.data.splits import Labelled, Splits

__all__ = [
    "Census",
    "CensusPart",
    "DownloadError",
    "Emotions",
    "Labelled",
    "LeNet",
    "Originals",
    "PairNet",
    "Songs",
    "Splits",
    "ThreeNet",
    "adult",
    "adult_like",
    "batches",
    "cross_entropies",
    "digit_pairs",
    "digits_three",
    "emotions",
    "emotions_like",
    "fashion_mnist",
    "find_file",
    "german",
    "mnist",
    "multi_images",
    "unit_range",
]
