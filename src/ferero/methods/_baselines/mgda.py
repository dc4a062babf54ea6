"""MGDA: the shortest vector among the convex combinations of the gradients, which is a common descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from ferero._arrays import ArrayLike, to_vectors
from ferero.errors import InputError
from ferero.methods._baselines.ray import has_plain_order, knows_the_order_only
from ferero.methods._method import Decision, Observation, Steps, check_observation, check_understood, in_dtype_of
from ferero.preference import Preference
from ferero.subprogram import Solver, solve_subprogram
from ferero.subprogram._solve import check_options

__all__ = ["MGDA"]

Normalize: TypeAlias = Literal["l2", "loss", "loss+"] | None

_NORMALIZATIONS = (None, "l2", "loss", "loss+")
_LEAST = torch.finfo(torch.float64).eps ** 0.5  # of the largest loss: what one of 0 counts as


@dataclass(frozen=True)
class MGDA:
    """The minimum-norm direction of several gradients (Désidéri 2012; normalised as Sener and Koltun 2018).

        lam     = argmin |sum_i lam_i g_i / n_i|^2   over lam >= 0, sum(lam) = 1
        weights = lam_i / n_i                        n_i = 1, |g_i|, f_i or f_i |g_i|

    No loss rises along it to first order, and it vanishes where the losses are Pareto stationary, which they also are
    where a single gradient is 0. With a cone (and n_i = 1) lam combines the gradients of its rows, ``A_i gradF``.

    Cost: m backward passes for the gramian, and one small program in float64. Understands every order, and no
    constraint: where on the front it ends is up to the start. Choose it where any improvement of all losses will do.

    Args:
        normalize: None, "l2" (by the gradients' norms: the direction does not depend on the losses' units), "loss" (by
            the losses, which must not be negative) or "loss+" (by both).
        solver: As for ``solve_subprogram``.

    Example:
        >>> method, preference = MGDA(), Preference.pareto(2)
        >>> observation = Observation(losses=[2.0, 1.0], gramian=[[3.0, 0.0], [0.0, 1.0]])
        >>> decision, state = method.update(preference, observation, method.init(preference))
        >>> [round(x, 6) for x in decision.weights.tolist()]
        [0.25, 0.75]
    """

    requires: ClassVar[frozenset[str]] = frozenset({"losses", "gramian"})
    has_merit: ClassVar[bool] = True

    normalize: Normalize = None
    solver: Solver = "exact"

    def __post_init__(self) -> None:
        check_options(1.0, 1.0, self.solver, None)
        if self.normalize not in _NORMALIZATIONS:
            raise InputError(f'normalize: expected None, "l2", "loss" or "loss+", found {self.normalize!r}.')

    def understands(self, preference: Preference) -> str | None:
        """None for a preference without constraints, else the refusal."""
        if self.normalize is not None and not has_plain_order(preference):
            return (
                f'MGDA(normalize="{self.normalize}") divides each loss by its size, which would change the cone; leave '
                "out cone= and minimize=, or normalize=."
            )
        return knows_the_order_only(self, preference)

    def init(self, preference: Preference) -> Steps:
        """The state before the first step.

        Raises:
            UnsupportedError: A preference that it does not understand.
        """
        check_understood(self, preference)
        return Steps.none()

    def update(self, preference: Preference, observation: Observation, state: Steps) -> tuple[Decision, Steps]:
        """Finds the shortest combination.

        Args:
            preference: For a stack of P the observation has (..., P, m).
            observation: With losses (..., m) and gramian (..., m, m).
            state: From :meth:`init` or the last step.

        Returns:
            The decision, whose ``solution`` is that of the normalised gradients (up to a common factor), and the next
            state.

        Raises:
            InputError: An observation without gramian, one that does not fit, or losses that cannot be divided by.
            NonFiniteError: Losses or gramian that are not finite.
        """
        check_observation(self, preference, observation)
        assert observation.gramian is not None  # checked above
        gramian, sizes = observation.gramian.detach(), None
        if self.normalize is not None:
            sizes = _sizes(observation.losses.detach().double(), gramian.double(), self.normalize)
            gramian = _divided(gramian, sizes)
        solution = solve_subprogram(preference, observation.losses, gramian, domain="simplex", solver=self.solver)
        weights = solution.weights if sizes is None else solution.weights / sizes.to(solution.weights.device)
        decision = Decision(in_dtype_of(weights, observation.losses), solution.multipliers, solution)
        return decision, state.next()

    def change(self, preference: Preference, before: ArrayLike, after: ArrayLike) -> Tensor:
        """``max_i (A (after - before))_i``: negative where every row of the order falls.

        Args:
            preference: For a stack of P the losses are (..., P, m).
            before: Losses, (..., m).
            after: Losses, (..., m).

        Returns:
            (...), float64.
        """
        F, G = to_vectors(before, "before", preference.m), to_vectors(after, "after", preference.m)
        A = preference.A.to(F)
        rises = (A @ (G - F)[..., None])[..., 0]
        is_padding = (A == 0).all(dim=-1)
        return torch.where(is_padding, -torch.inf, rises).amax(dim=-1)


def _sizes(F: Tensor, K: Tensor, normalize: Literal["l2", "loss", "loss+"]) -> Tensor:
    """n, (..., m), positive: a gradient of 0 is divided by the longest one's norm, a loss of 0 by a tiny one."""
    sizes = torch.ones_like(F)
    if normalize != "l2":
        if F.device.type == "cpu" and bool((F < 0).any()):  # elsewhere this would be a host sync
            raise InputError(
                f'losses: normalize="{normalize}" divides by the losses, which must not be negative, found '
                f'{float(F.min()):.4g}; subtract a lower bound from them, or use normalize="l2".'
            )
        largest = F.amax(dim=-1, keepdim=True)
        sizes = torch.where(largest > 0, torch.maximum(F, _LEAST * largest), 1.0)
    if normalize != "loss":
        norms = K.diagonal(dim1=-2, dim2=-1).clamp(min=0.0).sqrt()
        longest = norms.amax(dim=-1, keepdim=True)
        sizes = sizes * torch.where(norms > 0, norms, torch.where(longest > 0, longest, 1.0))
    return sizes


def _divided(gramian: Tensor, sizes: Tensor) -> Tensor:
    """``K_ij / (n_i n_j)`` over its largest entry, so that it fits the type it came in, whose rounding it has."""
    divided = gramian.double() / (sizes[..., :, None] * sizes[..., None, :])
    largest = divided.diagonal(dim1=-2, dim2=-1).amax(dim=-1)[..., None, None]
    divided = divided / torch.where(largest > 0, largest, 1.0)
    return divided.to(gramian.dtype) if gramian.is_floating_point() else divided
