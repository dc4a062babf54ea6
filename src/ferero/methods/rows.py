"""The constraints of a preference as one block of rows, inequalities first, and the metric their sizes are measured by.

Rows that belong together form a *channel*: every inequality is one, and all equalities are one, because their rows are
only a basis: what is done with them must not change when another basis is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ferero.preference import Preference

__all__ = ["Metric", "Rows", "rows_of"]

_RIDGE = 1e-10  # relative; lets equalities that repeat each other share one multiplier


@dataclass(frozen=True, eq=False)
class Rows:
    """r = m_g + m_h rows over m losses, in c channels, and the order they stand beside.

    Attributes:
        A: The rows of the order, (..., k, m).
        B: ``[B_g; B_h]``, (..., r, m).
        b: ``[b_g; b_h]``, (..., r).
        levels: b of the rows that losses of 0 do not meet, 0 for others, (..., r); None where all are 0.
        margins: z of each row, 0 for equalities, (..., r); None where all are 0.
        names: Which losses occur in each row, (..., r, m), bool.
        shares: 1 / (number of losses in a channel) for those losses, (..., c, m).
        is_real: Rows that are no padding, (..., r), bool.
        real: The same as numbers.
        is_inequality: (r,), bool.
        channel: The channel of each row, (r,).
        first: The first row of each channel, (c,).
        members: 1 where a row belongs to a channel, (r, c).
        together: 1 where two rows share a channel, (r, r).
        constants: ``b b^T`` within channels, (..., r, r).
        m_g: The number of inequalities.
    """

    A: Tensor
    B: Tensor
    b: Tensor
    levels: Tensor | None
    margins: Tensor | None
    names: Tensor
    shares: Tensor
    is_real: Tensor
    real: Tensor
    is_inequality: Tensor
    channel: Tensor
    first: Tensor
    members: Tensor
    together: Tensor
    constants: Tensor
    m_g: int

    @property
    def count(self) -> int:
        """R."""
        return self.B.shape[-2]

    def values(self, losses: Tensor) -> Tensor:
        """``B F + b``, (..., r): G, then H."""
        return (self.B @ losses[..., None])[..., 0] + self.b

    def metric(self, magnitude: Tensor, arrived: Tensor | None = None) -> Metric:
        """The metric for losses of size ``magnitude`` (..., m), over the rows that have arrived (..., r), 0 or 1."""
        D = (self.B * magnitude.square()[..., None, :]) @ self.B.mT * self.together + self.constants
        if arrived is not None:
            D = D * (arrived[..., :, None] * arrived[..., None, :])
        if D.shape[-1] == 0:
            return Metric(self, D, D)
        largest = (D.diagonal(dim1=-2, dim2=-1)[..., None] * self.together).amax(dim=-2)
        ridge = _RIDGE * largest + (largest == 0)
        if arrived is not None:
            ridge = ridge + (1 - arrived) * largest
        D = D + torch.diag_embed(ridge)
        return Metric(self, D, D.reciprocal() if D.shape[-1] == 1 else torch.linalg.inv_ex(D).inverse)

    def by_row(self, channels: Tensor) -> Tensor:
        """(..., c) to (..., r)."""
        return channels.index_select(-1, self.channel)

    def by_channel(self, rows: Tensor) -> Tensor:
        """(..., r) to (..., c): that of each channel's first row."""
        return rows.index_select(-1, self.first)


@dataclass(frozen=True, eq=False)
class Metric:
    """``D = B S^2 B^T + b b^T`` with S the sizes of the losses: the squared size of each row's own terms.

    Attributes:
        rows: What it measures.
        D: (..., r, r).
        inverse: Its inverse.
    """

    rows: Rows
    D: Tensor
    inverse: Tensor

    def divide(self, values: Tensor) -> Tensor:
        """``D^-1 v``, (..., r)."""
        return (values[..., None, :] @ self.inverse)[..., 0, :]

    def squares(self, values: Tensor) -> Tensor:
        """``v^T D^-1 v`` in each channel, (..., k, c) for k vectors (..., k, r)."""
        return (values * (values @ self.inverse)) @ self.rows.members

    def sizes(self, multipliers: Tensor) -> Tensor:
        """``sqrt(lam^T D lam)`` in each channel, (..., c) for multipliers (..., r)."""
        products = multipliers * (multipliers[..., None, :] @ self.D)[..., 0, :]
        return (products @ self.rows.members).clamp(min=0).sqrt()


@lru_cache(maxsize=256)
def rows_of(preference: Preference, device: torch.device, dtype: torch.dtype) -> Rows:
    """The rows of a preference on a device; kept, since they are asked for at every step."""
    p = preference.to(device, dtype)
    m_g, m_h = p.m_g, p.m_h
    B, b = torch.cat([p.B_g, p.B_h], dim=-2), torch.cat([p.b_g, p.b_h], dim=-1)
    channel = torch.tensor([*range(m_g), *[m_g] * m_h], dtype=torch.long, device=device)
    first = torch.tensor([*range(m_g), *[m_g] * (m_h > 0)], dtype=torch.long, device=device)
    members = (channel[:, None] == torch.arange(len(first), device=device)).to(dtype)
    together = members @ members.T
    in_channel = (members.T @ (B != 0).to(dtype) > 0).to(dtype)
    levels = torch.cat([p.b_g.clamp(min=0), p.b_h], dim=-1)
    margins = torch.cat([p.margins, torch.zeros_like(p.b_h)], dim=-1)
    return Rows(
        p.A,
        B,
        b,
        levels if bool((levels != 0).any()) else None,
        margins if bool((margins > 0).any()) else None,
        B != 0,
        in_channel / in_channel.sum(dim=-1, keepdim=True).clamp(min=1),
        (B != 0).any(dim=-1),
        (B != 0).any(dim=-1).to(dtype),
        torch.arange(m_g + m_h, device=device) < m_g,
        channel,
        first,
        members,
        together,
        b[..., :, None] * b[..., None, :] * together,
        m_g,
    )
