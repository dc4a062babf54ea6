"""How far losses are from a front that is given as the smooth image of a simplex."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ferero_lab.problems.simplex import lattice

__all__ = ["distance_to_image"]

_CANDIDATES = 4
_ITERATIONS = 100
_STUCK = 1e3  # the damping at which no step helps any more
_SETTLED = 1e-14  # the relative gain that is only rounding


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
