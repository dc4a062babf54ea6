"""Base classes of the test problems: the losses, and the truth about them.

The Pareto front is the image of the unit simplex under a smooth map; `lattice` and `uniform` choose points of the
simplex, and `distance_to_image` measures how far losses are from the front.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import combinations
from math import comb
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ferero.errors import InputError

__all__ = ["HullProblem", "Problem", "distance_to_image", "lattice", "uniform"]

_CANDIDATES = 4
_ITERATIONS = 100
_STUCK = 1e3  # the damping at which no step helps any more
_SETTLED = 1e-14  # the relative gain that is only rounding


class Problem(ABC):
    """Losses whose Pareto front is known, as the image of a simplex.

    Attributes:
        name: as the registry and the command line know it.
        summary: one line for a table.
        start_kinds: the families of `starts`, the usual one first.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    start_kinds: ClassVar[tuple[str, ...]]

    @property
    @abstractmethod
    def m(self) -> int:
        """The number of losses."""

    @property
    @abstractmethod
    def n(self) -> int:
        """The number of parameters."""

    @property
    def names(self) -> tuple[str, ...]:
        """The losses' names (m,)."""
        return tuple(f"f{i + 1}" for i in range(self.m))

    @abstractmethod
    def __call__(self, theta: Tensor) -> Tensor:
        """The losses (m,) at theta (n,)."""

    @abstractmethod
    def solutions(self, shares: Tensor) -> Tensor:
        """Pareto-optimal parameters (k, n) for points of the simplex (k, m)."""

    @abstractmethod
    def image(self, shares: Tensor) -> Tensor:
        """The losses (k, m) of `solutions`, written out so that it is smooth in the shares (k, m)."""

    @property
    @abstractmethod
    def ideal(self) -> Tensor:
        """The smallest value of each loss by itself, (m,)."""

    @property
    @abstractmethod
    def reference_point(self) -> Tensor:
        """A point (m,) that every point of the front is below, for hypervolumes."""

    def front(self, k: int) -> Tensor:
        """At least k points on the true front, (k or more, m), float64; exactly k for two losses."""
        return self.image(lattice(self.m, k))

    def rays(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Unit vectors (count, m) from the origin through random points of the front: all are attainable."""
        points = self.image(uniform(self.m, count, generator))
        return torch.nn.functional.normalize(points, dim=1)

    def distance_to_front(self, losses: Tensor) -> Tensor:
        """Euclidean distances (...) of losses (..., m) to the true front."""
        return distance_to_image(self.image, losses, self.m)

    def starts(self, kind: str, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Random starting points.

        Args:
            kind: one of `start_kinds`.
            count: how many.
            generator: for the same ones again.

        Returns:
            (count, n), float64.

        Raises:
            InputError: for a family that this problem does not have.
        """
        if kind not in self.start_kinds:
            raise InputError(f"kind: expected one of {', '.join(self.start_kinds)}, found {kind!r}.")
        return self._draw(kind, count, generator)

    @abstractmethod
    def _draw(self, kind: str, count: int, generator: torch.Generator | None) -> Tensor:
        """`starts`, for a kind that exists."""

    def _rand(self, count: int, generator: torch.Generator | None) -> Tensor:
        return torch.rand(count, self.n, generator=generator, dtype=torch.float64)


class HullProblem(Problem):
    """Each loss rises with the distance to its own centre, so that optima are the centres' hull.

    Attributes:
        centres: where each loss is smallest, (m, n), float64; made once, since calls happen inside vmap.
    """

    centres: Tensor

    def solutions(self, shares: Tensor) -> Tensor:
        """The shares' combinations of the centres."""
        return shares @ self.centres.to(shares)

    def image(self, shares: Tensor) -> Tensor:
        """F there."""
        return torch.func.vmap(self)(self.solutions(shares))


def lattice(m: int, k: int) -> Tensor:
    """The coarsest simplex lattice of at least k points, corners included.

    Returns:
        Non-negative rows that sum to 1, (k or more, m), float64; exactly k for m = 2.

    Example:
        >>> lattice(2, 3).tolist()
        [[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]
    """
    if m == 1:
        return torch.ones(1, 1, dtype=torch.float64)
    steps = 1
    while comb(steps + m - 1, m - 1) < k:
        steps += 1
    bars = torch.tensor(list(combinations(range(steps + m - 1), m - 1)), dtype=torch.float64)
    ends = torch.full((len(bars), 1), -1.0, dtype=torch.float64)
    edges = torch.cat([ends, bars, ends + (steps + m)], dim=1)
    return (edges.diff(dim=1) - 1) / steps


def uniform(m: int, count: int, generator: torch.Generator | None = None) -> Tensor:
    """Points drawn uniformly from the simplex, (count, m), float64."""
    exponential = -torch.rand(count, m, generator=generator, dtype=torch.float64).clamp_min(1e-300).log()
    return exponential / exponential.sum(dim=1, keepdim=True)


def distance_to_image(
    image: Callable[[Tensor], Tensor], losses: Tensor, parameters: int, samples: int = 2000
) -> Tensor:
    """Euclidean distances to ``{image(s) : s in the simplex}``.

    The nearest points of a lattice are refined by projected Newton steps: exact to rounding where the lattice
    finds the right valley.

    Args:
        image: ``(k, p) -> (k, m)``, twice differentiable up to the simplex's faces, vmappable.
        losses: (..., m).
        parameters: p.
        samples: the least number of lattice points.

    Returns:
        Distances (...), float64.
    """
    points = losses.detach().to(torch.float64).reshape(-1, losses.shape[-1])
    shares = lattice(parameters, samples)
    squares = _distances(points, image(shares))
    nearest = squares.topk(min(_CANDIDATES, len(shares)), largest=False).indices
    target = points.repeat_interleave(nearest.shape[1], dim=0)
    refined = _refine(image, shares[nearest].reshape(-1, parameters), target)
    return refined.reshape(nearest.shape).amin(dim=1).reshape(losses.shape[:-1])


def _distances(points: Tensor, others: Tensor) -> Tensor:
    return torch.cdist(points, others, compute_mode="donot_use_mm_for_euclid_dist")


def _refine(image: Callable[[Tensor], Tensor], shares: Tensor, target: Tensor) -> Tensor:
    """Distances (B,) after projected Newton steps from each of the shares (B, p).

    The largest share takes up what the others leave; shares at 0 that should fall stay there. Eigenvalues
    count by their absolute value, and damping follows success.
    """

    def half_square(s: Tensor, y: Tensor) -> Tensor:
        return (image(s[None])[0] - y).square().sum() / 2

    value = torch.func.vmap(half_square)
    gradient = torch.func.vmap(torch.func.grad(half_square))
    curvature = torch.func.vmap(torch.func.jacrev(torch.func.grad(half_square)))
    best, damping = value(shares, target), torch.full((len(shares), 1), 1e-3, dtype=torch.float64)
    size = target.square().sum(dim=1) + best
    final, runs = best.clone(), torch.arange(len(shares))  # the runs that still move
    for _ in range(_ITERATIONS):
        largest = one_hot(shares.argmax(dim=1), shares.shape[1]).bool()
        slopes, curves = _reduced(gradient(shares, target), curvature(shares, target), largest)
        free = ~(largest | ((shares <= 0) & (slopes > 0)))
        trial = (shares - _newton_step(slopes, curves, free, damping)).clamp_min(0)
        rest = 1 - trial.masked_fill(largest, 0).sum(dim=1, keepdim=True)
        trial = torch.where(largest, rest.clamp_min(0), trial)
        reached = torch.where(rest[:, 0] >= 0, value(trial, target), torch.inf)
        better = reached < best
        settled = best - reached.clamp_max(1e300) <= _SETTLED * best.abs() + _SETTLED**2 * size
        shares, best = torch.where(better[:, None], trial, shares), torch.where(better, reached, best)
        damping = torch.where(better[:, None], damping / 10, damping * 10).clamp_min(1e-15)
        final[runs] = best
        moving = (damping[:, 0] < _STUCK) & ~(better & settled)
        if not bool(moving.any()):
            break
        runs, shares, best, damping, target = (x[moving] for x in (runs, shares, best, damping, target))
        size = size[moving]
    return (2 * final).sqrt()


def _reduced(slopes: Tensor, curves: Tensor, largest: Tensor) -> tuple[Tensor, Tensor]:
    """Derivatives along ``e_i - e_largest``, (B, p) and (B, p, p)."""
    rows = curves[largest]
    corner = rows[largest][:, None, None]
    return slopes - slopes[largest][:, None], curves - rows[:, None] - rows[:, :, None] + corner


def _newton_step(slopes: Tensor, curves: Tensor, free: Tensor, damping: Tensor) -> Tensor:
    """The damped step (B, p) in the free shares, 0 in the others."""
    both = free[:, None] & free[:, :, None]
    eigenvalues, vectors = torch.linalg.eigh(torch.where(both, curves, 0.0))
    sizes = eigenvalues.abs()
    scale = sizes.amax(dim=1, keepdim=True).clamp_min(1e-300)
    along = (vectors.mT @ torch.where(free, slopes, 0.0)[..., None])[..., 0]
    step: Tensor = vectors @ (along / (sizes + damping * scale))[..., None]
    return step[..., 0]
