"""`minimize`: the point that a preference describes, on a deterministic problem, with SciPy's interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ferero._arrays import Array, ArrayLike, to_float64
from ferero.errors import InputError, UnsupportedError
from ferero.geometry import Cone
from ferero.methods import Ferero, Merited, Method, check_understood
from ferero.methods._method import check_method
from ferero.optimize._box import Bounds, Box, choose_scale, read_bounds, read_scale
from ferero.optimize._certificate import (
    KKT,
    check_atol,
    check_count,
    check_single,
    in_units_of_x,
    kkt_of,
    no_certificate,
    sides_of,
)
from ferero.optimize._conditions import Conditions, JointEvaluator, ScaledEvaluator, make_joint_evaluator
from ferero.optimize._constraint_rows import Constraints, read_constraints
from ferero.optimize._evaluator import Evaluator, Function, Point, UserFunction, read_starts
from ferero.optimize._fixed_step import Backtracking, FixedStep, StepRule, iterate
from ferero.optimize._merit import build_merit
from ferero.optimize._outcome import Outcome, Round, Seen
from ferero.optimize._result import History, Progress, Result, Status, message_for
from ferero.optimize._scale import reaches_of
from ferero.optimize._trust_region import Search, descend
from ferero.preference import Preference
from ferero.preference._preference import shifted
from ferero.preference._rewriting import invalid_rows

__all__ = ["minimize", "minimize_many"]

Callback = Callable[[Progress], object]
NO_POINT = np.zeros(0)
_PUBLIC = {
    "stopped": "max_iter",
    "timed_out": "max_iter",
    "settled": "stalled",
}  # how a run ended, in the words of `Status`


def minimize(
    fun: Function,
    x0: Point,
    preference: Preference,
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
    callback: Callback | None = None,
) -> Result:
    """Find the point of the Pareto front that the preference describes, or say why there is none.

    ``step="auto"`` is Algorithm 1 with a trust radius and a quasi-Newton metric: it never takes a step that makes its
    merit worse, and does not depend on one common unit of the parameters, nor, for rays and ``minimize=``, on the units
    of the losses (with bounds alone many points are right, and units of very different size choose among them).
    ``step=0.05`` is the paper's fixed step, ``x <- x - 0.05 gradF w``, with the method's own weights.

    Args:
        fun: ``fun(theta) -> (m,)`` losses. It gets what ``x0`` is: a tensor (gradients by autograd) or a numpy array.
            Where it raises or returns NaN on the way, the search steps back.
        x0: the start, of any shape.
        preference: a single preference over the losses.
        bounds: of the parameters: SciPy's ``Bounds``, or a pair (lower, upper) for each, None for an open side. They
            hold at every evaluation, to the last bit; a start outside is moved in, and the message says so.
        constraints: in x, one or a list of SciPy's ``LinearConstraint``, ``NonlinearConstraint`` or dictionaries
            (``"ineq"`` means ``fun(x) >= 0``). Their functions get what ``fun`` gets; without ``jac`` their gradients
            come from autograd or differences.
        method: `Ferero()` by default. Others with a merit of their own (`LinearScalarization`,
            `SmoothTchebycheff`, `MGDA`) make it fall by backtracking; the rest need a fixed step. Only the default
            takes bounds and constraints.
        step: "auto" or a positive number.
        max_iter: the most steps taken.
        tol: on each part of the KKT certificate, all relative.
        jac: ``jac(theta) -> (m, n)``; without it, autograd or (numpy) central differences, one-sided at a bound.
        lower: lower bounds of the losses, (m,) or one number, where they can be negative; 0 by default. A loss that
            falls below it during the run is taken to be able to fall as far again.
        x_scale: the size of a typical change of each parameter, one number or one each, where units differ; by default
            from the bounds' widths and the gradients at the start.
        atol: violations of a constraint up to this, in its own units, count as none.
        diff_step: the step of numpy differences relative to each parameter's size; by default from the precision.
        noise: the size of the errors in the losses, (m,) or one number, where they are more than rounding: differences
            below it mean nothing, and numpy differences take longer steps.
        time_limit: in seconds; checked after every step.
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
        >>> r = ferero.minimize(fun, torch.zeros(2), ferero.Preference.ray([1.0, 3.0]), bounds=[(0, 1), (0.5, 1)])
        >>> r.status, float(r.x[1])
        ('converged', 0.5)
    """
    options = _Options(
        bounds=bounds,
        constraints=constraints,
        method=Ferero() if method is None else method,
        step=step,
        max_iter=max_iter,
        tol=tol,
        jac=jac,
        lower=lower,
        x_scale=x_scale,
        atol=atol,
        diff_step=diff_step,
        noise=noise,
        time_limit=time_limit,
    )
    return _solve(fun, x0, [preference], options, callback)[0]


def minimize_many(
    fun: Function,
    x0: Point,
    preferences: Sequence[Preference],
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
) -> list[Result]:
    """`minimize` for several preferences at once: one start for all, (n,), or one for each, (P, n)."""
    options = _Options(
        bounds=bounds,
        constraints=constraints,
        method=Ferero() if method is None else method,
        step=step,
        max_iter=max_iter,
        tol=tol,
        jac=jac,
        lower=lower,
        x_scale=x_scale,
        atol=atol,
        diff_step=diff_step,
        noise=noise,
        time_limit=time_limit,
    )
    return _solve(fun, x0, list(preferences), options, None)


@dataclass(frozen=True, eq=False)
class _Options:
    """The options of `minimize`, as given."""

    bounds: Bounds | None
    constraints: Constraints | Sequence[Constraints] | None
    method: Method[Any]
    step: float | Literal["auto"]
    max_iter: int
    tol: float
    jac: Function | None
    lower: ArrayLike | None
    x_scale: ArrayLike | None
    atol: float
    diff_step: ArrayLike | None
    noise: ArrayLike | None
    time_limit: float | None

    def check(self, preference: Preference) -> None:
        """Refuses options that are wrong, or that do not go together."""
        check_single(preference)
        _check_options(self.method, preference, self.step, self.max_iter, self.tol)
        check_atol(self.atol)
        check_time_limit(self.time_limit)
        if self.is_search:
            return
        for name in ("bounds", "constraints", "x_scale", "atol", "noise"):
            if getattr(self, name) is not None and getattr(self, name) != 0:
                raise UnsupportedError(
                    f'{name}: only the search of step="auto" with method=Ferero() takes it; leave it out, or method '
                    "and step."
                )

    @property
    def is_search(self) -> bool:
        """Whether the trust-region search is meant, and not a method's own steps."""
        return self.step == "auto" and isinstance(self.method, Ferero)


def _solve(
    fun: Function, x0: Point, preferences: list[Preference], options: _Options, callback: Callback | None
) -> list[Result]:
    for preference in preferences:
        options.check(preference)
    runs = len(preferences)
    starts = read_starts(x0, runs)[1]
    size = starts.shape[1]
    box, sources = read_bounds(options.bounds, size), read_constraints(options.constraints, size)
    noise = _read_noise(options.noise, preferences[0].m)
    call = UserFunction(fun, options.jac, box, diff_step=_read_diff_step(options.diff_step, size), noise=noise)
    evaluator, inside = make_joint_evaluator(call, x0, runs, sources)
    moved = (inside != starts).sum(axis=1)
    given = read_scale(options.x_scale, size)
    losses = evaluator.losses(inside)
    check_count(preferences[0], evaluator.losses_only)
    lower = _lower_bounds(options.lower, preferences[0].m)
    conditions = [Conditions(p, evaluator.layout) for p in preferences]
    recorder = _Recorder(evaluator, losses[:, : len(lower)], callback, options.time_limit)
    if not options.is_search:
        return _iterate_all(evaluator, inside, conditions, options, lower, recorder)
    return _search_all(evaluator, inside, losses, conditions, options, lower, recorder, box, given, noise, moved)


def _search_all(
    evaluator: JointEvaluator,
    starts: Array,
    losses: Array,
    conditions: list[Conditions],
    options: _Options,
    lower: Array,
    recorder: _Recorder,
    box: Box | None,
    given: Array | None,
    noise: Array | None,
    moved: NDArray[np.int64],
) -> list[Result]:
    """The trust-region search, in units in which the parameters are alike."""
    jacobian = evaluator.jacobians(np.arange(len(starts)))
    scale = choose_scale(box, given, starts, jacobian)
    scaled: Evaluator = ScaledEvaluator(evaluator, scale) if (scale != 1).any() else evaluator
    own = None if box is None else box.in_units(scale)
    starts, jacobian = starts / scale, jacobian * scale
    recorder.scale = scale
    certificates: dict[int, KKT] = {}

    def is_optimal(run: int, point: Array, values: Array, slopes: Array, seen: Seen) -> bool:
        certificates[run] = kkt_of(conditions[run], values, slopes, seen, sides_of(own, point), options.atol)
        return certificates[run].worst <= options.tol

    finite = np.isfinite(losses).all(axis=1, keepdims=True)
    readable = np.where(finite, losses, 1.0)
    slopes = jacobian if np.isfinite(jacobian).all() else np.nan_to_num(jacobian)
    assert isinstance(options.method, Ferero)
    domain = options.method.domain
    built = [
        build_merit(own, values, lower, domain, reaches_of(point, gradients))
        for own, values, point, gradients in zip(conditions, readable, starts, slopes, strict=True)
    ]
    p = len(evaluator.layout)
    search = Search(
        scaled,
        is_optimal,
        int(options.max_iter),
        options.tol,
        recorder,
        own,
        options.atol,
        None if noise is None else np.concatenate([np.broadcast_to(noise, lower.shape), np.zeros(p)]),
    )
    outcomes = descend(search, starts, losses, jacobian, [merit for merit, _ in built])
    histories, results = recorder.histories(), []
    for i, outcome in enumerate(outcomes):
        arrived = outcome.status == "converged"
        kkt = certificates[i] if arrived else _kkt(conditions[i], outcome, own, options.atol)
        ended = replace(outcome, point=outcome.point * scale)
        notes = _notes(int(moved[i]), evaluator.failures)
        found = in_units_of_x(kkt, scale)
        results.append(
            _result(evaluator, conditions[i], ended, built[i][1], found, histories[i], options, lower, notes)
        )
    return results


def _iterate_all(
    evaluator: JointEvaluator,
    starts: Array,
    conditions: list[Conditions],
    options: _Options,
    lower: Array,
    recorder: _Recorder,
) -> list[Result]:
    """A method's own steps, one run after the other."""
    certificates: dict[int, KKT] = {}

    def is_optimal(run: int, values: Array, jacobian: Array, seen: Seen) -> bool:
        certificates[run] = kkt_of(conditions[run], values, jacobian, seen)
        return certificates[run].worst <= options.tol

    outcomes = []
    for run, asked in enumerate(conditions):
        recorder.run, seen = run, _above(options.method, asked.preference, lower)
        outcome = iterate(
            evaluator,
            starts[run],
            seen,
            options.method,
            partial(is_optimal, run),
            rule=_step_rule(options.step, options.method, seen, lower),
            max_iter=int(options.max_iter),
            lower=lower,
            on_round=recorder,
        )
        outcomes.append(replace(outcome, evaluations=outcome.evaluations + 1))  # the start was evaluated before
    results, histories = [], recorder.histories()
    for i, outcome in enumerate(outcomes):
        kkt = certificates[i] if outcome.status == "converged" else _kkt(conditions[i], outcome, None, 0.0)
        cone = Cone(conditions[i].preference.A)
        results.append(_result(evaluator, conditions[i], outcome, cone, kkt, histories[i], options, lower, ""))
    return results


def _notes(moved: int, failures: list[str]) -> str:
    """What else a message should say: a start that was moved into its bounds, and points where the function failed."""
    out = ""
    if moved:
        out += f" x0 was outside its bounds in {moved} parameter{'s' if moved > 1 else ''} and was moved in."
    if failures:
        out += f" At {len(failures)} of the points tried a function raised an error ({failures[-1]:.80})."
    return out


def _read_diff_step(diff_step: ArrayLike | None, size: int) -> Array | None:
    if diff_step is None:
        return None
    found = to_float64(diff_step, "diff_step").numpy().reshape(-1)
    if found.size not in (1, size) or not (np.isfinite(found).all() and (found > 0).all()):
        raise InputError(
            f"diff_step: expected a positive number, or {size}, one a parameter, found {diff_step!r:.60}; 1e-6 means a "
            "millionth of the parameter's size."
        )
    return np.broadcast_to(found, (size,)).copy()


def _read_noise(noise: ArrayLike | None, m: int) -> Array | None:
    if noise is None:
        return None
    found = to_float64(noise, "noise").numpy().reshape(-1)
    if found.size not in (1, m) or not (np.isfinite(found).all() and (found >= 0).all()):
        raise InputError(
            f"noise: expected a non-negative number, or {m}, one a loss, found {noise!r:.60}; give the size of the "
            "errors in the losses."
        )
    return np.broadcast_to(found, (m,)).copy()


class _Recorder:
    """Keeps the accepted rounds as they come, without their points, tells the callback and watches the time."""

    def __init__(self, evaluator: Evaluator, start: Array, callback: Callback | None, time_limit: float | None) -> None:
        self._evaluator, self._start, self._callback = evaluator, start, callback
        self._rounds: list[list[Round]] = [[] for _ in start]
        self._deadline = np.inf if time_limit is None else monotonic() + time_limit
        self.run = 0  # the run that a round's index 0 stands for, where runs are taken one by one
        self.scale: Array | float = 1.0  # of the points

    def __call__(self, record: Round) -> str:
        if record.accepted:
            m = self._start.shape[1]
            mine = self._rounds[self.run + record.run]
            mine.append(record._replace(losses=record.losses[:m], weights=record.weights[:m], point=NO_POINT))
            if self._callback is not None:
                x = self._evaluator.restore(record.point * self.scale)
                progress = Progress(len(mine), x, mine[-1].losses, mine[-1].weights, record.violation)
                try:
                    self._callback(progress)
                except StopIteration:
                    return "stopped"
        return "timed_out" if monotonic() > self._deadline else ""

    def histories(self) -> list[History]:
        """The accepted rounds of each run."""
        return [_history(start, rounds) for start, rounds in zip(self._start, self._rounds, strict=True)]


def _history(start: Array, rounds: Sequence[Round]) -> History:
    measures = np.array([(one.violation, one.stationarity, one.length) for one in rounds]).reshape(-1, 3)
    return History(
        np.array([start, *(one.losses for one in rounds)]),
        np.array([one.weights for one in rounds]).reshape(-1, len(start)),
        *measures.T.copy(),
    )


def _result(
    evaluator: Evaluator,
    conditions: Conditions,
    outcome: Outcome,
    cone: Cone,
    kkt: KKT,
    history: History,
    options: _Options,
    lower: Array,
    notes: str,
) -> Result:
    status: Status = _PUBLIC.get(outcome.status, outcome.status)  # type: ignore[assignment]
    message = message_for(
        status, conditions, outcome.losses, kkt, options.tol, seen=outcome.seen, lower=lower, atol=options.atol
    )
    if outcome.status == "stopped":
        message = f"stopped by the callback at {kkt}."
    if outcome.status == "timed_out":
        message = f"time_limit was reached at {kkt}. Raise time_limit, or continue from r.x."
    if outcome.status == "settled":
        message = f"the method has no step left to take: it has arrived where it leads to. {message}"
    invalid = invalid_rows(conditions.preference, torch.from_numpy(outcome.losses[: conditions.m]))
    if invalid and status == "converged":
        status, message = "unattainable", " ".join(invalid.values())
    x = evaluator.restore(outcome.point)
    return Result(
        x=x,
        losses=_like(x, outcome.losses[: conditions.m]),
        weights=_like(x, kkt.weights),
        multipliers=_like(x, kkt.multipliers),
        constraint_multipliers=tuple(_like(x, one) for one in kkt.constraint_multipliers),
        bound_multipliers=_like(x, kkt.bound_multipliers.reshape(tuple(x.shape))),
        kkt=kkt,
        status=status,
        message=message + notes,
        iterations=outcome.iterations,
        evaluations=outcome.evaluations,
        gradient_evaluations=outcome.gradient_evaluations,
        cone=cone,
        history=history,
        preference=conditions.preference,
    )


def _kkt(conditions: Conditions, outcome: Outcome, box: Box | None, atol: float) -> KKT:
    if np.isfinite(outcome.losses).all() and np.isfinite(outcome.jacobian).all():
        sides = sides_of(box, outcome.point)
        return kkt_of(conditions, outcome.losses, outcome.jacobian, outcome.seen, sides, atol)
    return no_certificate(conditions, len(outcome.point))


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


def check_time_limit(time_limit: float | None) -> None:
    """Refuses a limit that is not positive."""
    if time_limit is not None and not time_limit > 0:
        raise InputError(f"time_limit: expected a positive number of seconds, found {time_limit!r}.")


def _check_options(method: Method[Any], preference: Preference, step: object, max_iter: object, tol: object) -> None:
    check_method(method, "ferero.Ferero()")
    if preference.at_most is None or step != "auto" or not isinstance(method, Ferero):
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
