"""Constraints in x, as SciPy writes them, read as functions whose values are to be ``<= 0`` or ``== 0``.

Each becomes rows of the subprogram beside G and H: its values stand behind the losses, ``[F; g; h]``, and a preference
over the losses becomes one over all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy
import torch
from torch import Tensor

from ferero._arrays import Array
from ferero.errors import InputError, UnsupportedError

__all__ = ["Constraints", "Source", "read_constraints"]

Constraints: TypeAlias = "scipy.optimize.LinearConstraint | scipy.optimize.NonlinearConstraint | Mapping[str, Any]"


@dataclass(frozen=True, eq=False)
class Source:
    """One constraint of the user: ``low <= fun(x) <= high``.

    Attributes:
        name: how messages call it, ``constraints[0]``.
        fun: ``fun(x) -> (k,)``.
        jac: ``jac(x) -> (k, n)``, None for autograd or differences.
        low: one number or (k,).
        high: likewise.
    """

    name: str
    fun: Callable[[Any], Any]
    jac: Callable[[Any], Any] | None
    low: Array
    high: Array

    def sides(self, count: int) -> tuple[Array, Array]:
        """The bounds of k values, (k,) each.

        Raises:
            InputError: for another number of bounds than of values.
        """
        for side, word in ((self.low, "lb"), (self.high, "ub")):
            if side.size not in (1, count):
                raise InputError(
                    f"{self.name}: expected one bound or {count} ({word}), as its function has {count} values, found "
                    f"{side.size}."
                )
        low, high = np.broadcast_to(self.low.reshape(-1), (count,)), np.broadcast_to(self.high.reshape(-1), (count,))
        if (low > high).any():
            j = int((low > high).argmax())
            raise InputError(f"{self.name}: expected lb <= ub, found {low[j]:g} and {high[j]:g} at index {j}.")
        return low, high


def read_constraints(constraints: Constraints | Sequence[Constraints] | None, size: int) -> tuple[Source, ...]:
    """The constraints on n parameters.

    Args:
        constraints: one of SciPy's, or several: ``LinearConstraint``, ``NonlinearConstraint``, or a dictionary
            ``{"type": "ineq" (fun >= 0) or "eq", "fun", "jac", "args"}``.
        size: n.

    Raises:
        InputError: for other kinds or sizes.
        UnsupportedError: for ``keep_feasible=True``.
    """
    if constraints is None:
        return ()
    single = isinstance(
        constraints,
        Mapping | scipy.optimize.LinearConstraint | scipy.optimize.NonlinearConstraint | scipy.optimize.Bounds,
    )
    if not isinstance(constraints, Iterable) and not single:
        raise _unknown("constraints", constraints)
    several: list[object] = [constraints] if single else list(constraints)  # type: ignore[arg-type]
    return tuple(_read(one, f"constraints[{i}]", size) for i, one in enumerate(several))


def _unknown(name: str, found: object) -> InputError:
    return InputError(
        f"{name}: expected SciPy's LinearConstraint, NonlinearConstraint or a dictionary with type and fun, found "
        f"{type(found).__name__}; constraints on losses belong in the preference, bounds of parameters in bounds=."
    )


def _read(constraint: object, name: str, size: int) -> Source:
    if isinstance(constraint, Mapping):
        return _of_dictionary(constraint, name)
    if isinstance(constraint, scipy.optimize.LinearConstraint):
        _check_keep_feasible(constraint, name)
        return _linear(constraint, name, size)
    if isinstance(constraint, scipy.optimize.NonlinearConstraint):
        _check_keep_feasible(constraint, name)
        jac = constraint.jac if callable(constraint.jac) else None
        return Source(name, constraint.fun, jac, _numbers(constraint.lb, name), _numbers(constraint.ub, name))
    raise _unknown(name, constraint)


def _check_keep_feasible(constraint: Any, name: str) -> None:
    if np.any(constraint.keep_feasible):
        raise UnsupportedError(
            f"{name}: keep_feasible=True is not supported, since constraints may be violated on the way; only bounds= "
            "hold at every evaluation."
        )


def _numbers(values: Any, name: str) -> Array:
    found = np.asarray(values, dtype=np.float64)
    if np.isnan(found).any():
        raise InputError(f"{name}: expected numbers as bounds, found NaN; an open side is an infinity.")
    return found


def _linear(constraint: scipy.optimize.LinearConstraint, name: str, size: int) -> Source:
    raw = constraint.A.toarray() if scipy.sparse.issparse(constraint.A) else constraint.A
    matrix = np.atleast_2d(np.asarray(raw, dtype=np.float64))
    if matrix.ndim != 2 or matrix.shape[1] != size:
        raise InputError(f"{name}: expected A of shape (k, {size}), a column a parameter, found {matrix.shape}.")
    if not np.isfinite(matrix).all():
        raise InputError(f"{name}: expected finite numbers in A, found NaN or infinity.")

    def fun(x: Any) -> Any:
        if isinstance(x, Tensor):
            return torch.as_tensor(matrix, device=x.device) @ x.reshape(-1).double()
        return matrix @ np.asarray(x, dtype=np.float64).reshape(-1)

    def jac(x: Any) -> Any:
        return torch.as_tensor(matrix) if isinstance(x, Tensor) else matrix

    return Source(name, fun, jac, _numbers(constraint.lb, name), _numbers(constraint.ub, name))


def _of_dictionary(constraint: Mapping[str, Any], name: str) -> Source:
    unknown = set(constraint) - {"type", "fun", "jac", "args"}
    kind, fun = constraint.get("type"), constraint.get("fun")
    if unknown or kind not in ("ineq", "eq") or not callable(fun):
        found = f"the key {min(unknown)!r}" if unknown else f"type {kind!r} and fun {fun!r:.40}"
        raise InputError(
            f'{name}: expected {{"type": "ineq" (fun >= 0) or "eq", "fun": a function}} and perhaps jac and args, '
            f"found {found}."
        )
    args, jac = tuple(constraint.get("args", ())), constraint.get("jac")
    high = np.array(np.inf if kind == "ineq" else 0.0)
    return Source(
        name,
        lambda x: fun(x, *args),
        (lambda x: jac(x, *args)) if callable(jac) else None,
        np.array(0.0),
        high,
    )
