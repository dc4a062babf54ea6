"""Scalarizations: one number made of the losses, from their values alone, whose gradient is the direction.

All three are ``w = r share(r (F - z))`` and differ in the shares: everybody's, the worst one's, or a soft choice.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from ferero._arrays import ArrayLike, check_finite, to_float64, to_vectors
from ferero.errors import InputError, UnsupportedError
from ferero.methods._baselines.ray import knows_rays_only, through_of, weights_of
from ferero.methods._method import Decision, Observation, check_observation, check_understood, in_dtype_of
from ferero.preference import Preference

__all__ = ["LinearScalarization", "ScalarizationState", "SmoothTchebycheff", "Tchebycheff"]

Ideal: TypeAlias = Sequence[float] | Literal["tracked"] | None

_ABSENT = torch.finfo(torch.float64).min  # below every value, and unlike -inf no NaN where nothing is present


@dataclass(frozen=True, eq=False)
class ScalarizationState:
    """What ``ideal="tracked"`` remembers, float64; without it nothing is, and the state stays as it was.

    Attributes:
        seen: 1 for losses that have arrived, (..., m).
        lowest: The smallest value of each so far, (..., m); 0 before the first.
    """

    seen: Tensor
    lowest: Tensor


class _Scalarization(ABC):
    """What the three have in common: r, z, and everything but the shares."""

    requires: ClassVar[frozenset[str]] = frozenset({"losses"})
    shifted: ClassVar[bool] = True

    weights: Sequence[float] | None = None
    ideal: Ideal = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _checked_weights(self.weights))
        if not isinstance(self.ideal, str):
            object.__setattr__(self, "ideal", _checked_numbers(self.ideal, "ideal"))
        elif self.ideal != "tracked":
            raise InputError(
                f'ideal: expected None, a number for each loss, or "tracked" for the smallest values seen, '
                f"found {self.ideal!r}."
            )

    @abstractmethod
    def _shares(self, scaled: Tensor) -> Tensor:
        """Which part each ``r_i (f_i - z_i)`` has in the merit, (..., m): the merit's gradient in them."""

    @abstractmethod
    def _rise(self, before: Tensor, after: Tensor) -> Tensor:
        """By how much the merit rises from scaled losses ``before`` to ``after``, (..., m) -> (...)."""

    def understands(self, preference: Preference) -> str | None:
        """None for a ray or no constraint, else what it cannot do."""
        return knows_rays_only(self, preference, shifted=self.shifted)

    def init(self, preference: Preference) -> ScalarizationState:
        """Nothing seen.

        Raises:
            UnsupportedError: A preference that it does not understand.
            InputError: ``weights`` or ``ideal`` for another number of losses.
        """
        check_understood(self, preference)
        zeros = torch.zeros(*preference.batch_shape, preference.m, dtype=torch.float64)
        self._weights_for(preference, zeros.device)
        if self.ideal != "tracked":
            self._ideal_for(preference, zeros.device)
        return ScalarizationState(zeros, zeros.clone())

    def update(
        self, preference: Preference, observation: Observation, state: ScalarizationState
    ) -> tuple[Decision, ScalarizationState]:
        """Weighs the losses by their values. Without a host sync where they are on a GPU.

        Args:
            preference: For a stack of P the observation has (..., P, m).
            observation: With losses (..., m), and which of them are present.
            state: From :meth:`init` or the last step.

        Returns:
            The decision and the next state.

        Raises:
            InputError: An observation that does not fit.
            NonFiniteError: Losses that are not finite (checked on the CPU only).
        """
        check_observation(self, preference, observation)
        F, present = observation.losses.detach().double(), observation.present
        r = self._weights_for(preference, F.device)
        if self.ideal == "tracked":
            state = _track(F, present, state)
            z = state.lowest
        else:
            z = self._ideal_for(preference, F.device)
        scaled = r * (F - z)
        shares = self._shares(scaled if present is None else torch.where(present, scaled, _ABSENT))
        return Decision(in_dtype_of(r * shares, observation.losses)), state

    def change(self, preference: Preference, before: ArrayLike, after: ArrayLike) -> Tensor:
        """By how much the merit, whose gradient in the losses are the weights, rises; negative for an improvement.

        Args:
            preference: For a stack of P the losses are (..., P, m).
            before: Losses, (..., m).
            after: Losses, (..., m).

        Returns:
            (...), float64.

        Raises:
            InputError: Losses that do not fit.
            UnsupportedError: With ``ideal="tracked"``, where the merit is another one at every step.
        """
        if self.ideal == "tracked":
            raise UnsupportedError(
                f'{type(self).__name__}(ideal="tracked") has no fixed merit; give ideal= as numbers, or leave it out.'
            )
        F, G = to_vectors(before, "before", preference.m), to_vectors(after, "after", preference.m)
        r, z = self._weights_for(preference, F.device), self._ideal_for(preference, F.device)
        return self._rise(r * (F - z), r * (G - z))

    def _weights_for(self, preference: Preference, device: torch.device) -> Tensor:
        """r, (..., m)."""
        if self.weights is None:
            return weights_of(preference, device)
        return _normalized(_for_each(self.weights, "weights", preference), device)

    def _ideal_for(self, preference: Preference, device: torch.device) -> Tensor:
        """z, (..., m), where it is not tracked."""
        if self.ideal is None or isinstance(self.ideal, str):
            return through_of(preference, device)
        return _tensor(_for_each(self.ideal, "ideal", preference), device)


@dataclass(frozen=True)
class LinearScalarization(_Scalarization):
    """A fixed weighted sum of the losses.

        weights = r

    With the preference's ray, r = (1/ray) / sum(1/ray), uniform without one. It ends where the front's normal is r:
    on a convex front one point for each r, though not the one on the ray; on a concave front an end of it, whatever
    r is.

    Cost: that of the weighted sum. Understands rays from the origin and no constraint. Choose it as the baseline, or
    where the weights themselves are given. A loss that is missing keeps its weight.

    Args:
        weights: r, a number >= 0 for each loss, divided by their sum; None for the preference's.

    Example:
        >>> method, preference = LinearScalarization(), Preference.ray([1.0, 3.0])
        >>> decision, state = method.update(preference, Observation([2.0, 1.0]), method.init(preference))
        >>> [round(x, 4) for x in decision.weights.tolist()]
        [0.75, 0.25]
    """

    has_merit: ClassVar[bool] = True
    shifted: ClassVar[bool] = False

    weights: Sequence[float] | None = None

    def _shares(self, scaled: Tensor) -> Tensor:
        return torch.ones_like(scaled)

    def _rise(self, before: Tensor, after: Tensor) -> Tensor:
        return (after - before).sum(dim=-1)


@dataclass(frozen=True)
class Tchebycheff(_Scalarization):
    """The worst weighted loss alone: ``max_i r_i (f_i - z_i)``.

        weights = r_k at k = argmax_i r_i (f_i - z_i), 0 elsewhere; of n that are equal each has r_i / n

    With r = (1/ray) / sum(1/ray) its minimum is where the ray meets the front, concave or not. It is not smooth:
    steps of a fixed size jump to and fro across the ray, and no line search gets past the kink that lies on it, so
    ``has_merit`` is False.

    Cost: that of one loss. Understands rays, also shifted ones, and no constraint. Choose it where the front may be
    concave and a small step can be had; `SmoothTchebycheff` converges faster. A loss that is missing takes no part.

    Args:
        weights: r, a number >= 0 for each loss, divided by their sum; None for the preference's.
        ideal: z, a number for each loss; None for where the ray starts; "tracked" for the smallest value of each
            loss so far, this step's included (where all losses fall together they are all at it, and share).

    Example:
        >>> method, preference = Tchebycheff(), Preference.ray([1.0, 3.0])
        >>> decision, state = method.update(preference, Observation([2.0, 1.0]), method.init(preference))
        >>> [round(x, 4) for x in decision.weights.tolist()]
        [0.75, 0.0]
    """

    has_merit: ClassVar[bool] = False

    weights: Sequence[float] | None = None
    ideal: Ideal = None

    def _shares(self, scaled: Tensor) -> Tensor:
        is_worst = ((scaled == scaled.amax(dim=-1, keepdim=True)) & (scaled > _ABSENT)).to(scaled)
        return is_worst / is_worst.sum(dim=-1, keepdim=True).clamp(min=1.0)

    def _rise(self, before: Tensor, after: Tensor) -> Tensor:
        return after.amax(dim=-1) - before.amax(dim=-1)


@dataclass(frozen=True)
class SmoothTchebycheff(_Scalarization):
    """The smooth maximum of the weighted losses (Lin et al. 2024): ``mu log sum_i exp(r_i (f_i - z_i) / mu)``.

        weights_i = r_i softmax_i(r (F - z) / mu)

    Between `Tchebycheff` (mu to 0) and `LinearScalarization` (mu large, up to a factor m). It ends beside the ray, the
    farther off the larger mu is, which is in the units of ``r_i f_i``.

    Cost: that of the weighted sum. Understands rays, also shifted ones, and no constraint. Choose it where the front
    may be concave, gradients are noisy, and the ray need be met only nearly. A loss that is missing takes no part.

    Args:
        mu: How smooth; the maximum is off by at most mu log m.
        weights: r, a number >= 0 for each loss, divided by their sum; None for the preference's.
        ideal: z, a number for each loss; None for where the ray starts; "tracked" for the smallest value of each
            loss so far, this step's included (where all losses fall together they are all at it, and share).

    Example:
        >>> method, preference = SmoothTchebycheff(mu=0.5), Preference.ray([1.0, 1.0])
        >>> decision, state = method.update(preference, Observation([2.0, 1.0]), method.init(preference))
        >>> [round(x, 4) for x in decision.weights.tolist()]
        [0.3655, 0.1345]
    """

    has_merit: ClassVar[bool] = True

    mu: float = 0.1
    weights: Sequence[float] | None = None
    ideal: Ideal = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.mu < math.inf:
            raise InputError(
                f"mu: expected a positive finite number, found {self.mu!r}; Tchebycheff() is the limit of 0."
            )

    def _shares(self, scaled: Tensor) -> Tensor:
        is_here = (scaled > _ABSENT).to(scaled)
        return torch.softmax((scaled / self.mu).clamp(min=_ABSENT), dim=-1) * is_here

    def _rise(self, before: Tensor, after: Tensor) -> Tensor:
        """As ``mu log sum_i p_i exp(x_i)`` with the softmax p before: small changes are not lost beside the value."""
        x, log_p = (after - before) / self.mu, torch.log_softmax(before / self.mu, dim=-1)
        small = x.clamp(-1.0, 1.0)
        slightly = torch.log1p((log_p.exp() * small.expm1()).sum(dim=-1))
        return self.mu * torch.where((small == x).all(dim=-1), slightly, torch.logsumexp(log_p + x, dim=-1))


def _track(F: Tensor, present: Tensor | None, old: ScalarizationState) -> ScalarizationState:
    """Takes in losses (..., m): those seen for the first time as they are, the others where they are lower."""
    seen, lowest = old.seen.to(F), old.lowest.to(F)
    lower = torch.where(seen > 0, torch.minimum(lowest, F), F)
    if present is None:
        return ScalarizationState(torch.ones_like(lower), lower)
    return ScalarizationState(torch.where(present, 1.0, seen), torch.where(present, lower, lowest))


def _checked_numbers(values: ArrayLike | None, name: str) -> tuple[float, ...] | None:
    if values is None:
        return None
    numbers = to_float64(values, name)
    if numbers.ndim != 1 or numbers.numel() == 0:
        raise InputError(f"{name}: expected one number for each loss, found shape {tuple(numbers.shape)}.")
    check_finite(numbers, name)
    return tuple(numbers.tolist())


def _checked_weights(values: ArrayLike | None) -> tuple[float, ...] | None:
    numbers = _checked_numbers(values, "weights")
    if numbers is not None and (min(numbers) < 0 or sum(numbers) <= 0):
        raise InputError(
            f"weights: expected numbers >= 0, not all of them 0, found {list(numbers)}; they say how much each loss "
            "counts, and are divided by their sum."
        )
    return numbers


def _for_each(numbers: Sequence[float], name: str, preference: Preference) -> tuple[float, ...]:
    if len(numbers) != preference.m:
        raise InputError(
            f"{name}: expected {preference.m} numbers, one for each of {', '.join(preference.names)}, "
            f"found {len(numbers)}."
        )
    return tuple(numbers)


@lru_cache(maxsize=256)
def _tensor(numbers: tuple[float, ...], device: torch.device) -> Tensor:
    """Cached: copying it at every step would be a host sync."""
    return torch.tensor(numbers, dtype=torch.float64, device=device)


@lru_cache(maxsize=256)
def _normalized(numbers: tuple[float, ...], device: torch.device) -> Tensor:
    values = _tensor(numbers, device)
    return values / values.sum()
