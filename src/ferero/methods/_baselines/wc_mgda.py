"""WC-MGDA: weighted Chebyshev, whose worst loss is shared out among several so that the gradients agree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from ferero.errors import InputError
from ferero.methods._baselines.ray import knows_rays_only, through_of, weights_of
from ferero.methods._method import Decision, Observation, Steps, check_observation, check_understood, in_dtype_of
from ferero.preference import Preference
from ferero.subprogram import check_gramians, without_asymmetry
from ferero.subprogram._conic import maximize_gain, maximize_gain_batched

__all__ = ["WCMGDA", "XWCMGDA"]


@dataclass(frozen=True)
class WCMGDA:
    """Weighted Chebyshev with MGDA (our reading of Momma, Dong and Liu 2022).

    The weighted Chebyshev problem is ``min_theta max_i r_i f_i``, with r_i f_i all equal on the ray. A step of length
    at most R that makes its linearisation smallest has the dual below, with K the gramian:

        alpha   = argmax alpha.(r f) - R sqrt(alpha.(r K r) alpha)   over alpha >= 0, sum(alpha) = 1
        R       = u max_i |r_i f_i| / max_i |r_i g_i|
        weights = r alpha / sum(r alpha)

    A small u leaves the worst loss alone (Tchebycheff), a large one makes the combined gradient short (MGDA of the
    weighted losses). By R the weights depend neither on the losses' common unit nor on that of the parameters. On the
    front, a point counts as on the ray once a linearised step of length R would reach it, so the ray is met to a share
    of about u where the front is met first, and much better where the ray is.

    No output of the authors is at hand to check against, hence "our reading": R measures r f and the gradients anew at
    each step, and u stays as it is, where an implementation that we know raises it when a step gave less than promised.

    Cost: m backward passes for the gramian, and a few small quadratic programs in float64. Understands rays from the
    origin, and no constraint (the ray is then that of equal losses). Choose it where Tchebycheff would jump between the
    losses, and a direction that serves several of them at once is worth the gramian.

    Args:
        u: The length of a linearised step, 1 being that which takes the largest weighted loss to 0 along the longest
            weighted gradient.
        solver: "exact", one program at a time on the CPU, or "batched", all at once on the losses' device, where the
            gramian is not checked.

    Example:
        >>> method, preference = WCMGDA(), Preference.ray([1.0, 1.0])
        >>> observation = Observation(losses=[1.0, 1.0], gramian=[[1.0, 0.0], [0.0, 3.0]])
        >>> decision, state = method.update(preference, observation, method.init(preference))
        >>> [round(x, 6) for x in decision.weights.tolist()]
        [0.75, 0.25]
    """

    requires: ClassVar[frozenset[str]] = frozenset({"losses", "gramian"})
    has_merit: ClassVar[bool] = False

    u: float = 0.03
    solver: Literal["exact", "batched"] = "exact"

    def __post_init__(self) -> None:
        if not 0 < self.u < math.inf:
            raise InputError(f"u: expected a positive finite number, found {self.u!r}; 0.03 is the usual one.")
        if self.solver not in ("exact", "batched"):
            raise InputError(f'solver: expected "exact" or "batched", found {self.solver!r}.')

    def understands(self, preference: Preference) -> str | None:
        """None for a ray from the origin or no constraint, else what it cannot do."""
        return knows_rays_only(self, preference)

    def init(self, preference: Preference) -> Steps:
        """The state before the first step.

        Raises:
            UnsupportedError: A preference that it does not understand.
        """
        check_understood(self, preference)
        return Steps.none()

    def update(self, preference: Preference, observation: Observation, state: Steps) -> tuple[Decision, Steps]:
        """Solves for alpha.

        Args:
            preference: For a stack of P the observation has (..., P, m).
            observation: With losses (..., m) and gramian (..., m, m).
            state: From :meth:`init` or the last step.

        Returns:
            The decision, whose weights are on the simplex, and the next state.

        Raises:
            InputError: An observation without gramian, or one that does not fit.
            NonFiniteError: Losses or gramian that are not finite.
        """
        check_observation(self, preference, observation)
        assert observation.gramian is not None  # checked above
        F = observation.losses.detach().double()
        r = weights_of(preference, F.device)
        weighted = r * (F - through_of(preference, F.device))
        weights = self._solve(r, weighted, observation.gramian.detach())
        return Decision(in_dtype_of(weights, observation.losses)), state.next()

    def _solve(self, r: Tensor, weighted: Tensor, gramian: Tensor) -> Tensor:
        """The weights, (..., m), in float64 on the losses' device."""
        m = weighted.shape[-1]
        batch = np.broadcast_shapes(weighted.shape[:-1], gramian.shape[:-2])
        if self.solver == "exact":
            K = torch.from_numpy(check_gramians(gramian.expand(*batch, m, m).reshape(-1, m, m))).to(r.device)
        else:
            K = without_asymmetry(gramian.to(r.device)).expand(*batch, m, m).reshape(-1, m, m)
        r, q = (part.expand(*batch, m).reshape(-1, m) for part in (r, weighted))
        K = K * r[:, :, None] * r[:, None, :]
        q, K = _over(q, q.abs().amax(dim=-1)), _over(K, K.diagonal(dim1=-2, dim2=-1).amax(dim=-1))
        solve = maximize_gain if self.solver == "exact" else maximize_gain_batched
        alpha = solve(q, K, torch.full_like(q[:, 0], self.u), r > 0)
        weights = r * alpha
        return (weights / weights.sum(dim=-1, keepdim=True)).reshape(*batch, m)


@dataclass(frozen=True)
class XWCMGDA(WCMGDA):
    """WC-MGDA along a ray that starts anywhere (our reading of Momma, Dong and Liu 2022).

        alpha   = argmax alpha.(r (f - z)) - R sqrt(alpha.(r K r) alpha)   over alpha >= 0, sum(alpha) = 1
        R       = u max_i |r_i (f_i - z_i)| / max_i |r_i g_i|
        weights = r alpha / sum(r alpha)

    z is where the ray starts (``through``), say the losses of a model that serves as reference; the origin where it is
    not said. Losses may be of any sign, and below z. For all else, and what is "our reading" in it: :class:`WCMGDA`.

    Cost: m backward passes for the gramian, and a few small quadratic programs in float64. Understands rays, also
    shifted ones, and no constraint. Choose it to improve a given model in given proportions.

    Args:
        u: As for :class:`WCMGDA`.
        solver: As for :class:`WCMGDA`.

    Example:
        >>> method, preference = XWCMGDA(), Preference.ray([1.0, 1.0], through=[1.0, 0.0])
        >>> observation = Observation(losses=[2.0, 1.0], gramian=[[1.0, 0.0], [0.0, 3.0]])
        >>> decision, state = method.update(preference, observation, method.init(preference))
        >>> [round(x, 6) for x in decision.weights.tolist()]
        [0.75, 0.25]
    """

    def understands(self, preference: Preference) -> str | None:
        """None for any ray or no constraint, else what it cannot do."""
        return knows_rays_only(self, preference, shifted=True)


def _over(values: Tensor, size: Tensor) -> Tensor:
    """``values`` (P, ...) over ``size`` (P,), as they are where that is 0."""
    return values / torch.where(size > 0, size, 1.0).reshape(-1, *[1] * (values.ndim - 1))
