"""The result of `minimize`, and the message with advice for each status."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ferero._arrays import Array
from ferero.geometry import Cone
from ferero.optimize._certificate import KKT
from ferero.optimize._evaluator import Point
from ferero.optimize._outcome import Seen
from ferero.optimize._scale import row_scale
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
    status: Status, preference: Preference, losses: Array, kkt: KKT, tol: float, *, seen: Seen, lower: Array
) -> str:
    """The sentence for how a run ended, with what to do about it.

    Args:
        status: how.
        preference: the preference.
        losses: at the end, (m,).
        kkt: the certificate there.
        tol: to which it was to hold.
        seen: the losses at the start, and gradients.
        lower: what the losses were said not to go below, (m,).
    """
    first = seen.losses
    if status == "converged":
        remarks = _beyond_the_line(preference, kkt) + _weakly(preference, kkt, seen.gradients)
        return f"the first-order conditions hold to the tolerance.{remarks}"
    binding = _binding(preference, losses, tol) if np.isfinite(losses).all() else ""
    if status == "unattainable":
        return (
            f"no step from here reduces the violation to first order; this is the closest point found on the way. Not "
            f"met: {binding}. Relax it, or start elsewhere: with non-convex losses another start may reach it."
        )
    if status == "max_iter":
        unmet = f" Not met yet: {binding}." if binding else ""
        grown = _without_end(losses, first)
        return f"max_iter was reached at {kkt}.{unmet}{grown} Raise max_iter or tol, or continue from r.x."
    if status == "stalled":
        unmet = f" Not met: {binding}." if binding else ""
        return (
            f"steps are too small for the losses to show a change, at {kkt}.{unmet}{_without_end(losses, first)}"
            f"{_below(preference, losses, lower)}{_weakly(preference, kkt, seen.gradients)} If that is not good "
            "enough, check jac, rounding in fun (float32 resolves stationarity to about 1e-3) or kinks in it (abs, "
            "max), or loosen tol."
        )
    if not np.isfinite(losses).all():
        found = ", ".join(f"{name} = {value:.4g}" for name, value in zip(preference.names, losses, strict=True))
        return f"fun(x0) is not finite ({found}). Start where every loss is a number."
    return (
        "a loss or a gradient became NaN, infinite or larger than any number worth following; the last finite point is "
        f"returned.{_without_end(losses, first)} Check fun there; with a fixed step, make step (and gamma of the "
        "method) smaller."
    )


def _weakly(preference: Preference, kkt: KKT, gradients: Array) -> str:
    """A note where the others are optimal whatever becomes of a loss: to first order it may still fall."""
    A = preference.A.numpy()
    if preference.ray is not None or len(A) < 2 or (A < 0).any():
        return ""
    unweighted = (A.sum(axis=0) > 0) & (np.abs(kkt.weights) <= _NO_WEIGHT * np.abs(kkt.weights).max()) & (gradients > 0)
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


def _binding(preference: Preference, losses: Array, tol: float) -> str:
    """The constraints that are violated, worst first, with by how much."""
    violation = preference.violation(losses).numpy()
    rows = np.vstack([preference.B_g.numpy(), preference.B_h.numpy()])
    offsets = np.concatenate([preference.b_g.numpy(), preference.b_h.numpy()])
    scale = row_scale(rows, offsets, losses)
    labels = (*preference.labels_g, *preference.labels_h)
    worst: dict[str, float] = {}
    for label, amount, size in zip(labels, violation, scale, strict=True):
        if amount > tol * size:
            worst[label] = max(worst.get(label, 0.0), float(amount))
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
