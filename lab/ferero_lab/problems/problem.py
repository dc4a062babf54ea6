"""What every test problem carries: the losses, and the truth about them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from ferero.errors import InputError
from ferero_lab.problems import simplex
from ferero_lab.problems.distance import distance_to_image

__all__ = ["HullProblem", "Problem"]


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
        return self.image(simplex.lattice(self.m, k))

    def rays(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Unit vectors (count, m) from the origin through random points of the front: all are attainable."""
        points = self.image(simplex.uniform(self.m, count, generator))
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
