"""How far losses are from a front that is given as the smooth image of a simplex."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ferero_lab.problems.simplex import lattice

__all__ = ["distance_to_image"]

_CANDIDATES = 4
_ITERATIONS = 40


def distance_to_image(
    image: Callable[[Tensor], Tensor], losses: Tensor, parameters: int, samples: int = 2000
) -> Tensor:
    """Euclidean distances to ``{image(s) : s in the simplex}``.

    The nearest points of a lattice are refined by damped Newton steps in z, with ``s = z^2 / |z|^2``, which
    reaches the simplex's faces without constraints. Exact to rounding where the lattice finds the right
    valley.

    Args:
        image: ``(k, p) -> (k, m)``, twice differentiable, vmappable.
        losses: (..., m).
        parameters: p.
        samples: the least number of lattice points.

    Returns:
        Distances (...), float64.
    """
    points = losses.detach().to(torch.float64).reshape(-1, losses.shape[-1])
    shares = lattice(parameters, samples)
    found = torch.cdist(points, image(shares)).topk(min(_CANDIDATES, len(shares)), largest=False)
    inner = 0.999 * shares + 0.001 / parameters  # z_i = 0 would stay 0
    z = inner[found.indices].sqrt().reshape(-1, parameters)
    target = points.repeat_interleave(found.indices.shape[1], dim=0)
    refined = _refine(image, z, target).reshape(found.values.shape)
    return torch.minimum(refined, found.values).amin(dim=1).reshape(losses.shape[:-1])


def _refine(image: Callable[[Tensor], Tensor], z: Tensor, target: Tensor) -> Tensor:
    """Distances after Newton steps from each z, (B,); eigenvalues by absolute value, damping by success."""

    def half_square(z: Tensor, y: Tensor) -> Tensor:
        return (image((z.square() / z.square().sum())[None])[0] - y).square().sum() / 2

    value = torch.func.vmap(half_square)
    gradient = torch.func.vmap(torch.func.grad(half_square))
    curvature = torch.func.vmap(torch.func.jacrev(torch.func.grad(half_square)))
    best, damping = value(z, target), torch.full((len(z), 1), 1e-3, dtype=torch.float64)
    for _ in range(_ITERATIONS):
        eigenvalues, vectors = torch.linalg.eigh(curvature(z, target))
        sizes = eigenvalues.abs()
        slopes = (vectors.mT @ gradient(z, target)[..., None])[..., 0]
        floor = sizes.amax(dim=1, keepdim=True).clamp_min(1e-12)
        trial = z - (vectors @ (slopes / (sizes + damping * floor))[..., None])[..., 0]
        trial = trial / trial.norm(dim=1, keepdim=True)
        reached = value(trial, target)
        better = reached < best
        z, best = torch.where(better[:, None], trial, z), torch.where(better, reached, best)
        damping = torch.where(better[:, None], damping / 10, damping * 10).clamp(1e-15, 1e8)
    return (2 * best).sqrt()
