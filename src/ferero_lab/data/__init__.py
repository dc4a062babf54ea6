"""Small data sets and networks whose tasks compete, so that what a training method does with a preference shows."""

from __future__ import annotations

from ferero_lab.data.batches import batches
from ferero_lab.data.digit_models import LeNet, PairNet, cross_entropies
from ferero_lab.data.digit_pairs import digit_pairs
from ferero_lab.data.digits_three import ThreeNet, digits_three
from ferero_lab.data.splits import Labelled, Splits

__all__ = [
    "Labelled",
    "LeNet",
    "PairNet",
    "Splits",
    "ThreeNet",
    "batches",
    "cross_entropies",
    "digit_pairs",
    "digits_three",
]
