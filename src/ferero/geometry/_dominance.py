"""The nondominated points among many, under any cone."""

from __future__ import annotations

import torch
from torch import Tensor

from ferero._arrays import ArrayLike, check_finite, to_float64
from ferero.errors import InputError, NonFiniteError
from ferero.geometry._cone import Cone

__all__ = ["nondominated"]

_NUMBERS = 1 << 21  # losses compared at once: bounds the memory, yet large enough to hide the overhead of a call


def nondominated(points: ArrayLike, cone: Cone | None = None) -> Tensor:
    """Marks the points that no other one dominates.

    Equal points do not dominate each other, so all copies of a good point are kept. Time grows with n times
    the number of points kept, memory with n.

    Args:
        points: Losses (n, m).
        cone: The order; the orthant if None.

    Returns:
        Booleans (n,), on the device of ``points``.

    Raises:
        InputError: ``points`` is not (n, m) with the cone's m.
        NonFiniteError: A point is not finite.

    Example:
        >>> nondominated([[1, 2], [2, 1], [2, 2]])
        tensor([ True,  True, False])
    """
    losses = to_float64(points, "points")
    m = None if cone is None else cone.m
    if losses.ndim != 2 or losses.shape[1] == 0 or m not in {None, losses.shape[1]}:
        raise InputError(f"points: expected shape (n, {m or 'm'}), found {tuple(losses.shape)}.")
    check_finite(losses, "points", NonFiniteError)
    mask = torch.zeros(len(losses), dtype=torch.bool, device=losses.device)
    mask[_survivors(losses, cone or Cone.orthant(losses.shape[1]))] = True
    return mask


def _survivors(losses: Tensor, cone: Cone) -> Tensor:
    """Indices of the nondominated points, found by comparing a block of challengers with all points left.

    The best by the sum of the rows come first: they remove the most, and a removed point is never a challenger.
    Pairs that ``A u`` and ``A v`` already rule out, with a margin for rounding, are skipped.
    """
    A = cone.matrix.to(losses.device)
    floor = A @ losses.T
    reach = (A.abs() @ losses.T.abs()).amax(dim=1, keepdim=True) if len(losses) else 0.0
    ceiling = floor + 4 * cone.m * torch.finfo(torch.float64).eps * reach
    alive = floor.sum(dim=0).argsort(stable=True)
    met = 0
    while met < len(alive):
        block = alive[met : met + max(1, _NUMBERS // (len(alive) * cone.m))]
        i, j = _possible_pairs(floor[:, block], ceiling[:, alive])
        beaten = torch.zeros_like(alive, dtype=torch.bool)
        beaten[j[cone.dominates(losses[block[i]], losses[alive[j]])]] = True
        met = met + len(block) - int(beaten[: met + len(block)].sum())
        alive = alive[~beaten]
    return alive


def _possible_pairs(floor: Tensor, ceiling: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs (i, j) of columns of (k, p) and (k, q) with ``floor[:, i] <= ceiling[:, j]`` in every row."""
    possible = floor[0][:, None] <= ceiling[0]
    for low, high in zip(floor[1:], ceiling[1:], strict=True):
        possible &= low[:, None] <= high
    i, j = possible.nonzero(as_tuple=True)
    return i, j
