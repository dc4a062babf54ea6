"""Convolution and pooling written so that many small networks at once keep a GPU busy.

`torch.vmap` turns the convolutions of K networks into one of K groups, for which there are no fast kernels. As a
product of the kernel with shifted copies of the image it is an ordinary batched matrix product, and with
`torch.compile` the copies are never seen again: together they halve the time of 25 networks (docs/experiments.md).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["PatchConv2d", "PatchPool2d"]


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
