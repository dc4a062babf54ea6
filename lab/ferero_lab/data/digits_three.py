"""Three losses on single digits, of which one cannot reach zero: a small problem that needs real trade-offs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ferero.errors import InputError
from ferero_lab.data.digits import COUNT, digits
from ferero_lab.data.label_noise import check_share, wrong_labels
from ferero_lab.data.seeding import seeded
from ferero_lab.data.splits import Labelled, Splits

__all__ = ["CLASSES", "ThreeNet", "digits_three"]

CLASSES = (10, 2, 2)
"""How many classes each task has: which digit, odd or even, five or more."""


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
    check_share("noise", noise)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(COUNT, generator=generator)
    images, digit = digits()
    labels = torch.stack([digit, digit % 2, (digit >= 5).long()], dim=1)
    parts = [
        Labelled(images[own, None], labels[own], own[:, None]) for own in torch.split(order, [train, validation, test])
    ]
    parts[0].labels[:, 1] = wrong_labels(parts[0].labels[:, 1], noise, classes=2, generator=generator)
    return Splits(*parts)


class ThreeNet(nn.Module):
    """One hidden layer of tanh units that all three tasks share, and one linear head a task.

    Args:
        hidden: the number of shared hidden units.
        seed: of the first parameters.

    Raises:
        InputError: for fewer than one hidden unit.
    """

    def __init__(self, hidden: int = 6, *, seed: int = 0) -> None:
        if hidden < 1:
            raise InputError(f"hidden: expected a positive integer, found {hidden}.")
        super().__init__()
        with seeded(seed):
            self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), nn.Tanh())
            self.heads = nn.ModuleList(nn.Linear(hidden, classes) for classes in CLASSES)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits (n, 10), (n, 2) and (n, 2) of images (n, 1, 8, 8)."""
        features = self.body(images)
        digit, odd, large = (head(features) for head in self.heads)
        return digit, odd, large
