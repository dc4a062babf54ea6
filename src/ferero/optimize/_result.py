"""The result of `minimize`, and the message with advice for each status."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ferero._arrays import Array, Mask
from ferero.geometry import Cone
from ferero.optimize._certificate import KKT
from ferero.optimize._conditions import Conditions
from ferero.optimize._evaluator import Point
from ferero.optimize._outcome import Seen
from ferero.optimize._scale import still_counts
from ferero.preference import Preference

__all__ = ["History", "Progress", "Result", "Status", "message_for"]

_NO_WEIGHT = 1e-6  # of the largest weight
_RUNAWAY = 1e9  # times the losses at the start: losses beyond this have diverged

Status = Literal["converged", "max_iter", "unattainable", "stalled", "non_finite"]


@dataclass(frozen=True)
class Progress:
    """The argument of a callback, after each accepted step; raise StopIteration to end the run.

    Attributes:
        iteration: steps taken so far.
        x: the point, as the user holds it.
        losses: F there, (m,).
        weights: the w of the step, (m,).
        violation: the largest relative violation before the step.
    """

    iteration: int
    x: Point
    losses: Array
    weights: Array
    violation: float


@dataclass(frozen=True)
class History:
    """One row per step that was taken, after the start.

    Attributes:
        losses: (T + 1, m), beginning with the start's.
        weights: (T, m).
        violation: the largest relative violation before each step, (T,).
        stationarity: before each step, (T,).
        length: of each step, (T,).
    """

    losses: Array
    weights: Array
    violation: Array
    stationarity: Array
    length: Array

    def __len__(self) -> int:
        return len(self.length)


@dataclass(frozen=True)
class Result:
    """The point that was found, with its certificate.

    Attributes:
        x: the point: type, dtype and shape of x0.
        losses: F(x), (m,).
        weights: w with ``gradF w`` as small as the certificate says, (m,).
        multipliers: [lam_f; lam_g; lam_h] behind them.
        constraint_multipliers: of the constraints in x, (k,) for each of them: positive at an upper bound, negative at
            a lower one.
        bound_multipliers: of the bounds, like x: positive at an upper bound, negative at a lower one. Together
            ``gradF w + J_c^T lam_c + mu`` is as small as the certificate says.
        kkt: stationarity, complementarity and feasibility, each relative.
        status: how it ended.
        message: the same in a sentence, with advice.
        iterations: steps taken.
        evaluations: calls of fun (those for differences included).
        gradient_evaluations: Jacobians.
        cone: the order that the search used.
        history: losses, weights and violation along the trajectory.
        preference: the preference.
    """

    x: Point
    losses: Point
    weights: Point
    multipliers: Point
    constraint_multipliers: tuple[Point, ...]
    bound_multipliers: Point
    kkt: KKT
    status: Status
    message: str
    iterations: int
    evaluations: int
    gradient_evaluations: int
    cone: Cone
    history: History = field(repr=False)
    preference: Preference = field(repr=False)

    @property
    def success(self) -> bool:
        """Whether the conditions are met to the tolerance."""
        return self.status == "converged"

    def __str__(self) -> str:
        names = self.preference.names
        found = "  ".join(f"{name} = {float(value):.6g}" for name, value in zip(names, self.losses, strict=True))
        return (
            f"{self.status}: {self.message}\n  {found}\n  {self.kkt}\n"
            f"  {self.iterations} steps, {self.evaluations} evaluations"
        )


def message_for(
    status: Status,
    conditions: Conditions,
    losses: Array,
    kkt: KKT,
    tol: float,
    *,
    seen: Seen,
    lower: Array,
    atol: float,
) -> str:
    """The sentence for how a run ended, with what to do about it.

    Args:
        status: how.
        conditions: the preference and the constraints in x.
        losses: at the end, with the constraints in x, (m + p,).
        kkt: the certificate there.
        tol: to which it was to hold.
        seen: the losses at the start, and gradients.
        lower: what the losses were said not to go below, (m,).
        atol: violations up to this are none.
    """
    preference, m = conditions.preference, conditions.m
    first = seen.losses[:m]
    if status == "converged":
        remarks = _beyond_the_line(preference, kkt) + _weakly(preference, kkt, seen.gradients[:m])
        return f"the first-order conditions hold to the tolerance.{remarks}"
    unmet = _unmet(conditions, losses, seen, tol, atol) if np.isfinite(losses).all() else ""
    own, losses = losses, losses[:m]
    if status == "unattainable":
        return _unattainable(conditions, own, seen, tol, atol, unmet)
    if status == "max_iter":
        still = f" Not met yet: {unmet}." if unmet else ""
        grown = _without_end(losses, first)
        return f"max_iter was reached at {kkt}.{still}{grown} Raise max_iter or tol, or continue from r.x."
    if status == "stalled":
        still = f" Not met: {unmet}." if unmet else ""
        return (
            f"steps are too small for the losses to show a change, at {kkt}.{still}{_without_end(losses, first)}"
            f"{_below(preference, losses, lower)}{_weakly(preference, kkt, seen.gradients[:m])} If that is not good "
            "enough, check jac, rounding in fun (float32 resolves stationarity to about 1e-3) or kinks in it (abs, "
            "max), or loosen tol."
        )
    if not np.isfinite(own).all():
        values = [f"{name} = {value:.4g}" for name, value in zip(preference.names, losses, strict=True)]
        labels = conditions.layout.labels(~np.isfinite(own[m:]))
        found = ", ".join([*values, *labels])
        return f"fun(x0) is not finite ({found}). Start where every loss is a number."
    return (
        "a loss or a gradient became NaN, infinite or larger than any number worth following; the last finite point is "
        f"returned.{_without_end(losses, first)} Check fun there; with a fixed step, make step (and gamma of the "
        "method) smaller."
    )


def _unattainable(conditions: Conditions, losses: Array, seen: Seen, tol: float, atol: float, unmet: str) -> str:
    """What cannot be met, and whether that is the preference or a constraint in x."""
    in_x = _unmet(conditions, losses, seen, tol, atol, conditions.in_x)
    what = "the violation" if not in_x else "the violation of the constraints in x"
    remedy = "Relax it"
    if in_x:
        remedy = "Not the preference but the constraints in x stand in the way: relax those"
    return (
        f"no step from here reduces {what} to first order, nor did searches for less of it from the start and from "
        f"near it; this is the closest point found. Not met: {unmet}. {remedy}, or start elsewhere: with non-convex "
        "losses another start may reach it."
    )


def _weakly(preference: Preference, kkt: KKT, gradients: Array) -> str:
    """A note where the others are optimal whatever becomes of a loss: to first order it may still fall."""
    A = preference.A.numpy()
    is_line = preference.ray is not None or preference.at_most is not None
    if is_line or len(A) < 2 or (A < 0).any() or not kkt.weights.any():
        return ""
    unweighted = (A.sum(axis=0) > 0) & (np.abs(kkt.weights) <= _NO_WEIGHT * np.abs(kkt.weights).max()) & (gradients > 0)
    unweighted &= ~(preference.B_h.numpy() != 0).any(axis=0)  # an equality fixes it
    names = [name for name, is_free in zip(preference.names, unweighted.tolist(), strict=True) if is_free]
    if not names:
        return ""
    return (
        f" Nothing weighs on {', '.join(names)} here: less of it may be had at no cost to the others. To get it, start "
        "elsewhere, or ask for it (a ray, minimize=)."
    )


def _without_end(losses: Array, first: Array) -> str:
    """A guess where losses have run away."""
    largest = float(np.abs(losses).max())
    if not largest > _RUNAWAY * float(np.abs(first).max()) > 0:
        return ""
    return f" The losses have grown to {largest:.1e}: what is minimised may have no lower bound."


def _below(preference: Preference, losses: Array, lower: Array) -> str:
    """What to do about losses that are lower than they were said to get."""
    names = [name for name, is_below in zip(preference.names, losses < lower, strict=True) if is_below]
    if not names:
        return ""
    return f" The search takes losses to stay above {_words(lower)}, and {', '.join(names)} did not: pass lower=."


def _words(lower: Array) -> str:
    return f"{lower[0]:g}" if (lower == lower[0]).all() else "lower"


def _unmet(conditions: Conditions, losses: Array, seen: Seen, tol: float, atol: float, rows: Mask | None = None) -> str:
    """The constraints that are violated, worst first, with by how much; of the masked rows only, if given."""
    violation = conditions.violation(losses)
    scale = conditions.sizes.varying(still_counts(losses, seen.losses), seen.spans)
    worst: dict[str, float] = {}
    for i, label in enumerate(conditions.labels):
        if violation[i] - atol > tol * scale[i] and (rows is None or rows[i]):
            worst[label] = max(worst.get(label, 0.0), float(violation[i]))
    ordered = sorted(worst.items(), key=lambda item: -item[1])
    return ", ".join(f"{label} (by {amount:.3g})" for label, amount in ordered)


def _beyond_the_line(preference: Preference, kkt: KKT) -> str:
    """A note where a point meets its constraints but all losses could fall by leaving them."""
    size = float(np.abs(kkt.weights).max(initial=0.0))
    is_up = (kkt.weights < -1e-6 * size) & (preference.A.numpy() >= 0).all(axis=0)
    rises = [name for name, rises in zip(preference.names, is_up.tolist(), strict=True) if rises]
    if not rises or not len(preference.labels_g) + len(preference.labels_h):
        return ""
    return f" The constraints hold {', '.join(rises)} up: without them every loss could fall further."
