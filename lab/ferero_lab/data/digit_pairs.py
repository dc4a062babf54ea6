"""Pairs of small digits on one canvas: the two tasks of Multi-MNIST at a size that trains in seconds on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor

from ferero.errors import InputError
from ferero_lab.data.digits import COUNT, digits
from ferero_lab.data.label_noise import check_share, wrong_labels
from ferero_lab.data.splits import Labelled, Splits

__all__ = ["CANVAS", "digit_pairs"]

CANVAS = 12
"""Height and width of an image in pixels: two digits of 8x8 overlap in a square of 4x4."""


def digit_pairs(
    train: int = 4096,
    validation: int = 1024,
    test: int = 1024,
    noise: tuple[float, float] = (0.02, 0.02),
    seed: int = 0,
) -> Splits:
    """Two digits an image: task 1 reads the one at the top left, task 2 the one at the bottom right.

    Where the digits overlap the brighter pixel shows. The 1,797 digits are dealt to the three parts first, 3 : 1 : 1,
    and pairs are drawn uniformly within a part, so that no digit of one part occurs in another. Which digits a part
    owns depends on the seed alone; validation and test images do not change with ``train``, and images do not change
    with ``noise``.

    The defaults of this function and of ``PairNet`` go together: with fixed weights neither training loss comes below
    0.14, and weights of (0.9, 0.1) to (0.1, 0.9) spread the losses (f_1, f_2) over angles of 78 to 11 degrees or more
    (5,000 steps of batch 128, SGD at 0.03 to 0.3 and Adam at 0.001 to 0.01).

    Args:
        train: the number of training images.
        validation: the number of validation images.
        test: the number of test images.
        noise: for each task, the share of its training labels that is replaced by another digit, uniformly.
        seed: the same seed gives the same data.

    Returns:
        Images (n, 1, 12, 12), labels (n, 2) and sources (n, 2), the indices of the two digits, in three parts.

    Raises:
        InputError: for a count below 1 or a share of noise outside [0, 1).
        MissingExtraError: without scikit-learn.

    Example:
        >>> data = digit_pairs(train=100, seed=1)
        >>> data.train.images.shape, data.train.labels.shape
        (torch.Size([100, 1, 12, 12]), torch.Size([100, 2]))
    """
    for argument, count in (("train", train), ("validation", validation), ("test", test)):
        if count < 1:
            raise InputError(f"{argument}: expected a positive number of images, found {count}.")
    if len(noise) != 2:
        raise InputError(f"noise: expected two shares, one for each task, found {noise}.")
    for share in noise:
        check_share("noise", share)

    images, labels = digits()
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(COUNT, generator=generator)
    for_train, for_validation, for_test = torch.split(order, [COUNT - 2 * (COUNT // 5), COUNT // 5, COUNT // 5])
    # The training pairs come last, so that their number does not change the others.
    held_test, held_validation, clean = (
        _pairs(images, labels, owned[torch.randint(len(owned), (count, 2), generator=generator)])
        for owned, count in ((for_test, test), (for_validation, validation), (for_train, train))
    )
    noisy = [
        wrong_labels(column, share, classes=10, generator=generator)
        for column, share in zip(clean.labels.T, noise, strict=True)
    ]
    return Splits(
        train=Labelled(clean.images, torch.stack(noisy, dim=1), clean.sources),
        validation=held_validation,
        test=held_test,
    )


def _pairs(images: Tensor, labels: Tensor, sources: Tensor) -> Labelled:
    top_left, bottom_right = images[sources].unbind(dim=1)
    canvas = torch.zeros(len(sources), 1, CANVAS, CANVAS)
    canvas[:, 0, :8, :8] = top_left
    canvas[:, 0, -8:, -8:] = canvas[:, 0, -8:, -8:].maximum(bottom_right)
    return Labelled(canvas, labels[sources], sources)
