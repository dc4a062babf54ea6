"""The exact solver: golden answers, thousands of badly scaled instances, and its price over one bare piqp call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import piqp
import torch

from ferero.preference import Preference
from ferero.subprogram import Program, Solution, simplex_of, solve_subprogram
from ferero_lab.bench.golden import golden
from ferero_lab.bench.measure import Row, seconds
from ferero_lab.problems.subprograms import SubprogramInstance, random_instance

__all__ = ["bench_subprograms", "long_residual", "solve_golden"]

GROUP = "subprogram"
LOSSES = (2, 3, 6, 20, 40)


def solve_golden(instance: dict[str, Any], **options: Any) -> Solution:
    """One golden subprogram, solved."""
    m = len(instance["losses"])
    A, B_g, B_h = (torch.tensor(instance[name], dtype=torch.float64).reshape(-1, m) for name in ("A", "B_g", "B_h"))
    preference = Preference.from_matrices(A, B_g, instance["b_g"], B_h, instance["b_h"])
    gramian = torch.tensor(instance["gramian"], dtype=torch.float64).reshape(m, m)
    options = {key: instance[key] for key in ("c_g", "c_h", "domain")} | options
    return solve_subprogram(preference, instance["losses"], gramian, **options)


def bench_subprograms(quick: bool, tick: Callable[[], None]) -> list[Row]:
    """All rows about the subprogram."""
    rng = np.random.default_rng(2024)
    consistent, inconsistent = (300, 60) if quick else (3000, 300)
    errors = []
    for known in golden("subprograms"):
        slopes = np.asarray(known["slopes"])
        errors.append(float(np.linalg.norm(solve_golden(known).slopes.numpy() - slopes) / np.linalg.norm(slopes)))
        tick()
    rows = [Row(GROUP, "golden: worst relative slope error", max(errors), 1e-7, note=f"{len(errors)} instances")]
    residuals, solvers = [], []
    for _ in range(consistent):
        instance = random_instance(rng)
        solution = _solve(instance)
        residuals.append(long_residual(instance, solution) if solution.status == "optimal" else np.inf)
        solvers.append(solution.solver)
        tick()
    failed = int((np.array(residuals) > 1e-6).sum())
    counts = ", ".join(f"{name} {solvers.count(name)}" for name in sorted(set(solvers)))
    rows.append(Row(GROUP, f"{consistent} consistent: residual > 1e-6", failed, 0, note=f"worst {max(residuals):.1e}"))
    rows.append(Row(GROUP, "of these solved by clarabel", solvers.count("clarabel"), note=counts))
    missed, elastic = 0, []
    for _ in range(inconsistent):
        instance = random_instance(rng, consistent=False)
        missed += _solve(instance).status != "unbounded"
        elastic.append(long_residual(instance, _solve(instance, bound=10.0), bound=10.0))
        tick()
    rows.append(Row(GROUP, f"{inconsistent} inconsistent: not called unbounded", missed, 0))
    over = int((np.array(elastic) > 1e-6).sum())
    rows.append(Row(GROUP, "the same with bound=10: residual > 1e-6", over, 0, note=f"worst {max(elastic):.1e}"))
    return rows + _timings(rng, 40 if quick else 300, tick) + _golden_timings(tick)


def _solve(instance: SubprogramInstance, **options: Any) -> Solution:
    options = {"c_g": instance.c_g, "c_h": instance.c_h, "domain": instance.domain} | options
    return solve_subprogram(instance.preference, instance.losses, instance.gramian, **options)


def _program(instance: SubprogramInstance) -> Program:
    p = instance.preference
    A, B_g, B_h = p.A.numpy(), p.B_g.numpy(), p.B_h.numpy()
    G, H = B_g @ instance.losses + p.b_g.numpy(), B_h @ instance.losses + p.b_h.numpy()
    a, b = simplex_of(A @ instance.losses, A, instance.domain)
    linear = np.concatenate([np.zeros(len(A)), instance.c_g * G, instance.c_h * H])
    return Program(np.concatenate([A, B_g, B_h]), instance.gramian, linear, a, float(b), len(B_h))


def _timings(rng: np.random.Generator, count: int, tick: Callable[[], None]) -> list[Row]:
    """Median times of `solve_subprogram` and of one bare piqp call on the same dual, in turn, per m."""
    times: dict[int, list[tuple[float, float]]] = {m: [] for m in LOSSES}
    fallbacks: list[float] = []
    wanted = count // len(LOSSES)
    while min(len(pairs) for pairs in times.values()) < wanted:
        instance = random_instance(rng)
        m = len(instance.losses)
        if len(times[m]) < wanted:
            ours, bare, solver = _in_turn(instance)
            if solver == "clarabel":
                fallbacks.append(ours)
            else:
                times[m].append((ours, bare))
            tick()
    rows = []
    for m, pairs in times.items():
        ours, bare = (1e6 * float(np.median(column)) for column in zip(*pairs, strict=True))
        note = f"{ours:.0f} us against {bare:.0f} us"
        rows.append(Row(GROUP, f"m = {m}: median time over (3 piqp + 60 us)", ours / (3 * bare + 60), 1.0, note=note))
    if fallbacks:
        rows.append(Row(GROUP, "fallbacks to clarabel: median ms", 1e3 * float(np.median(fallbacks))))
    return rows


def _golden_timings(tick: Callable[[], None]) -> list[Row]:
    """The same on the golden instances, which are well scaled: there piqp has an easy life."""
    ratios: dict[int, list[float]] = {}
    for known in golden("subprograms"):
        ours, bare, _ = _in_turn(_golden_instance(known))
        ratios.setdefault(len(known["losses"]), []).append(ours / (3 * bare + 60e-6))
        tick()
    name = "golden, m = {}: median of time over (3 piqp + 60 us)"
    return [Row(GROUP, name.format(m), float(np.median(found)), 1.0) for m, found in sorted(ratios.items())]


def _golden_instance(known: dict[str, Any]) -> SubprogramInstance:
    m = len(known["losses"])
    A, B_g, B_h = (np.asarray(known[name], dtype=np.float64).reshape(-1, m) for name in ("A", "B_g", "B_h"))
    gramian = np.asarray(known["gramian"], dtype=np.float64).reshape(m, m)
    values, vectors = np.linalg.eigh(gramian)
    return SubprogramInstance(
        A=A,
        B_g=B_g,
        b_g=np.asarray(known["b_g"], dtype=np.float64),
        B_h=B_h,
        b_h=np.asarray(known["b_h"], dtype=np.float64),
        losses=np.asarray(known["losses"], dtype=np.float64),
        jacobian=vectors * np.sqrt(np.maximum(values, 0.0)),
        c_g=known["c_g"],
        c_h=known["c_h"],
        domain=known["domain"],
        is_consistent=True,
    )


def _in_turn(instance: SubprogramInstance, rounds: int = 5) -> tuple[float, float, str]:
    """The medians of both over a few rounds, and who solved it."""
    program = _program(instance)
    p, F, K = instance.preference, torch.from_numpy(instance.losses), torch.from_numpy(instance.gramian)

    def solve() -> Solution:
        return solve_subprogram(p, F, K, c_g=instance.c_g, c_h=instance.c_h, domain=instance.domain)

    pairs = [(seconds(solve), seconds(lambda: _bare_piqp(program))) for _ in range(rounds)]
    ours, bare = (float(np.median(column)) for column in zip(*pairs, strict=True))
    return ours, bare, solve().solver


def _bare_piqp(program: Program) -> None:
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-12
    solver.setup(
        np.asfortranarray(program.quadratic),
        -program.linear,
        np.asfortranarray(program.a[None]),
        np.ones(1),
        x_l=program.lower,
        x_u=program.upper,
    )
    solver.solve()


def long_residual(instance: SubprogramInstance, solution: Solution, bound: float = np.inf) -> float:
    """The worst relative violation of primal feasibility, complementary slackness and the multipliers' domain.

    In long double, and sharing no code with the library's own residual. A slack counts against
    ``|S_i gradF| D + |q_i|`` with ``D = sum |lam_i| |S_i gradF|``; slack times the room its multiplier has left against
    ``D^2 + |q|.|lam|``; of the two the smaller.

    Args:
        instance: the subprogram.
        solution: of any solver.
        bound: rho of the elastic form.
    """
    long = np.longdouble
    p = instance.preference
    A, B_g, B_h = (matrix.numpy().astype(long) for matrix in (p.A, p.B_g, p.B_h))
    F, K = instance.losses.astype(long), instance.gramian.astype(long)
    lam = solution.multipliers.numpy().astype(long)
    G, H = instance.c_g * (B_g @ F + p.b_g.numpy()), instance.c_h * (B_h @ F + p.b_h.numpy())
    S, q = np.concatenate([A, B_g, B_h]), np.concatenate([np.zeros(len(A), long), G, H])
    a = np.zeros(len(S), long)
    a[: len(A)] = A @ F / (A @ F).sum() if instance.domain == "adaptive" else 1.0
    lengths = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", S, K, S), 0))
    fall = S @ (K @ (S.T @ lam))
    c = lam[: len(A)] @ (q - fall)[: len(A)]
    slack = q - fall - c * a
    longest = max((length / entry for length, entry in zip(lengths, a, strict=True) if entry > 0), default=long(0))
    uncancelled = max(np.abs(lam) @ lengths, len(S) * np.finfo(float).eps * longest)
    scale = lengths * uncancelled + np.abs(q)
    terms = uncancelled**2 + np.abs(q) @ np.abs(lam)
    size = np.abs(lam).max()
    worst = abs(a @ lam - 1)
    for i in range(len(S)):
        low, high = (0, np.inf) if i < len(A) else (0, bound) if i < len(S) - len(B_h) else (-bound, bound)
        outside = max(low - lam[i], lam[i] - high, 0) / size
        room = high - lam[i] if slack[i] > 0 else lam[i] - low
        by_row = abs(slack[i]) / scale[i] if scale[i] > 0 else abs(slack[i])
        by_gap = abs(slack[i]) * min(room, 1e100) / terms if terms > 0 else long(0)
        worst = max(worst, outside, np.minimum(by_row, by_gap))
    return float(worst)
