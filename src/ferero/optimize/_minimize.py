"""`minimize`: the point that a preference describes, on a deterministic problem, with SciPy's interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ferero._arrays import Array, ArrayLike, to_float64
from ferero.errors import InputError, UnsupportedError
from ferero.geometry import Cone
from ferero.methods import Ferero, Merited, Method, check_understood
from ferero.methods._method import check_method
from ferero.optimize._certificate import KKT, check_count, check_single, kkt_of, no_certificate
from ferero.optimize._evaluator import Evaluator, Function, Point, make_evaluator
from ferero.optimize._fixed_step import Backtracking, FixedStep, StepRule, iterate
from ferero.optimize._merit import build_merit
from ferero.optimize._outcome import Outcome, Round, Seen
from ferero.optimize._result import History, Progress, Result, Status, message_for
from ferero.optimize._trust_region import descend
from ferero.preference import Preference
from ferero.preference._preference import shifted

__all__ = ["minimize", "minimize_many"]

Callback = Callable[[Progress], object]
_PUBLIC = {"stopped": "max_iter", "settled": "stalled"}  # how a run ended, in the words of `Status`


def minimize(
    fun: Function,
    x0: Point,
    preference: Preference,
    *,
    method: Method[Any] | None = None,
    step: float | Literal["auto"] = "auto",
    max_iter: int = 200,
    tol: float = 1e-6,
    jac: Function | None = None,
    lower: ArrayLike | None = None,
    callback: Callback | None = None,
) -> Result:
    """Find the point of the Pareto front that the preference describes, or say why there is none.

    ``step="auto"`` is Algorithm 1 with a trust radius and a quasi-Newton metric: it never takes a step that makes its
    merit worse, and does not depend on one common unit of the parameters, nor, for rays and ``minimize=``, on the units
    of the losses (with bounds alone many points are right, and units of very different size choose among them).
    ``step=0.05`` is the paper's fixed step, ``x <- x - 0.05 gradF w``, with the method's own weights.

    Args:
        fun: ``fun(theta) -> (m,)`` losses. It gets what ``x0`` is: a tensor (gradients by autograd) or a numpy array.
        x0: the start, of any shape.
        preference: a single preference over the losses.
        method: `Ferero()` by default. Others with a merit of their own (`LinearScalarization`,
            `SmoothTchebycheff`, `MGDA`) make it fall by backtracking; the rest need a fixed step.
        step: "auto" or a positive number.
        max_iter: the most steps taken.
        tol: on each part of the KKT certificate, all relative.
        jac: ``jac(theta) -> (m, n)``; without it, autograd or (numpy) central differences.
        lower: lower bounds of the losses, (m,) or one number, where they can be negative; 0 by default. A loss that
            falls below it during the run is taken to be able to fall as far again.
        callback: called with a `Progress` after each step; StopIteration ends the run.

    Returns:
        The `Result`; not converging is a status with advice, not an exception.

    Raises:
        InputError: for arguments of the wrong kind or size.
        UnsupportedError: a method that does not understand the preference or needs a fixed step.

    Example:
        >>> import torch, ferero
        >>> fun = lambda x: torch.stack([(x - 1).square().sum(), (x + 1).square().sum()])
        >>> r = ferero.minimize(fun, torch.tensor([3.0, -2.0]), ferero.Preference.ray([1.0, 2.0]))
        >>> r.status, round(float(r.losses[1] / r.losses[0]), 4)
        ('converged', 2.0)
    """
    check_single(preference)
    method = Ferero() if method is None else method
    _check_options(method, preference, step, max_iter, tol)
    evaluator, starts = make_evaluator(fun, x0, jac, 1)
    return _run(evaluator, starts, [preference], method, step, max_iter, tol, lower, callback)[0]


def minimize_many(
    fun: Function,
    x0: Point,
    preferences: Sequence[Preference],
    *,
    method: Method[Any] | None = None,
    step: float | Literal["auto"] = "auto",
    max_iter: int = 200,
    tol: float = 1e-6,
    jac: Function | None = None,
    lower: ArrayLike | None = None,
) -> list[Result]:
    """`minimize` for several preferences at once: one start for all, (n,), or one for each, (P, n)."""
    method = Ferero() if method is None else method
    for preference in preferences:
        check_single(preference)
        _check_options(method, preference, step, max_iter, tol)
    evaluator, starts = make_evaluator(fun, x0, jac, len(preferences))
    return _run(evaluator, starts, list(preferences), method, step, max_iter, tol, lower, None)


def _run(
    evaluator: Evaluator,
    starts: Array,
    preferences: list[Preference],
    method: Method[Any],
    step: float | Literal["auto"],
    max_iter: int,
    tol: float,
    lower: ArrayLike | None,
    callback: Callback | None,
) -> list[Result]:
    losses = evaluator.losses(starts)
    m = preferences[0].m
    check_count(preferences[0], evaluator.m)
    bounds = _lower_bounds(lower, m)
    recorder = _Recorder(evaluator, losses, callback)
    readable = np.where(np.isfinite(losses).all(axis=1, keepdims=True), losses, 1.0)

    certificates: dict[int, KKT] = {}

    def is_optimal(run: int, values: Array, jacobian: Array, seen: Seen) -> bool:
        certificates[run] = kkt_of(preferences[run], values, jacobian, seen)
        return certificates[run].worst <= tol

    if step == "auto" and isinstance(method, Ferero):
        merit, cones = build_merit(preferences, readable, bounds, getattr(method, "domain", "adaptive"))
        outcomes = descend(evaluator, starts, losses, merit, is_optimal, max_iter=max_iter, tol=tol, on_round=recorder)
    else:
        cones, outcomes = [Cone(p.A) for p in preferences], []
        for run, preference in enumerate(preferences):
            recorder.run, seen = run, _above(method, preference, bounds)
            outcome = iterate(
                evaluator,
                starts[run],
                seen,
                method,
                partial(is_optimal, run),
                rule=_step_rule(step, method, seen, bounds),
                max_iter=max_iter,
                lower=bounds,
                on_round=recorder,
            )
            outcomes.append(replace(outcome, evaluations=outcome.evaluations + 1))  # the start was evaluated before
    results, histories = [], recorder.histories(len(outcomes))
    for i, outcome in enumerate(outcomes):
        arrived = outcome.status == "converged"
        kkt = certificates[i] if arrived else _kkt(preferences[i], outcome)
        results.append(_result(evaluator, preferences[i], outcome, cones[i], kkt, histories[i], tol, bounds))
    return results


class _Recorder:
    """Keeps the rounds as they come and tells the callback."""

    def __init__(self, evaluator: Evaluator, start: Array, callback: Callback | None) -> None:
        self._evaluator, self._start, self._callback = evaluator, start, callback
        self._rounds: list[tuple[int, Round]] = []
        self._steps = 0
        self.run = 0  # the run that a round's index 0 stands for, where runs are taken one by one

    def __call__(self, record: Round) -> bool:
        self._rounds.append((self.run, record))
        if self._callback is None or not record.accepted[0]:
            return False
        self._steps += 1
        x = self._evaluator.restore(record.points[0])
        progress = Progress(self._steps, x, record.losses[0], record.weights[0], float(record.violation[0]))
        try:
            self._callback(progress)
        except StopIteration:
            return True
        return False

    def histories(self, runs: int) -> list[History]:
        """The accepted rounds of each run."""
        taken = np.concatenate([record.accepted for _, record in self._rounds] or [np.zeros(0, dtype=bool)])
        ids = np.concatenate([record.runs + first for first, record in self._rounds] or [np.zeros(0, dtype=np.int64)])
        order = np.argsort(ids[taken], kind="stable")
        ends = np.searchsorted(ids[taken][order], np.arange(runs + 1))
        m = self._start.shape[1]
        losses, weights = (self._column(name, (0, m))[taken][order] for name in ("losses", "weights"))
        violation, stationarity, length = (
            self._column(name, (0,))[taken][order] for name in ("violation", "stationarity", "length")
        )
        return [
            History(np.concatenate([start[None], losses[at]]), weights[at], violation[at], stationarity[at], length[at])
            for start, at in zip(self._start, map(slice, ends[:-1], ends[1:]), strict=True)
        ]

    def _column(self, name: str, empty: tuple[int, ...]) -> Array:
        return np.concatenate([np.zeros(empty), *(getattr(record, name) for _, record in self._rounds)])


def _result(
    evaluator: Evaluator,
    preference: Preference,
    outcome: Outcome,
    cone: Cone,
    kkt: KKT,
    history: History,
    tol: float,
    lower: Array,
) -> Result:
    status: Status = _PUBLIC.get(outcome.status, outcome.status)  # type: ignore[assignment]
    message = message_for(status, preference, outcome.losses, kkt, tol, seen=outcome.seen, lower=lower)
    if outcome.status == "stopped":
        message = f"stopped by the callback at {kkt}."
    if outcome.status == "settled":
        message = f"the method has no step left to take: it has arrived where it leads to. {message}"
    x = evaluator.restore(outcome.point)
    return Result(
        x=x,
        losses=_like(x, outcome.losses),
        weights=_like(x, kkt.weights),
        multipliers=_like(x, kkt.multipliers),
        kkt=kkt,
        status=status,
        message=message,
        iterations=outcome.iterations,
        evaluations=outcome.evaluations,
        gradient_evaluations=outcome.gradient_evaluations,
        cone=cone,
        history=history,
        preference=preference,
    )


def _kkt(preference: Preference, outcome: Outcome) -> KKT:
    if np.isfinite(outcome.losses).all() and np.isfinite(outcome.jacobian).all():
        return kkt_of(preference, outcome.losses, outcome.jacobian, outcome.seen)
    return no_certificate(preference)


def _like(x: Point, values: Array) -> Point:
    return torch.from_numpy(values.copy()) if isinstance(x, Tensor) else values.copy()


def _step_rule(step: float | Literal["auto"], method: Method[Any], preference: Preference, lower: Array) -> StepRule:
    if step != "auto":
        return FixedStep(float(step))
    assert isinstance(method, Merited)  # _check_options
    return Backtracking(method, preference, lower)


def _above(method: Method[Any], preference: Preference, lower: Array) -> Preference:
    """The preference for the losses ``F - lower``."""
    if not lower.any():
        return preference
    moved = shifted(preference, torch.from_numpy(lower))
    refusal = method.understands(moved)
    if refusal is not None:
        raise UnsupportedError(f"lower: about the losses above it the preference is another one. {refusal}")
    return moved


def _check_options(method: Method[Any], preference: Preference, step: object, max_iter: object, tol: object) -> None:
    check_method(method, "ferero.Ferero()")
    check_understood(method, preference)
    if isinstance(step, str):
        if step != "auto":
            raise InputError(f'step: expected "auto" or a positive number, found {step!r}.')
        if not getattr(method, "has_merit", False):
            raise UnsupportedError(
                f'{type(method).__name__} has no merit to globalise; step="auto" needs one. Give a fixed step, for '
                "example step=0.05."
            )
        if isinstance(method, Ferero):
            _check_acts(method)
    elif not (isinstance(step, (int, float)) and np.isfinite(step) and step > 0):
        raise InputError(f'step: expected "auto" or a positive number, found {step!r}.')
    if not (isinstance(max_iter, (int, float, np.number)) and max_iter >= 0 and max_iter == int(max_iter)):
        raise InputError(f"max_iter: expected a non-negative integer, found {max_iter!r}.")
    if not (isinstance(tol, (int, float, np.number)) and tol > 0):
        raise InputError(f"tol: expected a positive number, found {tol!r}.")


def _check_acts(method: Ferero) -> None:
    """Refuse settings of the paper's subprogram that the trust-region search ignores, since it sets its own."""
    usual = Ferero()
    for name in ("c_g", "c_h", "bound", "solver"):
        if getattr(method, name) != getattr(usual, name):
            raise UnsupportedError(
                f'{name}: step="auto" sets it by itself, found {getattr(method, name)!r}; leave it at '
                f"{getattr(usual, name)!r}, or give a fixed step, for example step=0.05."
            )


def _lower_bounds(lower: ArrayLike | None, m: int) -> Array:
    if lower is None:
        return np.zeros(m)
    bounds = to_float64(lower, "lower").numpy()
    if bounds.ndim > 1 or (bounds.ndim == 1 and len(bounds) != m):
        raise InputError(f"lower: expected one number or shape ({m},), found shape {bounds.shape}.")
    if not np.isfinite(bounds).all():
        raise InputError("lower: expected finite numbers, found NaN or infinity.")
    return np.broadcast_to(bounds, (m,)).copy()
