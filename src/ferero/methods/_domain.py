"""Where the multipliers of the order live, and rows applied to losses; for the methods that step without a gramian."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear

from ferero.errors import InputError

__all__ = ["adaptive_domain", "apply_rows"]


def apply_rows(matrix: Tensor, vectors: Tensor, offset: Tensor | None = None) -> Tensor:
    """``M v + b``, (..., k) for M (..., k, m), v (..., m) and b (..., k)."""
    if matrix.ndim == 2 and vectors.ndim == 1:
        return matrix @ vectors if offset is None else torch.addmv(offset, matrix, vectors)
    if matrix.ndim == 2:
        return linear(vectors, matrix, offset)
    product = (matrix @ vectors[..., None])[..., 0]
    return product if offset is None else product + offset


def adaptive_domain(a: Tensor, seen: Tensor | None, used: Tensor) -> tuple[Tensor, Tensor]:
    """The domain of ``a = A F`` (..., k), and its b (...); where all are 0 or unknown, that of equal losses.

    Args:
        a: A F, (..., k).
        seen: Above 0 for losses that are known, (..., m); None for all.
        used: 1 for rows that are no padding, (..., k).

    Raises:
        InputError: A negative entry; looked for on the CPU only.
    """
    b = a.sum(dim=-1)
    if a.device.type == "cpu":
        if float(a.min()) < 0:
            raise InputError(
                f"losses: the adaptive domain needs A F >= 0, found entries from {float(a.min()):.4g}; subtract a "
                'lower bound from the losses or use domain="simplex".'
            )
        if seen is None and bool((b > 0).all()):
            return a, b
    a = a.clamp(min=0)
    a = torch.where((b > 0)[..., None], a, used)
    return a, a.sum(dim=-1)
