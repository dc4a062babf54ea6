"""The gramian learned from slopes: each step reveals one product ``K w``, and the subprogram is solved on the estimate.

Experimental: it stands beside the single loop, which pays the same price for its slopes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ferero.errors import InputError
from ferero.methods._ferero_sa import adaptive_domain, apply_rows
from ferero.methods._method import Decision, Observation, check_observation, in_dtype_of
from ferero.preference import Preference
from ferero.subprogram import Domain
from ferero.subprogram._batched import solve_batched
from ferero.subprogram._exact import solve_exact
from ferero.subprogram._program import Program, augmented_rows

__all__ = ["FereroQG", "FereroQGState", "positive_part"]

QGSolver: TypeAlias = Literal["auto", "exact", "batched"]

TINY = torch.finfo(torch.float64).tiny
_INERTIA = 2.0**-5  # of the weights, relative to the mean eigenvalue of the estimate; moves no fixed point
_FORGETTING = 0.1  # of the misses, by whose mean and size noise is told from news
_SIGN_ITERATIONS = 24
_FEW = 16  # programs up to which solving one after the other is quicker than all at once


@dataclass(frozen=True, eq=False)
class FereroQGState:
    """The estimate of the gramian, float64, which is in units of the losses' first sizes, as its misses are.

    Attributes:
        estimate: Of the gramian, (..., m, m), symmetric positive semidefinite; 0 before the first slopes.
        multipliers: ``[lam_f; lam_g; lam_h]`` of the last step before the weights were shortened, (..., k).
        weights: The last weights, as they were returned, (..., m); 0 before the first step.
        losses: The last value of each loss, (..., m).
        units: The first size of each loss, (..., m); 0 where none was seen.
        miss: Running mean of what the estimate missed, (..., m).
        spread: Running mean of its square, (...).
        pairs: How many pairs of weights and slopes were learned from, (...).
    """

    estimate: Tensor
    multipliers: Tensor
    weights: Tensor
    losses: Tensor
    units: Tensor
    miss: Tensor
    spread: Tensor
    pairs: Tensor

    def like(self, losses: Tensor) -> FereroQGState:
        """The same state on the losses' device and with their leading dimensions."""
        missing = losses.ndim - self.losses.ndim
        if missing == 0 and self.losses.device == losses.device:
            return self
        parts = (getattr(self, field.name).to(losses.device) for field in fields(self))
        return FereroQGState(*(part.expand((*losses.shape[:missing], *part.shape)) for part in parts))


@dataclass(frozen=True)
class FereroQG:
    """FERERO on a gramian that is learned from slopes. Experimental.

    With ``y = -slopes = K w`` of the last step, ``u = w / |w|`` and the miss ``r = y / |w| - E u`` of the estimate E:

        E       <- [E + beta (r u^T + u r^T - (u.r) u u^T)]_+      (damped Powell-symmetric-Broyden, eigenvalues >= 0)
        lam     = argmin  w.E w / 2 + delta |w - w_last|^2 / 2 - c_g lam_g.G - c_h lam_h.H   over the domain
        weights = w = A^T lam_f + B_g^T lam_g + B_h^T lam_h, divided by max(1, |w| / |A^T lam_f|)

    beta is how much of the misses is news: the square of their running mean over the running mean of their squares,
    near 1 while the estimate is wrong and near 0 when all that is left is noise. delta is a small part of E's mean
    eigenvalue; what the estimate does not know is held still by it, and no fixed point moves: there ``E w = K w``, so
    that the weights solve the true subprogram. All sizes are measured in units of the losses' first values, so that
    nothing depends on the units of the losses. The first step takes uniform multipliers, and needs no slopes.

    A loss that is not present keeps its value, and is taken to have done what was expected.

    Cost: besides one weighted backward pass what the slopes cost, which is one forward pass for any m, and one small
    program in float64. Understands every preference. Choose it where `FereroSA` would do, if its step gamma is not
    to be tuned.

    Args:
        c_g: How much of the inequalities' violation a unit step should undo.
        c_h: The same for equalities.
        domain: "simplex" (any losses) or "adaptive" (escapes weak optima, needs A F >= 0, restless in noise).
        bound: Largest size of a constraint's multiplier; None for no bound.
        damping: A fixed beta in (0, 1]; None to judge it by the misses.
        solver: "exact" (one program after the other, on the CPU), "batched" (all at once, without a host
            sync), or "auto": exact for a few programs on the CPU.

    Example:
        >>> method, preference = FereroQG(damping=1.0), Preference.pareto(2)
        >>> decision, state = method.update(preference, Observation([1.0, 1.0]), method.init(preference))
        >>> observation = Observation([0.5, 1.0], slopes=[-2.0, -0.5])  # the gramian is diag(4, 1)
        >>> decision, state = method.update(preference, observation, state)
        >>> decision.weights.tolist()[0] < decision.weights.tolist()[1]  # the steeper loss needs less weight
        True
    """

    requires: ClassVar[frozenset[str]] = frozenset({"losses", "slopes"})
    has_merit: ClassVar[bool] = False

    c_g: float = 1.0
    c_h: float = 1.0
    domain: Domain = "simplex"
    bound: float | None = 10.0
    damping: float | None = None
    solver: QGSolver = "auto"

    def __post_init__(self) -> None:
        for name in ("c_g", "c_h", "bound"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InputError(f"{name}: expected a positive finite number, found {value!r}.")
        if self.damping is not None and not 0 < self.damping <= 1:
            raise InputError(f"damping: expected a number in (0, 1], or None to judge it, found {self.damping!r}.")
        if self.domain not in ("adaptive", "simplex"):
            raise InputError(f'domain: expected "adaptive" or "simplex", found {self.domain!r}.')
        if self.solver not in ("auto", "exact", "batched"):
            raise InputError(f'solver: expected "auto", "exact" or "batched", found {self.solver!r}.')

    def understands(self, preference: Preference) -> str | None:  # noqa: ARG002  # part of the protocol
        """None: it takes every preference."""
        return None

    def init(self, preference: Preference) -> FereroQGState:
        """Nothing known, uniform multipliers for the order; 0 for constraints."""
        m, batch = preference.m, preference.batch_shape
        uniform = _matrices_of(self, preference, preference.A.device).uniform.clone()
        shapes = ((m,), (m,), (m,), (m,), (), ())
        return FereroQGState(
            uniform.new_zeros(*batch, m, m), uniform, *(uniform.new_zeros((*batch, *shape)) for shape in shapes)
        )

    def update(
        self, preference: Preference, observation: Observation, state: FereroQGState
    ) -> tuple[Decision, FereroQGState]:
        """Learns from the last step and solves the subprogram. Without a host sync on a GPU.

        Args:
            preference: For a stack of P the observation has (..., P, m).
            observation: With losses (..., m) and, from the second step on, the last one's slopes (..., m).
            state: From :meth:`init` or the last step.

        Returns:
            The decision and the next state.

        Raises:
            InputError: An observation that does not fit; on the CPU also slopes that are missing after the first
                step (elsewhere nothing is learned then), or losses that the adaptive domain cannot take (elsewhere
                negative ones count as 0 there).
            NonFiniteError: Losses or slopes that are not finite (checked on the CPU only).
        """
        losses, slopes, present = observation.losses.detach(), observation.slopes, observation.present
        is_first = slopes is None and (losses.device.type != "cpu" or not state.weights.any())
        check_observation(self, preference, observation, ("losses",) if is_first else self.requires)
        F = losses.double()
        old = state.like(F)
        fixed = _matrices_of(self, preference, F.device)

        F = F if present is None else torch.where(present, F, old.losses)
        units = torch.where(old.units > 0, old.units, F.abs())
        unit = _known(units)
        learned = _Learned(old.estimate, old.miss, old.spread, old.pairs)
        if slopes is not None:
            learned = self._learn(-slopes.detach().to(F), unit, present, old)
        lam = self._solve(fixed, F, unit, learned.estimate, old.multipliers, None if present is None else units)

        total = apply_rows(fixed.transposed, lam)
        objective = apply_rows(fixed.A.mT, lam[..., : fixed.A.shape[-2]])
        ends = (total.abs() * unit).sum(dim=-1, keepdim=True), (objective.abs() * unit).sum(dim=-1, keepdim=True)
        crowding = torch.maximum(ends[0] / ends[1].clamp(min=TINY), torch.ones_like(ends[0]))
        weights = in_dtype_of(total / crowding, losses)
        return Decision(weights, lam / crowding), FereroQGState(
            learned.estimate, lam, weights.double(), F, units, learned.miss, learned.spread, learned.pairs
        )

    def _learn(self, products: Tensor, unit: Tensor, present: Tensor | None, old: FereroQGState) -> _Learned:
        """The estimate after one more pair of weights and ``K w``, (..., m) each."""
        w, y = old.weights * unit, products / unit
        y = y if present is None else torch.where(present, y, 0.0)  # of a missing loss it may be NaN
        size = w.norm(dim=-1, keepdim=True)
        u, y = w / (size + (size == 0)), torch.where(size > 0, y / size, 0.0)  # no weights, no news
        identity = torch.eye(w.shape[-1], dtype=w.dtype, device=w.device)
        is_new = old.estimate.diagonal(dim1=-2, dim2=-1).sum(dim=-1) == 0
        E = torch.where(is_new[..., None, None], _first_size(u, y)[..., None, None] * identity, old.estimate)
        r = y - (E @ u[..., None])[..., 0]
        if present is not None:
            r = torch.where(present, r, 0.0)
        pairs = old.pairs + (size[..., 0] > 0)
        rate = pairs.clamp(min=1).reciprocal().clamp(min=_FORGETTING)
        miss = torch.lerp(old.miss, r, rate[..., None])
        spread = torch.lerp(old.spread, r.square().sum(dim=-1), rate)
        beta = miss.square().sum(dim=-1) / spread.clamp(min=TINY)
        if self.damping is not None:
            beta = torch.full_like(beta, self.damping)
        r, u = r[..., None], u[..., None]
        news = r @ u.mT + u @ r.mT - (u.mT @ r) * (u @ u.mT)
        return _Learned(positive_part(E + beta[..., None, None] * news), miss, spread, pairs)

    def _solve(
        self, fixed: _QGMatrices, F: Tensor, unit: Tensor, estimate: Tensor, last: Tensor, seen: Tensor | None
    ) -> Tensor:
        """Multipliers (..., k) of the subprogram on the estimate, near the last ones; uniform if nothing is known."""
        level = estimate.diagonal(dim1=-2, dim2=-1).mean(dim=-1)
        is_known = (level > 0)[..., None]
        inertia = torch.where(is_known, _INERTIA * level[..., None], 1.0) * unit.square()
        K = estimate * (unit[..., :, None] * unit[..., None, :]) + torch.diag_embed(inertia)
        held = inertia * apply_rows(fixed.transposed, last)
        linear = apply_rows(fixed.pull, F, fixed.offset) + apply_rows(fixed.rows, held)
        a, b = fixed.simplex or adaptive_domain(apply_rows(fixed.A, F), seen, fixed.used)
        batch = F.shape[:-1]
        programs = (
            _flat(fixed.rows, batch, 2),
            _flat(K, batch, 2),
            _flat(linear, batch, 1),
            _flat(a, batch, 1),
            _flat(b, batch, 0),
        )
        is_small = F.device.type == "cpu" and len(programs[0]) <= _FEW
        is_exact = self.solver == "exact" or (self.solver == "auto" and is_small)
        solve = _one_by_one if is_exact else solve_batched
        lam = solve(*programs, fixed.equalities, fixed.bound)[0].reshape(*batch, -1)
        return torch.where(is_known, lam, fixed.uniform)


class _Learned(NamedTuple):
    """The fields of the state that slopes change."""

    estimate: Tensor
    miss: Tensor
    spread: Tensor
    pairs: Tensor


class _QGMatrices(NamedTuple):
    """Matrices that never change between steps, on the losses' device, float64.

    Attributes:
        A: The order's rows, (..., k_f, m).
        rows: ``S = [A; B_g; B_h]``, (..., k, m).
        transposed: ``S^T``, (..., m, k).
        pull: ``C S`` with C the diagonal of 0, c_g, c_h, (..., k, m).
        offset: ``C b``, (..., k).
        uniform: Equal multipliers for the order's rows, in its domain, (..., k).
        used: 1 for the order's rows that are no padding, (..., k_f).
        simplex: a (..., k_f) and b (...) of the domain that does not move; None for the adaptive one.
        equalities: The number of equalities.
        bound: Of the constraints' multipliers.
    """

    A: Tensor
    rows: Tensor
    transposed: Tensor
    pull: Tensor
    offset: Tensor
    uniform: Tensor
    used: Tensor
    simplex: tuple[Tensor, Tensor] | None
    equalities: int
    bound: float


@lru_cache(maxsize=256)
def _matrices_of(method: FereroQG, preference: Preference, device: torch.device) -> _QGMatrices:
    """Cached: read at every step, and a copy to a GPU is a host sync."""
    p = preference
    S, b, (k_f, _, _) = augmented_rows(p)
    constraints = p.m_g + p.m_h
    rates = S.new_tensor([0.0] * k_f + [method.c_g] * p.m_g + [method.c_h] * p.m_h)
    a = (p.A != 0).any(dim=-1).to(S)
    is_simplex = method.domain == "simplex"
    uniform = a / a.sum(dim=-1, keepdim=True) if is_simplex else a
    return _QGMatrices(
        p.A.to(device),
        S.to(device),
        S.mT.contiguous().to(device),
        (rates[:, None] * S).to(device),
        (rates * b).to(device),
        torch.nn.functional.pad(uniform, (0, constraints)).to(device),
        a.to(device),
        (a.to(device), torch.ones_like(a[..., 0], device=device)) if is_simplex else None,
        p.m_h,
        math.inf if method.bound is None else method.bound,
    )


def _known(units: Tensor) -> Tensor:
    """The units (..., m); one that is not known (yet) counts as the mean one, or 1."""
    is_known = units > 0
    usual = units.sum(dim=-1, keepdim=True) / is_known.sum(dim=-1, keepdim=True).clamp(min=1)
    return torch.where(is_known, units, usual + (usual == 0))


def _first_size(u: Tensor, y: Tensor) -> Tensor:
    """The multiple of the identity, (...), that explains ``y = K u`` best for a unit vector u; |y| if negative."""
    along = (u * y).sum(dim=-1)
    return torch.where(along > 0, along, y.norm(dim=-1))


def positive_part(matrix: Tensor) -> Tensor:
    """A symmetric matrix (..., m, m) without its negative eigenvalues.

    Elsewhere than on the CPU by the iteration ``X <- (3 X - X^3) / 2`` for the matrix sign, since an eigenvalue solver
    is a host sync; eigenvalues below 1e-4 of the largest may then stay negative, which the inertia covers.
    """
    matrix = 0.5 * (matrix + matrix.mT)
    if matrix.device.type == "cpu":
        values, vectors = torch.linalg.eigh(matrix)
        clipped: Tensor = (vectors * values.clamp(min=0)[..., None, :]) @ vectors.mT
        return clipped
    return _by_sign(matrix)


def _by_sign(matrix: Tensor) -> Tensor:
    """``(M + M sign(M)) / 2``."""
    X: Tensor = matrix / torch.linalg.matrix_norm(matrix, keepdim=True).clamp(min=TINY)
    for _ in range(_SIGN_ITERATIONS):
        X = 1.5 * X - 0.5 * (X @ X @ X)
    absolute = matrix @ X
    return 0.5 * matrix + 0.25 * (absolute + absolute.mT)


def _flat(tensor: Tensor, batch: torch.Size, kept: int) -> Tensor:
    """Broadcast to ``batch`` and flattened to (P, ...); the last ``kept`` dimensions stay."""
    tail = tensor.shape[tensor.ndim - kept :]
    return tensor.expand((*batch, *tail)).reshape(-1, *tail)


def _one_by_one(
    rows: Tensor, gramian: Tensor, linear: Tensor, simplex: Tensor, total: Tensor, equalities: int, bound: float
) -> tuple[Tensor, Tensor]:
    """`solve_batched` by the exact solver."""
    arrays = [part.numpy(force=True) for part in (rows, gramian, linear, simplex, total)]
    answers = [
        solve_exact(Program(S, K, q, a, float(b), equalities, bound)) for S, K, q, a, b in zip(*arrays, strict=True)
    ]
    found = np.stack([answer.multipliers for answer in answers])
    residuals = np.array([answer.residual for answer in answers])
    return torch.from_numpy(found).to(rows.device), torch.from_numpy(residuals)
