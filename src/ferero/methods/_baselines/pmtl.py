"""Pareto MTL: the losses' space is cut into sectors, one for each reference vector, and descent stays in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from ferero._arrays import Array, ArrayLike, check_finite, to_float64
from ferero.errors import InputError
from ferero.methods._baselines.ray import knows_rays_only, ray_of
from ferero.methods._method import Decision, Observation, check_observation, check_understood, in_dtype_of
from ferero.preference import Preference, spread
from ferero.subprogram import Program, check_gramians, solve_batched, solve_exact, without_asymmetry

__all__ = ["PMTL", "PMTLState"]

_SAME = 2.0**-20  # the distance of unit vectors below which they are the same one, as after a stay in float32
_NEAR = 0.05  # a face's thickness, as a share of the ray's own distance from it: narrow sectors have thin faces


@dataclass(frozen=True, eq=False)
class PMTLState:
    """What PMTL remembers, float64, (...) each.

    Attributes:
        steps: How often it was asked.
        arrived: 1 once the first phase is over.
    """

    steps: Tensor
    arrived: Tensor


@dataclass(frozen=True)
class PMTL:
    """Pareto multi-task learning (Lin et al. 2019): into the sector of the ray, then down inside it.

    The sector of the unit ray u among reference vectors u_j is where no u_j is nearer, ``(u_j - u).F <= 0`` for all j.

        phase 1: lam     = argmin |sum_j lam_j grad (u_j - u).F|^2             over the simplex, j with (u_j - u).F > 0
                 weights = sum_j lam_j (u_j - u)
        phase 2: lam     = argmin |gradF lam_f + sum_j lam_j grad (u_j - u).F|^2  over the simplex, j at the face
                 weights = lam_f + sum_j lam_j (u_j - u)

    The first phase ends for good with the first losses in the sector, or after ``warmup`` steps. Losses are at a face
    where they are beyond it, or nearer to it than a twentieth of the ray's distance (they could not be brought back
    later: on the front itself the shortest combination is 0, in the sector or not). The reference vector that is the
    ray itself takes no part.

    Cost: m backward passes for the gramian, and one small program in float64. Understands rays from the origin, and no
    constraint (the diagonal is then its ray). Choose it where a point of the front in the neighbourhood of the ray will
    do: it ends somewhere in the sector, which is the smaller the more reference vectors there are, or at a face of it
    before the front, where every descent leads out.

    Args:
        vectors: The reference vectors, rows of m numbers >= 0 of any length; None for ``spread(m, count)``, which for
            m >= 3 is not the same set when the losses are permuted.
        count: How many, where they are not given.
        warmup: The most steps that the first phase takes.
        solver: "exact", one program at a time on the CPU, or "batched", all at once on the losses' device.

    Example:
        >>> method, preference = PMTL(vectors=[[1, 0], [0, 1]]), Preference.ray([1.0, 0.0])
        >>> observation = Observation(losses=[1.0, 2.0], gramian=[[1.0, 0.0], [0.0, 1.0]])
        >>> decision, state = method.update(preference, observation, method.init(preference))
        >>> decision.weights.tolist()  # towards the first axis
        [-1.0, 1.0]
    """

    requires: ClassVar[frozenset[str]] = frozenset({"losses", "gramian"})
    has_merit: ClassVar[bool] = False

    vectors: Sequence[Sequence[float]] | None = None
    count: int = 5
    warmup: int = 100
    solver: Literal["exact", "batched"] = "exact"

    def __post_init__(self) -> None:
        object.__setattr__(self, "vectors", _checked_vectors(self.vectors))
        for name, least in (("count", 1), ("warmup", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise InputError(f"{name}: expected a whole number of at least {least}, found {value!r}.")
        if self.vectors is not None and self.count != PMTL.count:
            raise InputError(
                f"count: expected to be left out beside vectors, of which there are {len(self.vectors)}, found "
                f"{self.count}; give one of the two."
            )
        if self.solver not in ("exact", "batched"):
            raise InputError(f'solver: expected "exact" or "batched", found {self.solver!r}.')

    def understands(self, preference: Preference) -> str | None:
        """None for a ray or no constraint, else what it cannot do."""
        return knows_rays_only(self, preference)

    def init(self, preference: Preference) -> PMTLState:
        """The first phase, no step taken.

        Raises:
            UnsupportedError: A preference that it does not understand.
            InputError: Reference vectors for another number of losses.
        """
        check_understood(self, preference)
        self._faces(preference, torch.device("cpu"))
        zeros = torch.zeros(preference.batch_shape, dtype=torch.float64)
        return PMTLState(zeros, zeros.clone())

    def update(self, preference: Preference, observation: Observation, state: PMTLState) -> tuple[Decision, PMTLState]:
        """Finds the shortest combination of what counts in this phase.

        Args:
            preference: For a stack of P the observation has (..., P, m).
            observation: With losses (..., m) and gramian (..., m, m).
            state: From :meth:`init` or the last step.

        Returns:
            The decision and the next state.

        Raises:
            InputError: An observation without gramian, or one that does not fit.
            NonFiniteError: Losses or gramian that are not finite.
        """
        check_observation(self, preference, observation)
        assert observation.gramian is not None  # checked above
        F = observation.losses.detach().double()
        faces = self._faces(preference, F.device)
        beyond, near = _compare(faces, F)
        steps, arrived = (part.to(F.device).expand(F.shape[:-1]) for part in (state.steps, state.arrived))
        is_second = (arrived > 0) | (steps >= self.warmup) | ~beyond.any(dim=-1)
        counts = torch.cat(
            [is_second[..., None].expand(F.shape), torch.where(is_second[..., None], near, beyond)], dim=-1
        )
        identity = torch.eye(preference.m, dtype=faces.dtype, device=faces.device).expand(*faces.shape[:-2], -1, -1)
        rows = torch.cat([identity, faces], dim=-2) * counts[..., None]
        weights = _shortest(rows, counts, observation.gramian.detach(), self.solver)
        return Decision(in_dtype_of(weights, observation.losses)), PMTLState(steps + 1, is_second.double())

    def _faces(self, preference: Preference, device: torch.device) -> Tensor:
        """``u_j - u``, (..., K, m)."""
        assert self.vectors is None or isinstance(self.vectors, tuple)
        if self.vectors is not None and len(self.vectors[0]) != preference.m:
            raise InputError(
                f"vectors: expected rows of {preference.m} numbers, one for each of {', '.join(preference.names)}, "
                f"found {len(self.vectors[0])}."
            )
        return _faces_of(self.vectors, self.count, preference, device)


def _checked_vectors(vectors: ArrayLike | None) -> tuple[tuple[float, ...], ...] | None:
    if vectors is None:
        return None
    U = to_float64(vectors, "vectors")
    if U.ndim != 2 or U.numel() == 0:
        raise InputError(f"vectors: expected shape (K, m), one row for each, found {tuple(U.shape)}.")
    check_finite(U, "vectors")
    for j, row in enumerate(U.tolist()):
        if min(row) < 0 or max(row) == 0:
            raise InputError(f"vectors: expected rows of numbers >= 0, not all of them 0, found {row} in row {j}.")
    return tuple(map(tuple, U.tolist()))


@lru_cache(maxsize=256)
def _faces_of(
    vectors: tuple[tuple[float, ...], ...] | None, count: int, preference: Preference, device: torch.device
) -> Tensor:
    """Unit reference vectors less the unit ray, (..., K, m); zero for the ray itself."""
    U = spread(preference.m, count) if vectors is None else torch.tensor(vectors, dtype=torch.float64)
    faces = torch.nn.functional.normalize(U, dim=-1) - ray_of(preference, torch.device("cpu"))[..., None, :]
    is_ray = faces.norm(dim=-1, keepdim=True) <= _SAME
    return torch.where(is_ray, 0.0, faces).to(device)


def _compare(faces: Tensor, F: Tensor) -> tuple[Tensor, Tensor]:
    """Which faces (..., K) the losses are beyond, and which they are at or beyond; never that of the ray itself."""
    values = (faces @ F[..., None])[..., 0]
    of_ray = 0.5 * faces.square().sum(dim=-1)  # -(u_j - u).u
    near = (values >= -_NEAR * of_ray * F.norm(dim=-1, keepdim=True)) & (of_ray > 0)
    return values > 0, near


def _shortest(rows: Tensor, counts: Tensor, gramian: Tensor, solver: Literal["exact", "batched"]) -> Tensor:
    """The weights (..., m) of the shortest convex combination of gradients, those of rows that count.

    Args:
        rows: (..., k, m), zero where they do not count.
        counts: (..., k), bool, in each program at least one.
        gramian: K, (..., m, m), of any type; batch dimensions broadcast.
        solver: as for PMTL.
    """
    k, m = rows.shape[-2:]
    batch = np.broadcast_shapes(rows.shape[:-2], gramian.shape[:-2])
    S, used = rows.expand(*batch, k, m).reshape(-1, k, m), counts.expand(*batch, k).reshape(-1, k)
    if solver == "exact":
        K = check_gramians(gramian.expand(*batch, m, m).reshape(-1, m, m))
        lam = torch.from_numpy(_one_by_one(S.cpu().numpy(), used.cpu().numpy(), K)).to(S)
    else:
        K_here = without_asymmetry(gramian.to(S.device)).expand(*batch, m, m).reshape(-1, m, m)
        zero, one = torch.zeros_like(S[..., 0]), torch.ones_like(S[:, 0, 0])
        lam = solve_batched(S, K_here, zero, used.to(S), one)[0]
    return (lam[:, None] @ S)[:, 0].reshape(*batch, m)


def _one_by_one(rows: Array, counts: Array, gramians: Array) -> Array:
    """Multipliers (P, k), 0 for rows that do not count."""
    lam = np.zeros(counts.shape)
    for i, used in enumerate(counts):
        number = int(used.sum())
        program = Program(rows[i, used], gramians[i], np.zeros(number), np.ones(number), 1.0)
        lam[i, used] = solve_exact(program).multipliers
    return lam
