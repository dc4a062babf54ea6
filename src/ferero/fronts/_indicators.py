"""Indicators: the hypervolume of a set of points, and how far losses are off a ray."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ferero._arrays import ArrayLike, check_finite, to_float64, to_vectors
from ferero.errors import InputError, MissingExtraError, NonFiniteError

__all__ = ["hypervolume", "ray_error", "relative_loss_profile"]

_EXACT_UP_TO = 8  # losses; beyond, the exact algorithm's O(n^(m-2)) is hours


def hypervolume(points: ArrayLike, ref: ArrayLike) -> float:
    """The volume that the points dominate below ``ref``: larger is better.

    ``volume({y : p <= y <= ref for some p})``, losses being minimised. Points that do not dominate ``ref`` in
    every loss add nothing and are ignored. Up to m = 8 the volume is exact; beyond, it is moocore's
    deterministic approximation (``hv_approx``, 262,144 directions; about 1e-3 relative at m = 9), taken in
    units of the box that the points and ``ref`` span, so that the units of the losses do not matter.

    Args:
        points: losses (n, m); n may be 0.
        ref: losses (m,) worse than those of interest, or one number for all.

    Returns:
        The volume, 0.0 where no point dominates ``ref``.

    Raises:
        InputError: for shapes that do not fit.
        NonFiniteError: for a number that is NaN or infinite.
        MissingExtraError: without moocore; it comes with ``ferero[metrics]``.

    Example:
        >>> hypervolume([[1, 2], [2, 1], [9, 9]], ref=[3, 3])
        3.0
    """
    losses = to_float64(points, "points").cpu()
    if losses.ndim != 2 or losses.shape[1] == 0:
        raise InputError(f"points: expected shape (n, m), one row per point, found {tuple(losses.shape)}.")
    check_finite(losses, "points", NonFiniteError)
    m = losses.shape[1]
    corner = _reference(ref, m)
    try:
        import moocore
    except ImportError:
        raise MissingExtraError(
            'hypervolume: moocore is not installed; it comes with pip install "ferero[metrics]".'
        ) from None
    inside = losses[(losses < corner).all(dim=1)]
    if len(inside) == 0:
        return 0.0
    if m <= _EXACT_UP_TO:
        return float(moocore.hypervolume(inside.numpy(), ref=corner.numpy()))
    ideal = inside.amin(dim=0)
    box = corner - ideal
    share = moocore.hv_approx(((inside - ideal) / box).numpy(), ref=1.0)
    return float(share) * float(box.prod())


def ray_error(losses: ArrayLike, ray: ArrayLike, through: ArrayLike | None = None) -> Tensor:
    """Degrees between ``F - through`` and the ray, between 0 and 180.

    ``atan2(|u ^ v|, u . v)`` for ``u = F - through`` and the ray v, with ``|u ^ v|^2`` the sum of
    ``(u_i v_j - u_j v_i)^2`` over pairs: tiny angles keep their digits, to about 1e-14 degrees.

    Args:
        losses: F (..., m).
        ray: (m,), or (..., m) to broadcast against the losses; of any length but zero.
        through: where the ray starts, (m,) or (..., m); None is the origin.

    Returns:
        Degrees (...), float64; 0 where ``F = through`` and nan where F is not finite.

    Raises:
        InputError: for shapes that do not fit, or a ray that is zero or not finite.

    Example:
        >>> ray_error([[1, 1], [0, 3], [2, 0]], ray=[1, 1])
        tensor([ 0., 45., 45.], dtype=torch.float64)
    """
    u = to_float64(losses, "losses")
    v = _read_ray(ray, u)
    if through is not None:
        start = to_vectors(through, "through", v.shape[-1]).to(u.device)
        check_finite(start, "through")
        _check_broadcast(u, start, "losses, through")
        u = u - start
    _check_broadcast(u, v, "losses, ray")
    finite = u.isfinite().all(dim=-1)
    u, v = _near_one(torch.where(finite[..., None], u, 0.0)), _near_one(v)
    i, j = torch.triu_indices(v.shape[-1], v.shape[-1], offset=1, device=u.device)
    wedge = torch.linalg.vector_norm(u[..., i] * v[..., j] - u[..., j] * v[..., i], dim=-1)
    degrees = torch.rad2deg(torch.atan2(wedge, (u * v).sum(dim=-1)))
    return torch.where(finite, degrees, torch.nan)


def relative_loss_profile(losses: ArrayLike, ray: ArrayLike) -> Tensor:
    """The losses in units of the ray, as shares: ``(F_i / r_i) / sum_j (F_j / r_j)``.

    All shares are 1/m exactly where the losses lie on the ray.

    Args:
        losses: F (..., m).
        ray: positive numbers (m,), or (..., m) to broadcast against the losses.

    Returns:
        Shares (..., m), float64; nan where they have no sum.

    Raises:
        InputError: for shapes that do not fit, or a ray that is not positive.

    Example:
        >>> relative_loss_profile([2.0, 2.0], ray=[1.0, 2.0])
        tensor([0.6667, 0.3333], dtype=torch.float64)
    """
    F = to_float64(losses, "losses")
    r = _read_ray(ray, F)
    if not bool((r > 0).all()):
        raise InputError(f"ray: expected positive numbers, found {r.min().item():g}; losses are divided by them.")
    _check_broadcast(F, r, "losses, ray")
    relative = F / r
    return relative / relative.sum(dim=-1, keepdim=True)


def _reference(ref: ArrayLike, m: int) -> Tensor:
    corner = to_float64(ref, "ref").cpu()
    if corner.shape not in {(), (m,)}:
        raise InputError(f"ref: expected shape ({m},), as the points have, or one number, found {tuple(corner.shape)}.")
    check_finite(corner, "ref", NonFiniteError)
    return corner.expand(m)


def _read_ray(ray: ArrayLike, losses: Tensor) -> Tensor:
    """A finite, non-zero ray (..., m) on the losses' device."""
    if losses.ndim == 0:
        raise InputError("losses: expected shape (..., m), found one number.")
    vectors = to_vectors(ray, "ray", losses.shape[-1]).to(losses.device)
    check_finite(vectors, "ray")
    if not bool(vectors.any(dim=-1).all()):
        raise InputError("ray: expected a direction, found all zeros; make one component non-zero.")
    return vectors


def _check_broadcast(a: Tensor, b: Tensor, arguments: str) -> None:
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise InputError(
            f"{arguments}: expected shapes that broadcast, found {tuple(a.shape)} and {tuple(b.shape)}."
        ) from None


def _near_one(vectors: Tensor) -> Tensor:
    """The vectors over a power of two near their largest entry: no overflow and no rounding."""
    _, exponent = torch.frexp(vectors.abs().amax(dim=-1, keepdim=True))
    half = torch.div(exponent, 2, rounding_mode="floor")  # 2^-exponent itself could overflow
    return torch.ldexp(torch.ldexp(vectors, -half), half - exponent)
