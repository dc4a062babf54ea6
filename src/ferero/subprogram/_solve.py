"""`solve_subprogram`: from a preference, losses and a gramian to the steepest direction that the preference allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from ferero._arrays import Array, ArrayLike, check_finite, to_float64
from ferero.errors import InputError, NonFiniteError, UnsupportedError
from ferero.preference import Preference
from ferero.preference._preference import check_steady
from ferero.subprogram._batched import solve_programs
from ferero.subprogram._consistency import is_doubtful, is_inconsistent
from ferero.subprogram._exact import solve_exact
from ferero.subprogram._frank_wolfe import frank_wolfe
from ferero.subprogram._gramian import check_gramian, without_asymmetry
from ferero.subprogram._pgd import pgd
from ferero.subprogram._program import EPSILON, AugmentedRows, Domain, Program, Programs, augmented_rows, simplex_of

__all__ = [
    "LARGE",
    "UNBOUNDED_PRICE",
    "Solution",
    "Solver",
    "Status",
    "check_options",
    "solve_on_device",
    "solve_subprogram",
]

Status: TypeAlias = Literal["optimal", "unbounded"]
Solver: TypeAlias = Literal["exact", "pgd", "frank-wolfe", "batched"] | Callable[[Programs], Tensor]

LARGE = 1e6  # stands in for no bound: to tell whether there is a solution without one would be a host sync
UNBOUNDED_PRICE = 1e3  # the bound whose elastic solution stands in where there is none

CPU = torch.device("cpu")
_FLOATS = {torch.float64, torch.float32, torch.float16}
_ROUNDING = {t: torch.finfo(t).eps for t in (torch.float32, torch.float16, torch.bfloat16)}
_IN_TORCH: dict[str, Callable[[Programs], Tensor]] = {
    "pgd": pgd,
    "frank-wolfe": frank_wolfe,
    "batched": lambda programs: solve_programs(programs)[0],
}


@dataclass(frozen=True, eq=False)
class Solution:
    """The subprogram's solution; float64 tensors with the batch dimensions of the call.

    Weights, slopes, c and psi are unique. Multipliers are not: ``[A; B_g; B_h]`` has more rows than losses.

    Attributes:
        weights: ``w = A^T lam_f + B_g^T lam_g + B_h^T lam_h``, (..., m); the direction is ``d = -gradF w``.
        multipliers: ``[lam_f; lam_g; lam_h]``, (..., k).
        slopes: ``gradF^T d = -K w``, (..., m): negative where a loss falls.
        c: The primal's c, (...).
        psi: ``c + |d|^2 / 2``, (...): minus the dual's minimum, less the price of what a bound leaves unmet.
        residual: The worst relative violation of the optimality conditions, (...).
        status: "optimal", or "unbounded" where the linearised constraints contradict each other; for a batch
            a tuple of them, in row-major order.
        solver: The solver that found the multipliers.
        sizes: The numbers of rows (k_f, m_g, m_h).
    """

    weights: Tensor
    multipliers: Tensor
    slopes: Tensor
    c: Tensor
    psi: Tensor
    residual: Tensor
    status: Status | tuple[Status, ...]
    solver: str
    sizes: tuple[int, int, int]

    @property
    def lam_f(self) -> Tensor:
        """Multipliers of the order's rows, (..., k_f)."""
        return self.multipliers[..., : self.sizes[0]]

    @property
    def lam_g(self) -> Tensor:
        """Multipliers of the inequalities, (..., m_g), not negative."""
        return self.multipliers[..., self.sizes[0] : self.sizes[0] + self.sizes[1]]

    @property
    def lam_h(self) -> Tensor:
        """Multipliers of the equalities, (..., m_h), of any sign."""
        return self.multipliers[..., self.sizes[0] + self.sizes[1] :]


def solve_subprogram(
    preference: Preference,
    losses: ArrayLike,
    gramian: ArrayLike,
    *,
    c_g: float = 1.0,
    c_h: float = 1.0,
    domain: Domain = "adaptive",
    solver: Solver = "exact",
    bound: float | None = None,
) -> Solution:
    """The steepest direction that the preference allows, in the space of losses.

    Minimise ``c + |d|^2 / 2`` subject to ``A gradF^T d <= c a``, ``B_g gradF^T d + c_g G <= 0`` and
    ``B_h gradF^T d + c_h H = 0``, through its dual in the multipliers. With a bound rho a unit of violation
    of the linearised constraints costs rho instead (elastic form), and there always is a solution.

    Without a bound the constraints may contradict each other to first order. The status is then "unbounded",
    and all fields hold the elastic solution with a bound of 1000.

    Args:
        preference: A stack of P adds a batch dimension.
        losses: F, (..., m), of any real type.
        gramian: ``gradF^T gradF``, (..., m, m). Batch dimensions broadcast. What is positive semidefinite
            only up to the rounding of its type is taken without its negative part.
        c_g: How much of the inequalities' violation a unit step should undo, positive.
        c_h: The same for equalities.
        domain: "adaptive" (a = A F / sum(A F), escapes weak optima, needs A F >= 0) or "simplex" (a = 1).
        solver: "exact", or in torch "batched" (as accurate, many programs at once; on a GPU without a host
            sync, so nothing is checked and no bound means one of a million), "pgd" or "frank-wolfe"
            (needs a bound where there are constraints); or a function from :class:`Programs` to multipliers,
            such as ``functools.partial(pgd, accelerated=False)``.
        bound: rho, positive; None for no bound.

    Raises:
        InputError: An argument of the wrong shape or value, each by its name.
        NonFiniteError: Losses or gramian are not finite.

    Example:
        >>> preference = Preference.ray([1.0, 1.0])
        >>> s = solve_subprogram(preference, [1.0, 1.0], [[1.0, 0.0], [0.0, 1.0]])
        >>> [round(x, 6) for x in s.slopes.tolist()], s.status
        ([-1.0, -1.0], 'optimal')
    """
    check_options(c_g, c_h, solver, bound)
    if solver == "batched" and isinstance(losses, Tensor) and losses.device.type != "cpu":
        K_here = torch.as_tensor(gramian, device=losses.device)
        rho = LARGE if bound is None else bound
        return solve_on_device(preference, losses, K_here, c_g=c_g, c_h=c_h, domain=domain, bound=rho)
    if preference.at_most is not None:
        raise UnsupportedError(
            "preference: a ray with at_most=True has no direction of its own, found one; minimize and trace take it, "
            "or leave at_most out."
        )
    F, K = _read(preference, losses, gramian)
    S, offsets, sizes = _rows_of(preference)
    linear = np.matmul(S, F[..., None])[..., 0] + offsets
    a, b = simplex_of(linear[..., : sizes[0]], S[..., : sizes[0], :], domain)
    a, linear[..., : sizes[0]] = a.copy(), 0.0
    linear[..., sizes[0] : sizes[0] + sizes[1]] *= c_g
    linear[..., sizes[0] + sizes[1] :] *= c_h
    rho = math.inf if bound is None else float(bound)
    rounding = _rounding_of(gramian)
    device = losses.device if isinstance(losses, Tensor) else CPU
    if linear.ndim == 1 and K.ndim == 2 and solver == "exact":
        program = Program(S, check_gramian(K, rounding), linear, a, float(b), sizes[2], rho)
        return _pack(_solve_one(program), sizes, device)
    batch = np.broadcast_shapes(linear.shape[:-1], K.shape[:-2])
    gramians = [check_gramian(one, rounding) for one in _flat(K, batch, 2)]
    data = zip(
        _flat(S, batch, 2),
        gramians,
        _flat(linear, batch, 1),
        _flat(a, batch, 1),
        _flat(b, batch, 0),
        strict=True,
    )
    programs = [Program(rows, K, q, a, float(b), sizes[2], rho) for rows, K, q, a, b in data]
    if solver == "exact":
        solved = [_solve_one(program) for program in programs]
    else:
        solved = _solve_in_torch(programs, solver, device)
    return _pack_batch(solved, batch, sizes, device)


class _Solved(NamedTuple):
    """One program's part of a :class:`Solution`."""

    weights: Array
    multipliers: Array
    slopes: Array
    numbers: tuple[float, float, float]
    status: Status
    solver: str


def check_options(c_g: float, c_h: float, solver: Solver, bound: float | None) -> None:
    """Refuses rates and bounds that are not positive, and unknown solvers.

    Raises:
        InputError: naming the option.
    """
    for name, value in (("c_g", c_g), ("c_h", c_h), ("bound", bound)):
        if value is not None and not 0 < value < math.inf:
            hint = "None for no bound" if name == "bound" else "1.0 is the usual one"
            raise InputError(f"{name}: expected a positive finite number, found {value!r}; {hint}.")
    if solver != "exact" and not callable(solver) and solver not in _IN_TORCH:
        known = ", ".join(f'"{name}"' for name in ("exact", *_IN_TORCH))
        raise InputError(f"solver: expected one of {known}, or a function of programs, found {solver!r}.")


def _read(preference: Preference, losses: ArrayLike, gramian: ArrayLike) -> tuple[Array, Array]:
    """Losses (..., m) and gramian (..., m, m) as float64 arrays of finite numbers."""
    m = preference.m
    F, K = _to_array(losses, "losses"), _to_array(gramian, "gramian")
    if F.ndim == 0 or F.shape[-1] != m:
        raise InputError(
            f"losses: expected shape (..., {m}), one number for each of {', '.join(preference.names)}, found {F.shape}."
        )
    if K.ndim < 2 or K.shape[-2:] != (m, m):
        raise InputError(
            f"gramian: expected shape (..., {m}, {m}), the products of the losses' gradients, found {K.shape}"
            f"; compute it as J @ J.T from the ({m}, n) Jacobian J."
        )
    if F.ndim > 1 or K.ndim > 2 or preference.members:
        _check_batch(F.shape[:-1], K.shape[:-2], preference.batch_shape)
    if not math.isfinite(np.add.reduce(F, axis=None) + np.add.reduce(K, axis=None)):
        check_finite(torch.from_numpy(F), "losses", NonFiniteError)
        check_finite(torch.from_numpy(K), "gramian", NonFiniteError)
    return F, K


def _to_array(value: ArrayLike, name: str) -> Array:
    if isinstance(value, Tensor) and value.dtype in _FLOATS:
        return np.asarray(value.numpy(force=True), dtype=np.float64)
    return to_float64(value, name).cpu().numpy()


def _check_batch(losses: tuple[int, ...], gramian: tuple[int, ...], stacked: tuple[int, ...]) -> None:
    try:
        batch = np.broadcast_shapes(losses, gramian, stacked)
    except ValueError:
        raise InputError(
            f"losses, gramian: expected batch dimensions that broadcast, also with the preference's, "
            f"found {losses}, {gramian} and {stacked}; a stack of P preferences wants losses (..., P, m)."
        ) from None
    if 0 in batch:
        raise InputError(f"losses, gramian: expected at least one program, found a batch of shape {batch}.")


def _rounding_of(values: ArrayLike) -> float:
    """The relative rounding of the type that ``values`` came in."""
    if isinstance(values, Tensor):
        return _ROUNDING.get(values.dtype, EPSILON)
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return float(np.finfo(values.dtype).eps)
    return EPSILON


class _HostRows(NamedTuple):
    """A preference's numbers: ``[A; B_g; B_h]`` (..., k, m), ``[0; b_g; b_h]`` (..., k), how many of each."""

    matrix: Array
    offsets: Array
    sizes: tuple[int, int, int]


_rows_of_known: WeakKeyDictionary[Preference, _HostRows] = WeakKeyDictionary()


def _rows_of(preference: Preference) -> _HostRows:
    """Cached for as long as the preference lives."""
    rows = _rows_of_known.get(preference)
    if rows is None:
        check_steady(preference, "solve_subprogram")
        matrix, offsets, sizes = augmented_rows(preference)
        rows = _rows_of_known[preference] = _HostRows(matrix.numpy(), offsets.numpy(), sizes)
    return rows


def _flat(array: Array, batch: tuple[int, ...], kept: int) -> Array:
    """Broadcast to ``batch`` and flattened to (N, ...); the last ``kept`` dimensions stay."""
    tail = array.shape[array.ndim - kept :]
    return np.broadcast_to(array, batch + tail).reshape(-1, *tail)


def _solve_one(program: Program) -> _Solved:
    lam, residual, solver = solve_exact(program)
    status: Status = "optimal"
    if math.isinf(program.bound) and _is_unbounded(program, lam, residual):
        program, status = replace(program, bound=UNBOUNDED_PRICE), "unbounded"
        lam, residual, solver = solve_exact(program)
    return _certified(program, lam, residual, status, solver)


def _is_unbounded(program: Program, lam: Array, residual: float) -> bool:
    return is_doubtful(program, lam, residual) and is_inconsistent(program)


def _solve_in_torch(programs: Sequence[Program], solver: Solver, device: torch.device) -> list[_Solved]:
    name = solver if isinstance(solver, str) else getattr(solver, "__name__", "function")
    function = _IN_TORCH[solver] if isinstance(solver, str) else solver
    found = function(_stack(programs, device)).cpu().numpy()
    statuses: list[Status] = ["optimal"] * len(programs)
    unbounded = [
        i
        for i, (program, lam) in enumerate(zip(programs, found, strict=True))
        if math.isinf(program.bound) and _is_unbounded(program, lam, program.residual(lam))
    ]
    if unbounded:
        programs = list(programs)
        for i in unbounded:
            programs[i], statuses[i] = replace(programs[i], bound=UNBOUNDED_PRICE), "unbounded"
        found = found.copy()
        found[unbounded] = function(_stack([programs[i] for i in unbounded], device)).cpu().numpy()
    return [
        _certified(program, lam, program.residual(lam), status, name)
        for program, lam, status in zip(programs, found, statuses, strict=True)
    ]


def _stack(programs: Sequence[Program], device: torch.device) -> Programs:
    """Programs of one shape and bound as tensors."""
    rows, gramian, linear, simplex, total = (
        torch.from_numpy(np.array([getattr(p, name) for p in programs])).to(device)
        for name in ("rows", "gramian", "linear", "simplex", "total")
    )
    return Programs(rows, gramian, linear, simplex, total, programs[0].equalities, programs[0].bound)


def _certified(program: Program, lam: Array, residual: float, status: Status, solver: str) -> _Solved:
    weights = program.weights(lam)
    slopes = -(program.gramian @ weights)
    c = program.rate(lam)
    return _Solved(weights, lam, slopes, (c, c - 0.5 * float(weights @ slopes), residual), status, solver)


def _pack(solved: _Solved, sizes: tuple[int, int, int], device: torch.device) -> Solution:
    parts = (solved.weights, solved.multipliers, solved.slopes, np.array(solved.numbers))
    weights, multipliers, slopes, numbers = (torch.from_numpy(part) for part in parts)
    if device.type != "cpu":
        weights, multipliers, slopes, numbers = (part.to(device) for part in (weights, multipliers, slopes, numbers))
    c, psi, residual = numbers.unbind()
    return Solution(weights, multipliers, slopes, c, psi, residual, solved.status, solved.solver, sizes)


def _pack_batch(
    solved: Sequence[_Solved], batch: tuple[int, ...], sizes: tuple[int, int, int], device: torch.device
) -> Solution:
    weights, multipliers, slopes, numbers = (
        torch.from_numpy(np.array([one[i] for one in solved])).reshape(*batch, -1).to(device) for i in range(4)
    )
    c, psi, residual = numbers.unbind(-1)
    solvers = ", ".join(sorted({one.solver for one in solved}))
    status = tuple(one.status for one in solved) if batch else solved[0].status
    return Solution(weights, multipliers, slopes, c, psi, residual, status, solvers, sizes)


def solve_on_device(
    preference: Preference, losses: Tensor, gramian: Tensor, *, c_g: float, c_h: float, domain: Domain, bound: float
) -> Solution:
    """What ``solve_subprogram(solver="batched")`` returns, without a host sync: arguments are trusted.

    Args:
        preference: A stack of P adds a batch dimension.
        losses: F, (..., m).
        gramian: (..., m, m).
        c_g: The inequalities' rate.
        c_h: The equalities' rate.
        domain: "adaptive" or "simplex".
        bound: rho.
    """
    rows = _rows_on(preference, losses.device)
    F, m = losses.detach().double(), preference.m
    k_f, k = rows.sizes[0], rows.matrix.shape[-2]
    values = (rows.matrix @ F[..., None])[..., 0] + rows.offsets
    if domain == "adaptive":
        a, b = values[..., :k_f], values[..., :k_f].sum(dim=-1)
    else:
        a = (rows.matrix[..., :k_f, :] != 0).any(dim=-1).to(F).expand(*values.shape[:-1], k_f)
        b = torch.ones_like(values[..., 0])
    rates = torch.cat([F.new_full((n,), c) for n, c in zip(rows.sizes, (0.0, c_g, c_h), strict=True)])
    batch = np.broadcast_shapes(values.shape[:-1], gramian.shape[:-2])
    K = without_asymmetry(gramian.detach()).expand(*batch, m, m).reshape(-1, m, m)
    programs = Programs(
        rows.matrix.expand(*batch, k, m).reshape(-1, k, m),
        K,
        (rates * values).expand(*batch, k).reshape(-1, k),
        a.expand(*batch, k_f).reshape(-1, k_f),
        b.expand(batch).reshape(-1),
        rows.sizes[2],
        bound,
    )
    return _solve_and_pack(programs, rows.sizes, batch)


@lru_cache(maxsize=256)
def _rows_on(preference: Preference, device: torch.device) -> AugmentedRows:
    matrix, offsets, sizes = augmented_rows(preference)
    return AugmentedRows(matrix.to(device), offsets.to(device), sizes)


def _solve_and_pack(programs: Programs, sizes: tuple[int, int, int], batch: tuple[int, ...]) -> Solution:
    lam, residual = solve_programs(programs)
    weights = (lam[:, None] @ programs.rows)[:, 0]
    slopes = -(programs.gramian @ weights[..., None])[..., 0]
    left = programs.linear - (programs.quadratic @ lam[..., None])[..., 0]
    c = (lam * left)[:, : sizes[0]].sum(dim=-1)
    psi = c - 0.5 * (weights * slopes).sum(dim=-1)
    optimal: Status = "optimal"
    status = (optimal,) * len(lam) if batch else optimal
    weights, lam, slopes = (part.reshape((*batch, part.shape[-1])) for part in (weights, lam, slopes))
    c, psi, residual = (part.reshape(batch) for part in (c, psi, residual))
    return Solution(weights, lam, slopes, c, psi, residual, status, "batched", sizes)
