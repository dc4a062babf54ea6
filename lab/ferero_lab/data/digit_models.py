"""Networks for the tasks on digits: a body that the tasks share, and one head of logits for each.

LeNet's convolutions can be computed as patches, so that many small networks at once keep a GPU busy. `torch.vmap`
turns the convolutions of K networks into one of K groups, for which there are no fast kernels. As a product of the
kernel with shifted copies of the image it is an ordinary batched matrix product, and with `torch.compile` the copies
are never seen again: together they halve the time of 25 networks (docs/experiments.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ferero.errors import InputError
from ferero_lab.data.digits import CANVAS, CLASSES
from ferero_lab.data.seeding import seeded

__all__ = ["LeNet", "PairNet", "PatchConv2d", "PatchPool2d", "ThreeNet", "cross_entropies"]


class _SharedBody(nn.Module):
    """``logits_i = head_i(body(images))`` for tasks i = 1, ..., m.

    Attributes:
        body: images (n, 1, height, width) to features (n, width).
        heads: one linear layer a task.
    """

    def __init__(self, body: nn.Module, width: int, tasks: int) -> None:
        super().__init__()
        self.body = body
        self.heads = nn.ModuleList(nn.Linear(width, 10) for _ in range(tasks))

    def forward(self, images: Tensor) -> Tensor:
        """Logits (m, n, 10) of images (n, 1, height, width)."""
        features = self.body(images)
        return torch.stack([head(features) for head in self.heads])


class PairNet(_SharedBody):
    """One hidden layer of tanh units that the tasks of ``digit_pairs`` share: narrow, so that they compete for it.

    With ReLU units some die at this width, and a task is given up by chance rather than by its weight.

    Args:
        hidden: the number of shared hidden units.
        tasks: the number of heads.
        seed: of the first parameters.

    Raises:
        InputError: for a number below 1.
    """

    def __init__(self, hidden: int = 8, *, tasks: int = 2, seed: int = 0) -> None:
        _check_positive("hidden", hidden)
        _check_positive("tasks", tasks)
        with seeded(seed):
            super().__init__(nn.Sequential(nn.Flatten(), nn.Linear(CANVAS**2, hidden), nn.Tanh()), hidden, tasks)


class LeNet(_SharedBody):
    """The paper's network for images of 36x36 pixels.

    Convolution 1 -> 10 of 9x9, ReLU, max-pool 2; convolution 10 -> 20 of 5x5, ReLU, max-pool 2; linear 500 -> 50,
    ReLU; one linear layer 50 -> 10 for each task.

    Args:
        tasks: the number of heads.
        seed: of the first parameters.
        patches: compute it by `PatchConv2d` and `PatchPool2d`, which is faster for many at once on a GPU and slower
            otherwise; parameters and their names are the same.

    Raises:
        InputError: for fewer than one task.
    """

    def __init__(self, tasks: int = 2, *, seed: int = 0, patches: bool = False) -> None:
        _check_positive("tasks", tasks)
        with seeded(seed):
            convolution, pool = (PatchConv2d, PatchPool2d) if patches else (nn.Conv2d, partial(nn.MaxPool2d, 2))
            body = nn.Sequential(
                convolution(1, 10, 9),
                nn.ReLU(),
                pool(),
                convolution(10, 20, 5),
                nn.ReLU(),
                pool(),
                nn.Flatten(),
                nn.Linear(500, 50),
                nn.ReLU(),
            )
            super().__init__(body, 50, tasks)
        self._has_patches = patches

    def forward(self, images: Tensor) -> Tensor:
        """Logits (m, n, 10) of images (n, 1, 36, 36)."""
        if not self._has_patches:
            return super().forward(images)
        body: Any = self.body
        features = body[6:](body[:6](images.transpose(0, 1)).transpose(0, 1))
        return torch.stack([head(features) for head in self.heads])


class ThreeNet(nn.Module):
    """One hidden layer of tanh units that all three tasks share, and one linear head a task.

    Args:
        hidden: the number of shared hidden units.
        seed: of the first parameters.

    Raises:
        InputError: for fewer than one hidden unit.
    """

    def __init__(self, hidden: int = 6, *, seed: int = 0) -> None:
        _check_positive("hidden", hidden)
        super().__init__()
        with seeded(seed):
            self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), nn.Tanh())
            self.heads = nn.ModuleList(nn.Linear(hidden, classes) for classes in CLASSES)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits (n, 10), (n, 2) and (n, 2) of images (n, 1, 8, 8)."""
        features = self.body(images)
        digit, odd, large = (head(features) for head in self.heads)
        return digit, odd, large


class PatchConv2d(nn.Conv2d):
    """`torch.nn.Conv2d` with stride 1 and no padding, on images with the channels first: (c, n, h, w)."""

    def forward(self, images: Tensor) -> Tensor:
        """(channels in, n, height, width) to (channels out, n, height - k + 1, width - k + 1)."""
        channels, n, height, width = images.shape
        tall, wide = self.kernel_size
        h, w = height - tall + 1, width - wide + 1
        shifted = [images[:, :, i : i + h, j : j + w] for i in range(tall) for j in range(wide)]
        patches = torch.stack(shifted, dim=1).reshape(channels * tall * wide, n * h * w)
        product = self.weight.reshape(self.out_channels, -1) @ patches
        if self.bias is not None:
            product = product + self.bias[:, None]
        return product.reshape(self.out_channels, n, h, w)


class PatchPool2d(nn.Module):
    """Max-pooling over squares of 2x2, by the largest of four; after a ReLU its gradient is that of `nn.MaxPool2d`."""

    def forward(self, images: Tensor) -> Tensor:
        """(..., height, width), both even, to half of each."""
        height, width = images.shape[-2:]
        squares = images.reshape(*images.shape[:-2], height // 2, 2, width // 2, 2)
        return squares.amax(dim=(-3, -1))


def cross_entropies(logits: Tensor | Sequence[Tensor], labels: Tensor) -> Tensor:
    """The mean cross-entropy of each task, ``f_i = -mean_j log softmax(logits_ij)[labels_ji]``.

    Args:
        logits: (m, n, classes), or m tensors (n, classes_i).
        labels: int64, (n, m).

    Returns:
        The losses (m,).

    Raises:
        InputError: when logits and labels do not belong together.
    """
    if len(logits) == 0:
        raise InputError("logits: expected m tensors (n, classes), found none. Pass one for each task.")
    expected = (len(logits[0]), len(logits))
    if labels.shape != expected:
        raise InputError(
            f"labels: expected (n, m) = {expected} to go with the logits, found {tuple(labels.shape)}. "
            "Pass one row for each example and one column for each task."
        )
    return torch.stack([functional.cross_entropy(task, column) for task, column in zip(logits, labels.T, strict=True)])


def _check_positive(argument: str, number: int) -> None:
    if number < 1:
        raise InputError(f"{argument}: expected a positive integer, found {number}.")
