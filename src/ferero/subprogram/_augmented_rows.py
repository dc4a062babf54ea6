"""A preference as one block of rows: the order's, the inequalities', the equalities'."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ferero.preference import Preference

__all__ = ["Stacked", "stacked"]


class Stacked(NamedTuple):
    """``A_ag = [A; B_g; B_h]`` with its offsets.

    Attributes:
        matrix: (..., k, m).
        offsets: 0 for the order, then b_g and b_h, (..., k).
        sizes: How many rows each block has.
    """

    matrix: Tensor
    offsets: Tensor
    sizes: tuple[int, int, int]


def stacked(preference: Preference) -> Stacked:
    """The rows of a preference, or of a stack of them, on their own device."""
    p = preference
    return Stacked(
        torch.cat([p.A, p.B_g, p.B_h], dim=-2),
        torch.cat([torch.zeros_like(p.A[..., 0]), p.b_g, p.b_h], dim=-1),
        (p.A.shape[-2], p.m_g, p.m_h),
    )
