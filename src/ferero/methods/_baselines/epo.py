"""EPO: first towards the ray, then down along it, by one linear program a step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from ferero.errors import InputError
from ferero.methods._baselines.ray import knows_rays_only, weights_of
from ferero.methods._method import Decision, Observation, check_observation, check_understood, in_dtype_of
from ferero.preference import Preference
from ferero.subprogram import check_gramians, without_asymmetry
from ferero.subprogram._linear_program import FEASIBLE, Vertices, solve_linear, solve_linear_batched

__all__ = ["EPO", "EPOState"]

_LEAST = torch.finfo(torch.float64).eps  # the share that a loss of 0 counts as in a logarithm


@dataclass(frozen=True, eq=False)
class EPOState:
    """What EPO did last; it does not read it.

    Attributes:
        is_balancing: Whether the last move was towards the ray, (...), bool; False before the first.
        nonuniformity: mu of the last losses, (...), float64; 0 before the first.
    """

    is_balancing: Tensor
    nonuniformity: Tensor


@dataclass(frozen=True)
class EPO:
    """Exact Pareto optimal search (Mahapatra and Rajan 2020): to the ray, then down along it.

    With r_i f_i all equal on the ray, ``p = r f / sum(r f)``, ``mu = sum(p log(m p))`` and
    ``a = r (log(m p) - mu)``; K is the gramian, and ``K alpha`` are the losses' rates of descent:

        balance (mu > tolerance):
            weights = argmax alpha.K a     over alpha >= 0, sum(alpha) = 1, (K alpha)_j >= s_j
            s_j     = 0 where r_j f_j is largest, else none where (K a)_j > 0, else (K a)_j;
                      all 0 where no (K a)_j is positive
        dominance (otherwise):
            weights = argmax sum(K alpha)  over the same alpha with K alpha >= 0
                      and, unless relaxed, alpha.K a >= min(max(K a), 0)

    Every s_j is at most 0, so that the common descent of MGDA always qualifies, with one exception: the last row of
    dominance may ask too much. It is then left out, as if relaxed.

    Cost: m backward passes for the gramian, and one small linear program in float64. Understands rays from the origin,
    and no constraint (the ray is then that of equal losses). Losses must not be negative, since their shares are
    compared by logarithms. Choose it for a point of the front on a ray of positive losses, reached from anywhere, also
    uphill; its weights jump from corner to corner, so it wants small steps.

    Args:
        tolerance: The nonuniformity mu up to which the losses count as on the ray.
        relax: Whether dominance may leave the ray.
        solver: "exact", one program at a time on the CPU, or "batched", all at once on the losses' device, where the
            gramian is not checked.

    Example:
        >>> method, preference = EPO(), Preference.ray([1.0, 1.0])
        >>> observation = Observation(losses=[2.0, 1.0], gramian=[[1.0, 0.0], [0.0, 1.0]])
        >>> decision, state = method.update(preference, observation, method.init(preference))
        >>> decision.weights.tolist(), bool(state.is_balancing)
        ([1.0, 0.0], True)
    """

    requires: ClassVar[frozenset[str]] = frozenset({"losses", "gramian"})
    has_merit: ClassVar[bool] = False

    tolerance: float = 1e-4
    relax: bool = False
    solver: Literal["exact", "batched"] = "exact"

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < math.inf:
            raise InputError(f"tolerance: expected a positive finite number, found {self.tolerance!r}.")
        if self.solver not in ("exact", "batched"):
            raise InputError(f'solver: expected "exact" or "batched", found {self.solver!r}.')

    def understands(self, preference: Preference) -> str | None:
        """None for a ray from the origin or no constraint, else what it cannot do."""
        rays = [member.ray for member in preference.members or (preference,)]
        if any(ray is not None and bool((ray == 0).any()) for ray in rays):
            return "EPO compares shares r_i f_i, and a ray with zeros leaves it none; make every entry positive."
        return knows_rays_only(self, preference)

    def init(self, preference: Preference) -> EPOState:
        """No move yet.

        Raises:
            UnsupportedError: A preference that it does not understand.
        """
        check_understood(self, preference)
        nothing = torch.zeros(preference.batch_shape, dtype=torch.float64)
        return EPOState(nothing.bool(), nothing)

    def update(
        self,
        preference: Preference,
        observation: Observation,
        state: EPOState,  # noqa: ARG002  # part of the protocol
    ) -> tuple[Decision, EPOState]:
        """Chooses the move and solves its program.

        Args:
            preference: For a stack of P the observation has (..., P, m).
            observation: With losses (..., m) and gramian (..., m, m).
            state: From :meth:`init` or the last step.

        Returns:
            The decision, whose weights are on the simplex, and which move it is.

        Raises:
            InputError: An observation without gramian, one that does not fit, or negative losses (checked on the
                CPU only; elsewhere they count as 0).
            NonFiniteError: Losses or gramian that are not finite.
        """
        check_observation(self, preference, observation)
        assert observation.gramian is not None  # checked above
        F = observation.losses.detach().double()
        _check_sign(F)
        weighted = weights_of(preference, F.device) * F.clamp(min=0.0)
        mu, a = _adjustment(weights_of(preference, F.device), weighted, _rounding_of(observation.losses))
        is_balancing = mu > self.tolerance
        alpha = self._solve(weighted, a, is_balancing, observation.gramian.detach())
        return Decision(in_dtype_of(alpha, observation.losses)), EPOState(is_balancing, mu)

    def _solve(self, weighted: Tensor, a: Tensor, is_balancing: Tensor, gramian: Tensor) -> Tensor:
        """alpha, (..., m), in float64 on the losses' device."""
        m, device = a.shape[-1], a.device
        batch = np.broadcast_shapes(a.shape[:-1], gramian.shape[:-2])
        if self.solver == "exact":
            K = torch.from_numpy(check_gramians(gramian.expand(*batch, m, m).reshape(-1, m, m)))
        else:
            K = without_asymmetry(gramian.to(device)).expand(*batch, m, m).reshape(-1, m, m)
        weighted, a = (part.to(K).expand(*batch, m).reshape(-1, m) for part in (weighted, a))
        is_balancing = is_balancing.to(K.device).expand(batch).reshape(-1)
        programs = _programs(weighted, a, is_balancing, K, relax=self.relax)
        solve = _one_by_one if self.solver == "exact" else solve_linear_batched
        found = solve(*programs)
        asks_too_much = found.missed > FEASIBLE
        if not self.relax and (K.device.type != "cpu" or bool(asks_too_much.any())):
            objectives, rows, sides = programs
            sides = torch.where((torch.arange(m + 1, device=K.device) == m), -torch.inf, sides)
            relaxed = solve(objectives, rows, sides)
            found = found._replace(x=torch.where(asks_too_much[:, None], relaxed.x, found.x))
        return found.x.reshape(*batch, m).to(device)


def _check_sign(F: Tensor) -> None:
    if F.device.type == "cpu" and bool((F < 0).any()):  # elsewhere this would be a host sync
        raise InputError(
            f"losses: EPO compares the losses' shares, which must not be negative, found {float(F.min()):.4g}; "
            "subtract a lower bound from them where they are computed, or use ferero.Ferero()."
        )


def _rounding_of(values: Tensor) -> float:
    """The relative rounding of the type that ``values`` came in."""
    return torch.finfo(values.dtype if values.is_floating_point() else torch.float64).eps


def _adjustment(r: Tensor, weighted: Tensor, rounding: float) -> tuple[Tensor, Tensor]:
    """The nonuniformity mu (...) of ``r f`` (..., m) and the adjustments a (..., m).

    On the ray what the logarithms leave is rounding, which must not become a row of the program: it counts as 0.
    """
    m, total = weighted.shape[-1], weighted.sum(dim=-1, keepdim=True)
    share = torch.where(total > 0, weighted / torch.where(total > 0, total, 1.0), 1.0 / m)
    logarithm = (m * share.clamp(min=_LEAST)).log()
    mu = (share * logarithm).sum(dim=-1, keepdim=True)
    excess = logarithm - mu
    return mu[..., 0], r * torch.where(excess.abs() <= 4 * m * rounding, 0.0, excess)


def _programs(
    weighted: Tensor, a: Tensor, is_balancing: Tensor, K: Tensor, *, relax: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Objectives (P, m), rows ``[K; K a]`` (P, m + 1, m) and sides (P, m + 1) of either move."""
    toward = (K @ a[..., None])[..., 0]
    is_largest = weighted == weighted.amax(dim=-1, keepdim=True)
    is_served = toward > 0
    kept = torch.where(is_largest, 0.0, torch.where(is_served, -torch.inf, toward))
    kept = torch.where(is_served.any(dim=-1, keepdim=True), kept, 0.0)
    least = toward.amax(dim=-1, keepdim=True).clamp(max=0.0)
    least = torch.full_like(least, -torch.inf) if relax else least
    balance = is_balancing[:, None]
    sides = torch.cat([torch.where(balance, kept, 0.0), torch.where(balance, -torch.inf, least)], dim=-1)
    return torch.where(balance, toward, K.sum(dim=-2)), torch.cat([K, toward[:, None]], dim=-2), sides


def _one_by_one(objectives: Tensor, rows: Tensor, sides: Tensor) -> Vertices:
    found = [solve_linear(*one) for one in zip(objectives.numpy(), rows.numpy(), sides.numpy(), strict=True)]
    x, missed, gap = (torch.from_numpy(np.array(part)) for part in zip(*found, strict=True))
    return Vertices(x, missed, gap)
