"""Algorithms 2 and 3 of the paper: one projected gradient step on the multipliers for each step of the model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from ferero.errors import InputError
from ferero.geometry._projection import project_simplex, project_weighted_simplex
from ferero.methods._method import Decision, Observation, check_observation, in_dtype_of
from ferero.preference import Preference
from ferero.subprogram import Domain
from ferero.subprogram._program import augmented_rows

__all__ = ["FereroSA", "FereroSAState", "adaptive_domain", "apply_rows"]


@dataclass(frozen=True, eq=False)
class FereroSAState:
    """The memory of the single loop, float64.

    Attributes:
        multipliers: ``[lam_f; lam_g; lam_h]``, (..., k).
        losses: F of the last step, (..., m), to which the next slopes belong; 0 where nothing was seen yet.
        seen: 1 for losses that have arrived, (..., m).
        known: 1 for rows all of whose losses have, (..., k): those whose multipliers move.
    """

    multipliers: Tensor
    losses: Tensor
    seen: Tensor
    known: Tensor

    def like(self, losses: Tensor) -> FereroSAState:
        """The same state on the losses' device and with their leading dimensions."""
        batch = losses.shape[:-1]
        if self.losses.shape[:-1] == batch and self.losses.device == losses.device:
            return self
        parts = (part.to(losses.device) for part in (self.multipliers, self.losses, self.seen, self.known))
        return FereroSAState(*(part.expand(*batch, part.shape[-1]) for part in parts))


@dataclass(frozen=True)
class FereroSA:
    """FERERO with one multiplier step per model step (Algorithm 2; 3 with slopes of a second batch).

        lam_f <- Proj_Omega(lam_f + gamma A slopes)
        lam_g <- [lam_g + gamma (c_g G + B_g slopes)]_+
        lam_h <-  lam_h + gamma (c_h H + B_h slopes)
        weights = A^T lam_f + B_g^T lam_g + B_h^T lam_h

    G and H are those of the step before, whose slopes the observation brings, and Omega is that of the
    current losses. The first step takes uniform multipliers, and needs no slopes. For Algorithm 3 the losses and
    the weighted gradient are those of one half-batch, and the slopes are taken on the other, along that gradient.

    A loss that is not present keeps its value and has slope 0; a row waits until all its losses have been seen.

    Cost: besides one weighted backward pass what the slopes cost, which is one forward pass for any m.
    Understands every preference. Choose it where gradients are noisy or losses many, and slopes are available.
    Its step gamma depends on the scale of losses and slopes and must be tuned, which is why training defaults
    to `FereroPI`, which needs neither.

    Args:
        gamma: The step of the multipliers.
        c_g: The pull of the inequalities' values.
        c_h: The same for equalities.
        domain: "adaptive" (Omega: lam_f.(A F) = sum(A F), needs A F >= 0) or "simplex" (sum(lam_f) = 1).
        bound: Largest size of a constraint's multiplier; None for no bound, as in the paper: then a constraint
            that cannot be met makes training diverge in the end.

    Example:
        >>> method, preference = FereroSA(gamma=0.5, domain="simplex"), Preference.pareto(2)
        >>> decision, state = method.update(preference, Observation([1.0, 1.0]), method.init(preference))
        >>> observation = Observation(losses=[0.8, 1.0], slopes=[-1.0, 0.0])
        >>> decision, state = method.update(preference, observation, state)
        >>> decision.weights.tolist()
        [0.25, 0.75]
    """

    requires: ClassVar[frozenset[str]] = frozenset({"losses", "slopes"})
    has_merit: ClassVar[bool] = False

    gamma: float = 0.01
    c_g: float = 1.0
    c_h: float = 1.0
    domain: Domain = "adaptive"
    bound: float | None = None

    def __post_init__(self) -> None:
        for name in ("gamma", "c_g", "c_h", "bound"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InputError(f"{name}: expected a positive finite number, found {value!r}.")
        if self.domain not in ("adaptive", "simplex"):
            raise InputError(f'domain: expected "adaptive" or "simplex", found {self.domain!r}.')

    def understands(self, preference: Preference) -> str | None:  # noqa: ARG002  # part of the protocol
        """None: it takes every preference."""
        return None

    def init(self, preference: Preference) -> FereroSAState:
        """Uniform multipliers for the order, which are in Omega whatever the losses; 0 for constraints."""
        lam_f = (preference.A != 0).any(dim=-1).double()
        if self.domain == "simplex":
            lam_f = lam_f / lam_f.sum(dim=-1, keepdim=True)
        rest = lam_f.new_zeros(*preference.batch_shape, preference.m_g + preference.m_h)
        nothing = lam_f.new_zeros(*preference.batch_shape, preference.m)
        lam = torch.cat([lam_f, rest], dim=-1)
        return FereroSAState(lam, nothing, nothing.clone(), torch.zeros_like(lam))

    def update(
        self, preference: Preference, observation: Observation, state: FereroSAState
    ) -> tuple[Decision, FereroSAState]:
        """Takes one multiplier step. Without a host sync where the losses are on a GPU.

        Args:
            preference: For a stack of P the observation has (..., P, m).
            observation: With losses (..., m) and, from the second step on, the last one's slopes (..., m).
            state: From :meth:`init` or the last step.

        Returns:
            The decision and the next state.

        Raises:
            InputError: An observation that does not fit; on the CPU also slopes that are missing after the first
                step (elsewhere the multipliers then stay), or losses that the adaptive domain cannot take (elsewhere
                negative ones count as 0 there).
            NonFiniteError: Losses or slopes that are not finite (checked on the CPU only).
        """
        losses, slopes, present = observation.losses.detach(), observation.slopes, observation.present
        is_first = slopes is None and (losses.device.type != "cpu" or not state.seen.any())
        check_observation(self, preference, observation, ("losses",) if is_first else self.requires)
        F = losses.double()
        old = state.like(F)
        fixed = _matrices_of(self, preference, F.device)

        lam = old.multipliers
        if slopes is not None:
            s = slopes.detach().to(F)
            s = (s if present is None else torch.where(present, s, 0.0)).expand_as(F)
            push = apply_rows(fixed.push, torch.cat([s, old.losses], dim=-1), fixed.offset)
            lam = torch.addcmul(lam, push, old.known)
        if present is None:
            seen, known = fixed.all_losses.expand_as(old.seen), fixed.all_rows.expand_as(old.known)
        else:
            F, seen = torch.where(present, F, old.losses), torch.where(present, 1.0, old.seen)
            known = (apply_rows(fixed.names, 1 - seen) == 0).to(F)
        lam = self._project(fixed, lam, F, None if present is None else seen)
        weights = apply_rows(fixed.transposed, lam)
        return Decision(in_dtype_of(weights, losses), lam), FereroSAState(lam, F, seen, known)

    def _project(self, fixed: _SAMatrices, lam: Tensor, F: Tensor, seen: Tensor | None) -> Tensor:
        """Onto Omega of the losses F, and the bounds of the constraints' multipliers."""
        k_f = fixed.A.shape[-2]
        if fixed.is_simplex:
            lam_f = project_simplex(lam[..., :k_f])
        else:
            a, b = fixed.simplex or adaptive_domain(apply_rows(fixed.A, F), seen, fixed.used)
            lam_f = project_weighted_simplex(lam[..., :k_f], a, b)
        if k_f == lam.shape[-1]:
            return lam_f
        return torch.cat([lam_f, torch.clamp(lam[..., k_f:], fixed.lower, fixed.upper)], dim=-1)


class _SAMatrices(NamedTuple):
    """Matrices that never change between steps, on the losses' device, float64.

    Attributes:
        A: The order's rows, (..., k_f, m).
        transposed: ``S^T`` of all rows ``S = [A; B_g; B_h]``, (..., m, k).
        push: ``gamma [S, C S]`` with C the diagonal of 0, c_g, c_h, (..., k, 2 m).
        offset: ``gamma C b``, (..., k).
        names: 1 where a loss occurs in a row, (..., k, m).
        lower: Of the constraints' multipliers, (m_g + m_h,).
        upper: The same.
        used: 1 for the order's rows that are no padding, (..., k_f).
        simplex: a (..., k_f) and b (...) of the domain that does not move; None for the adaptive one.
        is_simplex: Whether that is the plain one, without padding.
        all_losses: 1 for each, (m,).
        all_rows: 1 for each, (k,).
    """

    A: Tensor
    transposed: Tensor
    push: Tensor
    offset: Tensor
    names: Tensor
    lower: Tensor
    upper: Tensor
    used: Tensor
    simplex: tuple[Tensor, Tensor] | None
    is_simplex: bool
    all_losses: Tensor
    all_rows: Tensor


@lru_cache(maxsize=256)
def _matrices_of(method: FereroSA, preference: Preference, device: torch.device) -> _SAMatrices:
    """Cached: read at every step, and a copy to a GPU is a host sync."""
    p = preference
    S, b, sizes = augmented_rows(p)
    rates = torch.repeat_interleave(S.new_tensor([0.0, method.c_g, method.c_h]), torch.tensor(sizes))
    rho = math.inf if method.bound is None else method.bound
    lower = S.new_tensor([0.0] * p.m_g + [-rho] * p.m_h)
    a = (p.A != 0).any(dim=-1).to(S)
    return _SAMatrices(
        p.A.to(device),
        S.mT.contiguous().to(device),
        (method.gamma * torch.cat([S, rates[:, None] * S], dim=-1)).to(device),
        (method.gamma * rates * b).to(device),
        (S != 0).to(S).to(device),
        lower.to(device),
        torch.full_like(lower, rho, device=device),
        a.to(device),
        (a.to(device), torch.ones_like(a[..., 0], device=device)) if method.domain == "simplex" else None,
        method.domain == "simplex" and bool(a.all()),
        S.new_ones(p.m).to(device),
        S.new_ones(S.shape[-2]).to(device),
    )


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
        InputError: A negative entry; checked on the CPU only.
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
