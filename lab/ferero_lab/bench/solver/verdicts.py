"""Random problems whose answers are known, and what `ferero.minimize` says about them.

Losses are convex quadratics ``s_i (|M_i (x / d - c_i)|^2 / 2 + o_i)``. A point x*, positive multipliers of the losses
and multipliers of active bounds and constraints are drawn first, and the centres c_i are chosen such that the
first-order conditions hold there: since all is convex, x* is the answer, for thresholds ``F_i <= F_i(x*)``, for the ray
through F(x*), with and without `at_most`, and for equalities. The kinds:

    convex          as it stands
    scaled          units d of the variables from 1e-2 to 1e2, units s of the losses from 1e-3 to 1e3
    offset          o of up to 1e8 times what the losses vary by
    degenerate      a flat direction, or one that is nearly flat
    boxed           bounds, some of them active at the answer
    constrained     linear and quadratic constraints in x, some of them active
    unattainable    a threshold below the least value of its loss

"Converged" is false where a constraint is violated by more than 1e-4, or the objective is above the known one by more
than 1e-3, of how much the loss varies; and where the preference cannot be met. "Unattainable" is false where it can.
The points with F on a ray or with a loss at a level are no convex set, and may have further local solutions: of those,
one that is first-order optimal to 1e-4 is not false, and counted apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy import optimize

import ferero
from ferero_lab.bench.measure import Row
from ferero_lab.bench.solver.judge import OPTIMAL, residual
from ferero_lab.bench.solver.smooth import FloatArray
from ferero_lab.bench.solver.solvers import offers

__all__ = ["PLANTED", "PlantedKind", "PlantedProblem", "bench_verdicts", "plant", "verdict_of"]

PlantedKind: TypeAlias = Literal["convex", "scaled", "offset", "degenerate", "boxed", "constrained", "unattainable"]
PLANTED: tuple[PlantedKind, ...] = (
    "convex",
    "scaled",
    "offset",
    "degenerate",
    "boxed",
    "constrained",
    "unattainable",
)
"""The kinds, in turn."""

_GAP, _VIOLATION = 1e-3, 1e-4


@dataclass(frozen=True)
class PlantedProblem:
    """A problem with its answer.

    Attributes:
        kind: of the problem.
        losses: F.
        jacobian: gradF^T.
        x0: the start.
        preference: what is asked.
        options: bounds and constraints, by the keywords of `ferero.minimize`.
        excess: how far a point is above the answer, (violation, gap), in units of how much the losses vary.
        is_attainable: whether there is an answer.
        residual: of the first-order conditions at a point of a ray or an equality; None where all is convex.
    """

    kind: PlantedKind
    losses: Callable[[FloatArray], FloatArray]
    jacobian: Callable[[FloatArray], FloatArray]
    x0: FloatArray
    preference: ferero.Preference
    options: dict[str, Any]
    excess: Callable[[FloatArray], tuple[float, float]]
    is_attainable: bool
    residual: Callable[[FloatArray], float] | None = None


@dataclass(frozen=True)
class _Quadratics:
    """``s_i (|M_i (x / d - c_i)|^2 / 2 + o_i)``."""

    roots: FloatArray  # M, (m, n, n)
    centres: FloatArray  # c, (m, n)
    units: FloatArray  # d, (n,)
    sizes: FloatArray  # s, (m,)
    offsets: FloatArray  # o, (m,)

    def losses(self, x: FloatArray) -> FloatArray:
        away = np.einsum("ijk,ik->ij", self.roots, x / self.units - self.centres)
        values: FloatArray = self.sizes * ((away**2).sum(axis=1) / 2 + self.offsets)
        return values

    def jacobian(self, x: FloatArray) -> FloatArray:
        away = np.einsum("ijk,ik->ij", self.roots, x / self.units - self.centres)
        slopes: FloatArray = self.sizes[:, None] * np.einsum("ijk,ij->ik", self.roots, away) / self.units
        return slopes


def plant(seed: int, kind: PlantedKind) -> PlantedProblem:
    """One problem.

    Args:
        seed: of everything that is drawn.
        kind: of the problem.
    """
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 16)), int(rng.integers(2, 5))
    answer = rng.normal(size=n)  # in the variables y = x / d
    turns = np.linalg.qr(rng.normal(size=(m, n, n)))[0]
    roots = 10 ** rng.uniform(-0.5, 0.5, size=(m, n, 1)) * turns  # curvatures from 0.1 to 10
    if kind == "degenerate":
        flat = rng.normal(size=n)
        flat /= np.linalg.norm(flat)
        left = rng.choice([0.0, 1e-4, 1e-2])
        roots = roots - (1 - left) * (roots @ flat)[..., None] * flat
    units = 10 ** rng.uniform(-2, 2, n) if kind == "scaled" else np.ones(n)
    sizes = 10 ** rng.uniform(-3, 3, m) if kind == "scaled" else np.ones(m)
    offsets = rng.uniform(-1, 1, m) * 10 ** rng.uniform(0, 8) if kind == "offset" else rng.uniform(0, 2, m)
    options, pull = _constraints(rng, kind, answer, units)
    centres = _centres(rng, roots, answer, pull)
    problem = _Quadratics(roots, centres, units, sizes, offsets)
    start = rng.normal(size=n) * 2
    if kind == "boxed":
        start = np.clip(start, options["bounds"].lb / units, options["bounds"].ub / units)
    x, x0 = answer * units, start * units
    values = problem.losses(x)
    at_centres = np.array([problem.losses(c * units) for c in centres])
    span = np.maximum(at_centres.max(axis=0), problem.losses(x0)) - sizes * offsets
    return _asked(rng, kind, problem, x0, values, span, options)


def _centres(rng: np.random.Generator, roots: FloatArray, answer: FloatArray, pull: FloatArray) -> FloatArray:
    """Centres (m, n) with ``sum lam_i M_i^T M_i (answer - c_i) + pull = 0`` for some lam > 0."""
    m, n, _ = roots.shape
    lam: FloatArray = rng.uniform(0.3, 1.0, size=(m,))
    hessians = np.einsum("ijk,ijl->ikl", roots, roots)
    slopes: FloatArray = np.einsum("ikl,il->ik", hessians, rng.normal(size=(m, n)))
    slopes[-1] = -(lam[:-1] @ slopes[:-1] + pull) / lam[-1]
    return np.array([answer - np.linalg.lstsq(h, g, rcond=1e-12)[0] for h, g in zip(hessians, slopes, strict=True)])


def _constraints(
    rng: np.random.Generator, kind: PlantedKind, answer: FloatArray, units: FloatArray
) -> tuple[dict[str, Any], FloatArray]:
    """Bounds and constraints that hold at the answer, and the sum of their multipliers' pulls there, (n,)."""
    n = len(answer)
    pull = np.zeros(n)
    if kind == "boxed":
        low, high = answer - rng.uniform(0.2, 2, n), answer + rng.uniform(0.2, 2, n)
        side = rng.choice([-1, 0, 0, 1], n)
        low[side < 0], high[side > 0] = answer[side < 0], answer[side > 0]
        return {"bounds": optimize.Bounds(low * units, high * units)}, side * rng.uniform(0.1, 1, n)
    if kind != "constrained":
        return {}, pull
    row = rng.normal(size=n) / np.sqrt(n)
    reach = float(row @ answer)
    linear = optimize.LinearConstraint(row[None], -np.inf, reach + rng.choice([0.0, 0.5]))
    centre, active = answer + rng.normal(size=n), rng.random() < 0.7
    radius = float(((answer - centre) ** 2).sum()) + (0.0 if active else 1.0)
    ball = optimize.NonlinearConstraint(
        lambda x: np.array([((x - centre) ** 2).sum() - radius]),
        -np.inf,
        0.0,
        jac=lambda x: 2 * (x - centre)[None],
    )
    if linear.ub == reach:
        pull += row * rng.uniform(0.1, 1)
    if active:
        pull += 2 * (answer - centre) * rng.uniform(0.1, 1)
    return {"constraints": [linear, ball]}, pull


def _asked(
    rng: np.random.Generator,
    kind: PlantedKind,
    problem: _Quadratics,
    x0: FloatArray,
    best: FloatArray,
    span: FloatArray,
    options: dict[str, Any],
) -> PlantedProblem:
    m = len(best)
    f = ferero.objectives(*(f"f{i + 1}" for i in range(m)))
    losses = [getattr(f, name) for name in f.names]
    floor = problem.sizes * problem.offsets
    form = rng.choice(["threshold", "ray", "at most", "equality"])
    if form == "at most" and not has_at_most():
        form = "ray"
    if kind == "unattainable":
        level = floor[0] - rng.uniform(0.05, 1.0) * span[0]
        preference = ferero.Preference(f, [losses[0] <= float(level)], minimize=losses[-1])
        return PlantedProblem(
            kind, problem.losses, problem.jacobian, x0, preference, options, lambda _: (np.inf, np.inf), False
        )
    if form in ("ray", "at most"):
        through = best - rng.uniform(0.3, 1.0, m) * span
        more: dict[str, Any] = {"at_most": True} if form == "at most" else {}
        preference = ferero.Preference.ray(best - through, through, **more)
    else:
        comparisons = [
            loss == level if form == "equality" else loss <= level
            for loss, level in zip(losses[:-1], best.tolist(), strict=False)
        ]
        preference = ferero.Preference(f, comparisons, minimize=losses[-1])

    def excess(x: FloatArray) -> tuple[float, float]:
        values = problem.losses(x)
        above = (values - best) / span
        outside = _outside(x, options)
        if form == "at most":
            return outside, float(((values - best) / (best - through)).max())
        if form == "ray":
            t = (best - through) / span
            along = float(t @ above / (t @ t))
            return max(outside, float(np.abs(above - along * t).max())), along
        off = np.abs(above[:-1]) if form == "equality" else above[:-1]
        return max(outside, float(off.max())), float(above[-1])

    def first_order(x: FloatArray) -> float:
        slopes = problem.jacobian(x) * problem.units / span[:, None]
        active = _active(x, options) * problem.units
        if form == "equality":
            return residual(slopes[-1], slopes[:-1], active)
        t = np.eye(len(x) + 1)[-1]
        along = np.hstack([slopes, -((best - through) / span)[:, None]])
        return residual(t, along, np.hstack([active, np.zeros((len(active), 1))]))

    is_convex = form in ("threshold", "at most")
    return PlantedProblem(
        kind,
        problem.losses,
        problem.jacobian,
        x0,
        preference,
        options,
        excess,
        True,
        None if is_convex else first_order,
    )


def _active(x: FloatArray, options: dict[str, Any]) -> FloatArray:
    """The gradients (k, n) of bounds and constraints that hold with equality."""
    rows = [np.zeros((0, len(x)))]
    if "bounds" in options:
        axes, bounds = np.eye(len(x)), options["bounds"]
        rows += [-axes[x - bounds.lb <= 1e-5], axes[bounds.ub - x <= 1e-5]]
    for one in options.get("constraints", ()):
        is_linear = isinstance(one, optimize.LinearConstraint)
        value, slopes = (np.asarray(one.A) @ x, np.asarray(one.A)) if is_linear else (one.fun(x), one.jac(x))
        rows.append(slopes[value >= one.ub - 1e-5])
    return np.vstack(rows)


def _outside(x: FloatArray, options: dict[str, Any]) -> float:
    """How far bounds and constraints are violated."""
    worst = 0.0
    if "bounds" in options:
        worst = float(np.maximum(options["bounds"].lb - x, x - options["bounds"].ub).max())
    for one in options.get("constraints", ()):
        value = np.asarray(one.A) @ x if isinstance(one, optimize.LinearConstraint) else one.fun(x)
        worst = max(worst, float((value - one.ub).max()))
    return max(worst, 0.0)


def has_at_most() -> bool:
    """Whether this ferero has `Preference.ray(v, at_most=True)`."""
    return offers(ferero.Preference.ray, "at_most")


def verdict_of(seed: int, kind: PlantedKind) -> dict[str, Any]:
    """What `ferero.minimize` says about one problem, and whether it is right; plain data."""
    one = plant(seed, kind)
    found = ferero.minimize(one.losses, one.x0, one.preference, jac=one.jacobian, **one.options)
    violation, gap = one.excess(np.asarray(found.x))
    is_right = violation <= _VIOLATION and gap <= _GAP
    is_local = not is_right and violation <= _VIOLATION and one.residual is not None
    is_local = is_local and one.residual is not None and one.residual(np.asarray(found.x)) <= OPTIMAL
    return {
        "verdict": seed,
        "kind": kind,
        "status": found.status,
        "is_attainable": one.is_attainable,
        "is_right": is_right,
        "is_local": is_local,
        "violation": violation if np.isfinite(violation) else None,
        "gap": gap if np.isfinite(gap) else None,
        "evaluations": found.evaluations,
    }


def bench_verdicts(lines: Sequence[Mapping[str, Any]]) -> list[Row]:
    """False verdicts over all, and by kind.

    Args:
        lines: of `verdict_of`.
    """
    rows = []
    for kind in ("all", *PLANTED):
        some = [line for line in lines if kind in ("all", line["kind"])]
        if not some:
            continue
        said = {status: [one for one in some if one["status"] == status] for status in ("converged", "unattainable")}
        false = sum(not (one["is_right"] or one["is_local"]) for one in said["converged"])
        wrong = sum(one["is_attainable"] for one in said["unattainable"])
        missed = sum(one["is_attainable"] and not (one["is_right"] or one["is_local"]) for one in some)
        local = sum(one["is_local"] for one in some)
        others = len(some) - sum(map(len, said.values()))
        bar = 0 if kind == "all" else None
        group = f"verdicts, {kind}"
        rows.append(Row(group, 'false "converged"', false, bar, note=f"{len(some)} problems"))
        rows.append(Row(group, 'false "unattainable"', wrong, bar))
        rows.append(Row(group, "attainable, but the answer is not found", missed, note=f"{others} of other statuses"))
        rows.append(Row(group, "another local solution", local))
    return rows
