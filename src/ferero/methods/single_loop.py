"""Algorithm 2 of the paper: one projected gradient step on the multipliers for each step of the model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ferero.errors import InputError
from ferero.geometry import project_multipliers
from ferero.methods.base import Decision, Observation, check_observation, in_dtype_of
from ferero.preference import Preference
from ferero.subprogram import Domain

__all__ = ["FereroSA", "FereroSAState"]


@dataclass(frozen=True, eq=False)
class FereroSAState:
    """What the single loop remembers, float64.

    Attributes:
        multipliers: ``[lam_f; lam_g; lam_h]``, (..., k).
        losses: F of the last step, (..., m), to which the next slopes belong; None before the first.
    """

    multipliers: Tensor
    losses: Tensor | None = None


@dataclass(frozen=True)
class FereroSA:
    """FERERO with one multiplier step per model step (Algorithm 2; 3 with slopes of a second batch).

        lam_f <- Proj_Omega(lam_f + gamma A slopes)
        lam_g <- [lam_g + gamma (c_g G + B_g slopes)]_+
        lam_h <-  lam_h + gamma (c_h H + B_h slopes)
        weights = A^T lam_f + B_g^T lam_g + B_h^T lam_h

    G and H are those of the step before, whose slopes the observation brings, and Omega is that of the
    current losses. The first step takes uniform multipliers, and does not look at slopes.

    Cost: besides one weighted backward pass what the slopes cost, which is one forward pass for any m.
    Understands every preference. Choose it where gradients are noisy or losses many, and slopes can be had.
    Its step gamma depends on the scale of losses and slopes and must be tuned, which is why training defaults
    to the tracked form, which needs neither.

    Args:
        gamma: The step of the multipliers.
        c_g: The pull of the inequalities' values.
        c_h: The same for equalities.
        domain: "adaptive" (Omega: lam_f.(A F) = sum(A F), needs A F >= 0) or "simplex" (sum(lam_f) = 1).
        bound: Largest size of a constraint's multiplier; None for no bound.

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
        return FereroSAState(torch.cat([lam_f, rest], dim=-1))

    def update(
        self, preference: Preference, observation: Observation, state: FereroSAState
    ) -> tuple[Decision, FereroSAState]:
        """Takes one multiplier step.

        Args:
            preference: What is wanted; for a stack of P the observation has (..., P, m).
            observation: With losses (..., m) and, from the second step on, the last one's slopes (..., m).
            state: From :meth:`init` or the last step.

        Returns:
            The decision and the next state.

        Raises:
            InputError: An observation that does not fit, or losses that the adaptive domain cannot take.
            NonFiniteError: Losses or slopes that are not finite.
        """
        is_first = state.losses is None
        check_observation(self, preference, observation, ("losses",) if is_first else self.requires)
        F = observation.losses.detach().double()
        A, B_g, B_h = (matrix.to(F.device) for matrix in (preference.A, preference.B_g, preference.B_h))
        lam = state.multipliers.to(F.device)
        if state.losses is not None and observation.slopes is not None:
            slopes = observation.slopes.detach().to(F)
            G, H = preference.values(state.losses.to(F))
            gradient = [
                _apply(A, slopes),
                self.c_g * G + _apply(B_g, slopes),
                self.c_h * H + _apply(B_h, slopes),
            ]
            lam = lam + self.gamma * torch.cat(gradient, dim=-1)
        a, b = _simplex_of(A, F, self.domain)
        lam = project_multipliers(lam, a, b, preference.m_g, self.bound)
        weights = _apply(torch.cat([A, B_g, B_h], dim=-2).mT, lam)
        return Decision(in_dtype_of(weights, observation.losses), lam), FereroSAState(lam, F)


def _apply(matrix: Tensor, vectors: Tensor) -> Tensor:
    """``M v``, (..., k) for M (..., k, m) and v (..., m)."""
    return (matrix @ vectors[..., None])[..., 0]


def _simplex_of(A: Tensor, F: Tensor, domain: Domain) -> tuple[Tensor, Tensor]:
    """The domain's a (..., k) and b (...)."""
    if domain == "simplex":
        a = (A != 0).any(dim=-1).to(F)
        return a, torch.ones_like(a[..., 0])
    a = _apply(A, F)
    b = a.sum(dim=-1)
    if bool((a < 0).any() | (b <= 0).any()):
        raise InputError(
            f"losses: the adaptive domain needs A F >= 0 with a positive sum, found entries from "
            f"{float(a.min()):.4g} and a sum of {float(b.min()):.4g}; subtract a lower bound from the losses "
            'or use domain="simplex".'
        )
    return a, b
