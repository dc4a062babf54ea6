"""A preference as `FereroPI` reads it: a channel for each inequality, and for each loss that equalities name.

The equalities are one block, since their rows are only a basis of it: nothing may depend on which basis was written.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ferero.methods._rows import Rows, Sparse, rows_of
from ferero.preference import Preference

__all__ = ["LOG_RANGE", "Channels", "Equalities", "Projector", "channels_of", "log_size"]

LOG_RANGE = 230.0  # logarithms of losses are kept within, 1e-100 to 1e100
_RIDGE = 1e-10  # relative; lets equalities that repeat each other share one multiplier


@dataclass(frozen=True, eq=False)
class Channels:
    """The channels of a preference, or of a stack.

    Attributes:
        rows: All constraints.
        equalities: The equalities as a block; None without any.
        multiplies: Whether logits of losses multiply weights (every row of the order is one loss), (..., 1), bool.
        is_inequality: Channels of inequalities, (c,), bool; None where all are.
        ray: The losses' proportions on a ray from the origin, 1 elsewhere, (..., m), and
        is_ray: whether there is one, (..., 1), bool; None where nowhere.
        bound: Logarithms of the bounds of inequalities that have nothing else on that side, as in ``F <= b`` and
            ``F >= b``, (..., k + c), and
        has_bound: 1 for these, (..., k + c).
        scale: What the absolute weights of the objective part sum to, (..., 1).
        orders: Rows of A that are no padding, (..., k).
        moving: The coefficients of the inequalities, (..., m_g, m), where levels move with the steps; else None.
    """

    rows: Rows
    equalities: Equalities | None
    multiplies: Tensor
    is_inequality: Tensor | None
    ray: Tensor
    is_ray: Tensor | None
    bound: Tensor
    has_bound: Tensor
    scale: Tensor
    orders: Tensor
    moving: Tensor | None = None

    def at(self, arrived: Tensor) -> Channels:
        """The channels with the levels of the present step; see `Rows.at`."""
        if self.moving is None:
            return self
        rows = self.rows.at(arrived)
        b_g, b_h = rows.b[..., : rows.m_g], rows.b[..., rows.m_g :]
        equalities = None if self.equalities is None else replace(self.equalities, b=b_h)
        channels_after = self.bound.shape[-1] - rows.k - rows.m_g
        is_one_sided = (self.moving * b_g[..., None] <= 0).all(dim=-1)
        bound, has_bound = _padded_bounds(is_one_sided, b_g, (rows.k, channels_after))
        return replace(self, rows=rows, equalities=equalities, bound=bound, has_bound=has_bound)

    def arrived(self, seen: Tensor, present: Tensor | None, complete: Tensor) -> Tensor:
        """1 for rows of the order and channels with a new value, (..., k + c)."""
        rows, m_g = self.rows, self.rows.m_g
        batch = seen.shape[:-1]
        known, news = seen > 0, seen >= 0 if present is None else present
        objective = rows.A.name_any(news) & rows.A.name_only(known)
        parts = [objective.expand(*batch, -1), complete[..., :m_g].expand(*batch, -1)]
        if self.equalities is not None:
            parts.append(self.equalities.B.named_by_any(complete[..., m_g:]).expand(*batch, -1))
        return torch.cat(parts, dim=-1).to(seen.dtype)


@dataclass(frozen=True, eq=False)
class Equalities:
    """The equalities ``B F + b = 0`` as one block, since their rows are only a basis of it.

    Attributes:
        B: (..., m_h, m).
        b: (..., m_h).
        named: 1 for the losses that they name, (..., m).
        coupled: Those of them that share a loss with another one, (c,).
        dense: All entries of their rows, (..., c, m).
    """

    B: Sparse
    b: Tensor
    named: Tensor
    coupled: Tensor
    dense: Tensor

    def project(self, F: Tensor, size: Tensor, complete: Tensor) -> tuple[Projector, Tensor, Tensor]:
        """The inverse of ``B S^2 B^T``, each loss's relative displacement ``S B^T (B S^2 B^T)^-1 H``, and S.

        S is the larger of a loss's running size and of what it would be where the equalities hold: a loss that
        vanishes although it should not has the size that it should have.

        Args:
            F: The losses, (..., m).
            size: Their running sizes, (..., m).
            complete: Rows that may be read, (..., m_h).
        """
        there = complete.to(F.dtype)
        H = (self.B.times(F) + self.b) * there
        usual = size * F.sign()
        H_usual = (self.B.times(usual) + self.b) * there
        inverse = self._inverse(size, there)
        target = usual - size.square() * self.spread(self._solve(inverse, H_usual))
        size = torch.maximum(size, target.abs().clamp(max=math.exp(LOG_RANGE)))
        inverse = self._inverse(size, there)
        return Projector(inverse, size), size * self.spread(self._solve(inverse, H)), size

    def multipliers(self, projector: Projector, weights: Tensor) -> Tensor:
        """The lam_h, (..., m_h), whose ``B^T lam_h`` is nearest to weights (..., m), in units of S."""
        return self._solve(projector.inverse, self.B.times(projector.size.square() * weights))

    def _inverse(self, size: Tensor, there: Tensor) -> _Inverse:
        diagonal = self.B.times_squared(size)
        apart = there / torch.where(diagonal * there > 0, diagonal, 1.0)
        if len(self.coupled) == 0:
            return _Inverse(apart, None)
        scaled, there = self.dense * size[..., None, :], there[..., self.coupled]
        both = there[..., :, None] * there[..., None, :]
        D = (scaled @ scaled.mT) * both
        largest = D.diagonal(dim1=-2, dim2=-1).amax(dim=-1, keepdim=True)
        largest = torch.where(largest > 0, largest, 1.0)
        D = D / largest[..., None] + torch.diag_embed(1 - there)
        inverse = torch.linalg.inv_ex(D + _RIDGE * torch.eye(D.shape[-1], dtype=D.dtype, device=D.device)).inverse
        inverse = 2 * inverse - inverse @ D @ inverse  # a Newton step: what the ridge took, squared
        return _Inverse(apart, inverse / largest[..., None] * both)

    def _solve(self, inverse: _Inverse, H: Tensor) -> Tensor:
        found = inverse.apart * H
        if inverse.coupled is None:
            return found
        return found.index_copy(-1, self.coupled, (inverse.coupled @ H[..., self.coupled, None])[..., 0])

    def spread(self, multipliers: Tensor) -> Tensor:
        """``B^T lam``, (..., m)."""
        return self.B.combine(multipliers)


class Projector(NamedTuple):
    """The projection onto the equalities in units S: ``(B S^2 B^T)^-1``, and S (..., m)."""

    inverse: _Inverse
    size: Tensor


class _Inverse(NamedTuple):
    """Of a matrix in which only some rows are coupled: 1 / diagonal, (..., m_h), and the inverse of the others' block.

    Attributes:
        apart: (..., m_h).
        coupled: (..., c, c); None where no rows are coupled.
    """

    apart: Tensor
    coupled: Tensor | None


@lru_cache(maxsize=256)
def channels_of(preference: Preference, device: torch.device, dtype: torch.dtype) -> Channels:
    """The channels of a preference on a device; cached, since every step reads them."""
    rows, p = rows_of(preference, device, dtype), preference.to(device, dtype)
    orders = (p.A != 0).any(dim=-1).to(dtype)
    members = preference.members or (preference,)
    per_member = [_multiplies(member) for member in members]
    multiplies = torch.tensor(per_member, device=device)[:, None] if preference.members else torch.tensor(
        per_member, device=device
    )  # fmt: skip
    equalities, is_inequality = None, None
    if p.m_h:
        named = (p.B_h != 0).any(dim=-2).to(dtype)
        B_h = Sparse.of(p.B_h)
        is_shared = (p.B_h != 0).sum(dim=-2) > 1
        coupled = torch.nonzero(B_h.name_any(is_shared).reshape(-1, p.m_h).any(dim=0))[:, 0]
        equalities = Equalities(B_h, p.b_h, named, coupled, p.B_h.index_select(-2, coupled))
        is_inequality = torch.arange(p.m_g + p.m, device=device) < p.m_g
    rays = [_ray(member) for member in members]
    ray = torch.stack([torch.ones(p.m) if one is None else one for one in rays]).to(device, dtype)
    is_ray = torch.tensor([[one is not None] for one in rays], device=device)
    if not preference.members:
        ray, is_ray = ray[0], is_ray[0]
    scale = p.A.abs().sum(dim=(-2, -1)) / orders.sum(dim=-1)
    bound, has_bound = _bounds(p)
    return Channels(
        rows,
        equalities,
        multiplies,
        is_inequality,
        ray,
        is_ray if bool(is_ray.any()) else None,
        bound,
        has_bound,
        scale[..., None],
        orders,
        None if rows.levels is None else p.B_g,
    )


def _bounds(p: Preference) -> tuple[Tensor, Tensor]:
    """What stands alone on its side of an inequality, as a unit: `Channels.bound` and `Channels.has_bound`."""
    if p.entries_g is None:
        is_one_sided = (p.B_g * p.b_g[..., None] <= 0).all(dim=-1)
    else:
        row, value = p.entries_g.row, p.entries_g.value
        is_one_sided = row[value * p.b_g[row] > 0].bincount(minlength=p.m_g) == 0
    return _padded_bounds(is_one_sided, p.b_g, (p.A.shape[-2], p.m if p.m_h else 0))


def _padded_bounds(is_one_sided: Tensor, b_g: Tensor, around: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """The same from which rows have all coefficients on the other side, (..., m_g), and their constants (..., m_g).

    Args:
        is_one_sided: Whether no coefficient has the sign of the constant.
        b_g: The constants.
        around: The numbers of rows of the order, and of channels of losses.
    """
    is_alone = (is_one_sided & (b_g != 0)).to(b_g.dtype)
    return pad(log_size(b_g) * is_alone, around), pad(is_alone, around)


def _multiplies(preference: Preference) -> bool:
    """Whether every row of the order is a loss of its own, and every loss that an equality names is among them."""
    A = preference.A
    is_named = A != 0
    is_plain = bool((is_named.sum(dim=-1) == 1).all()) and bool((is_named.sum(dim=0) <= 1).all())
    is_plain = is_plain and bool((A >= 0).all()) and len(A) > 1
    minimised = (A != 0).any(dim=0)
    return is_plain and bool(minimised[(preference.B_h != 0).any(dim=0)].all())


def _ray(preference: Preference) -> Tensor | None:
    """The proportions that the equalities fix: their positive solution where they leave one direction, else None."""
    if preference.m_h < preference.m - 1 or preference.m_h == 0 or bool((preference.b_h != 0).any()):
        return None
    if preference.moves or not _multiplies(preference):
        return None
    B = preference.B_h.double().cpu()
    B = B[(B != 0).any(dim=1)]
    lengths = torch.linalg.vector_norm(B, dim=0)
    if not bool((lengths > 0).all()):
        return None
    B = B / lengths  # units do not change the rank, nor do the rows' lengths
    svd = torch.linalg.svd(B / torch.linalg.vector_norm(B, dim=1, keepdim=True), full_matrices=True)
    rank = int((1e-9 * svd.S.amax() < svd.S).sum())
    direction = svd.Vh[-1] * svd.Vh[-1].sum().sign() / lengths
    return direction if rank == preference.m - 1 and bool((direction > 0).all()) else None


def log_size(values: Tensor) -> Tensor:
    """The logarithm of the sizes, within bounds that hold for 0 and inf."""
    return values.abs().log().clamp(-LOG_RANGE, LOG_RANGE)
