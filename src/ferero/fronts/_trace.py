"""`trace`: `minimize` for many preferences at once, batched."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from torch import Tensor

from ferero._arrays import ArrayLike
from ferero.errors import InputError
from ferero.fronts._front import Front
from ferero.fronts._read_preferences import read_preferences
from ferero.fronts._workers import Assignment, Workers, solve_apart
from ferero.methods import Method
from ferero.optimize import Bounds, Constraints, Result, minimize_many
from ferero.optimize._evaluator import Function, Point
from ferero.optimize._minimize import check_time_limit
from ferero.preference import Preference

__all__ = ["trace"]


def trace(
    fun: Function,
    x0: Point,
    preferences: Preference | Iterable[Preference] | ArrayLike,
    *,
    bounds: Bounds | None = None,
    constraints: Constraints | Sequence[Constraints] | None = None,
    method: Method[Any] | None = None,
    step: float | Literal["auto"] = "auto",
    max_iter: int = 200,
    tol: float = 1e-6,
    jac: Function | None = None,
    lower: ArrayLike | None = None,
    x_scale: ArrayLike | None = None,
    atol: float = 0.0,
    diff_step: ArrayLike | None = None,
    noise: ArrayLike | None = None,
    time_limit: float | None = None,
    workers: Workers | None = None,
) -> Front[Result]:
    """Runs `minimize` for each of P preferences: the same results, in a fraction of the time.

    All runs advance together, with their losses and gradients from one vectorised call. A function that
    cannot be vmapped (``.item()``, control flow on values, numpy) is called once for each run instead. Where such a
    function is slow, ``workers=`` shares the preferences out to processes.

    Args:
        fun: ``fun(theta) -> (m,)`` losses, for one theta, as in `ferero.minimize`.
        x0: one start for all, (n,), or one for each preference, (P, n). Parameters of more dimensions
            come as (P, ...).
        preferences: a list of `Preference`, a stack of them, or rays (P, m), which become `Preference.ray`.
        bounds: of the parameters, as in `ferero.minimize`, like all that follow.
        constraints: in x.
        method: `Ferero()` by default.
        step: "auto" or a positive number.
        max_iter: the most steps taken for each preference.
        tol: on each part of the KKT certificate.
        jac: ``jac(theta) -> (m, n)``, or None.
        lower: lower bounds of the losses, (m,) or one number.
        x_scale: the size of a typical change of each parameter.
        atol: violations up to this are none.
        diff_step: the step of numpy differences, relative.
        noise: the size of the errors in the losses.
        time_limit: for all preferences together, in seconds.
        workers: None runs all together, in this process. A number runs each preference by itself, in that many
            processes; -1 takes one a core, and 1 this process. Or a function that works as ``map`` does, such as
            ``pool.map``. The results are those of `ferero.minimize`, to the last bit, whatever the number. Processes
            import what they call: ``fun`` and the like must be defined at the top level of a module, and a script
            must call `trace` below ``if __name__ == "__main__":``. Each has as many threads as this one.

    Returns:
        The `Front`; its points are in the order of the preferences.

    Raises:
        InputError: for no preferences, names that differ, sizes that do not fit, or functions that cannot be sent
            to workers.
        UnsupportedError: a method that does not understand a preference or needs a fixed step.

    Example:
        >>> import torch, ferero
        >>> fun = lambda x: torch.stack([(x - 1).square().sum(), (x + 1).square().sum()])
        >>> front = ferero.trace(fun, torch.zeros(3), ferero.spread(2, 5))
        >>> front.statuses
        ('converged', 'converged', 'converged', 'converged', 'converged')
    """
    given = read_preferences(preferences)
    start = _read_start(x0, len(given))
    options: dict[str, Any] = {
        "bounds": bounds,
        "constraints": constraints,
        "method": method,
        "step": step,
        "max_iter": max_iter,
        "tol": tol,
        "jac": jac,
        "lower": lower,
        "x_scale": x_scale,
        "atol": atol,
        "diff_step": diff_step,
        "noise": noise,
    }
    if workers is None:
        results = minimize_many(fun, start, given, time_limit=time_limit, **options)
    else:
        check_time_limit(time_limit)
        task = Assignment(fun, options, None if time_limit is None else time.time() + time_limit)
        starts = start if start.ndim > 1 and len(given) > 1 else [start] * len(given)
        results = solve_apart(task, list(zip(starts, given, strict=True)), workers)
    return Front.from_results(results)


def _read_start(x0: Point, P: int) -> Point:
    """x0 as `minimize_many` reads it: without the leading dimension for a single run."""
    start = x0 if isinstance(x0, Tensor) else np.asarray(x0)
    if start.ndim < 2:
        return start
    if start.shape[0] != P:
        raise InputError(
            f"x0: expected one start (n,) or one for each of the {P} preferences, shape ({P}, n), found "
            f"{tuple(start.shape)}."
        )
    return start[0] if P == 1 else start
