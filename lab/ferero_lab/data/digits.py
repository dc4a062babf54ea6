"""The 1,797 handwritten digits of 8x8 pixels that scikit-learn carries: no download, so every test can train.

`digit_pairs` puts two on one canvas, as Multi-MNIST does; `digits_three` asks three things of each. Labels that are
wrong on purpose keep a loss away from zero, so that tasks go on competing.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ferero.errors import InputError, MissingExtraError
from ferero_lab.data.splits import Labelled, Splits

__all__ = ["CANVAS", "CLASSES", "COUNT", "digit_pairs", "digits", "digits_three", "wrong_labels"]

COUNT = 1797

CANVAS = 12
"""Height and width of an image in pixels: two digits of 8x8 overlap in a square of 4x4."""

CLASSES = (10, 2, 2)
"""How many classes each task has: which digit, odd or even, five or more."""


def digits() -> tuple[Tensor, Tensor]:
    """All digits in scikit-learn's order.

    Returns:
        The images, float32 in [0, 1], (1797, 8, 8), and which digit each shows, int64, (1797,).

    Raises:
        MissingExtraError: without scikit-learn; it comes with ``ferero-lab``.
    """
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError(
            "digits: scikit-learn is not installed; it comes with pip install ferero-lab."
        ) from None
    images, labels = load_digits(return_X_y=True)
    return (
        torch.from_numpy(np.asarray(images, dtype=np.float32) / 16).reshape(-1, 8, 8),
        torch.from_numpy(np.asarray(labels, dtype=np.int64)),
    )


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
        _check_share("noise", share)

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


def digits_three(validation: int = 297, test: int = 300, noise: float = 0.15, seed: int = 0) -> Splits:
    """Single digits with three tasks: which digit, whether it is odd, whether it is five or more.

    Args:
        validation: the number of validation images.
        test: the number of test images; of the 1,797 digits the rest is for training.
        noise: the share of training labels for odd or even that is wrong.
        seed: the same seed gives the same data.

    Returns:
        Images (n, 1, 8, 8), labels (n, 3) and sources (n, 1), the indices of the digits, in three parts.

    Raises:
        InputError: for counts that leave nothing to one of the parts, or a share of noise outside [0, 1).
        MissingExtraError: without scikit-learn.

    Example:
        >>> digits_three().train.labels.shape
        torch.Size([1200, 3])
    """
    train = COUNT - validation - test
    if min(train, validation, test) < 1:
        raise InputError(
            f"validation, test: expected positive numbers of images with a sum below {COUNT}, "
            f"found {validation} and {test}."
        )
    _check_share("noise", noise)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(COUNT, generator=generator)
    images, digit = digits()
    labels = torch.stack([digit, digit % 2, (digit >= 5).long()], dim=1)
    parts = [
        Labelled(images[own, None], labels[own], own[:, None]) for own in torch.split(order, [train, validation, test])
    ]
    parts[0].labels[:, 1] = wrong_labels(parts[0].labels[:, 1], noise, classes=2, generator=generator)
    return Splits(*parts)


def wrong_labels(labels: Tensor, share: float, *, classes: int, generator: torch.Generator) -> Tensor:
    """A copy of the labels (n,) in which round(share n) are another class, each other class equally likely.

    What is drawn does not depend on the share, so a larger share only adds wrong labels to those of a smaller one.
    """
    n = len(labels)
    places = torch.randperm(n, generator=generator)
    shifts = torch.randint(1, classes, (n,), generator=generator)
    chosen = places[: round(share * n)]
    noisy = labels.clone()
    noisy[chosen] = (labels[chosen] + shifts[chosen]) % classes
    return noisy


def _check_share(argument: str, share: float) -> None:
    """Raises InputError unless the share of wrong labels is in [0, 1)."""
    if not 0 <= share < 1:
        raise InputError(f"{argument}: expected a share of wrong labels in [0, 1), found {share}. Pass 0 for none.")
