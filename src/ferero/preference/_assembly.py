"""From what a person passes to the fields of a preference: the checks, and the one way rows are made."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from ferero.errors import InputError, UnknownNameError
from ferero.geometry import Cone
from ferero.preference._consistency import check_consistent
from ferero.preference._expression import Constraint, Expression, LinearForm, entries
from ferero.preference._line import Line
from ferero.preference._objectives import Objectives, did_you_mean

__all__ = ["assemble", "is_same_cone", "order_fields", "read_constraints", "read_minimized"]


def assemble(
    objectives: Objectives,
    constraints: Sequence[Constraint],
    minimized: Sequence[LinearForm] = (),
    cone: Cone | None = None,
    line: Line | None = None,
    order: Tensor | None = None,
) -> dict[str, Any]:
    """All fields of a single preference, consistent ones.

    Args:
        objectives: the names (m,).
        constraints: as written.
        minimized: the rows of A; empty for the cone's.
        cone: the cone given, if any.
        line: the line that the constraints describe. It needs no linear programs and has its own notes.
        order: the rows of A as they were given, where the cone was made from them.

    Raises:
        ContradictionError: when no losses satisfy the constraints.
        UnknownNameError: for names that are none of the objectives.
    """
    names = objectives.names
    parts = [part for constraint in constraints for part in constraint.parts]
    _check_names(names, [*(part.left for part in parts), *(part.right for part in parts), *minimized])
    inequalities = [part for part in parts if not part.is_equality]
    equalities = [part for part in parts if part.is_equality]
    return {
        "names": names,
        "measured": objectives.measured,
        "constraints": tuple(constraints),
        **order_fields(names, minimized, cone, order),
        **dict(zip(("B_g", "b_g"), _rows(names, inequalities), strict=True)),
        **dict(zip(("B_h", "b_h"), _rows(names, equalities), strict=True)),
        "margins": torch.tensor([part.margin for part in inequalities], dtype=torch.float64),
        "labels_g": tuple(part.text for part in inequalities),
        "labels_h": tuple(part.text for part in equalities),
        "notes": line.notes if line is not None else check_consistent(parts),
        "_ray": line and line.direction,
        "through": line and line.through,
        "members": (),
    }


def order_fields(
    names: Sequence[str], minimized: Sequence[LinearForm], cone: Cone | None, order: Tensor | None = None
) -> dict[str, Any]:
    """The fields `minimized`, `cone` and `A` (k, m): rows as written, which the adaptive domain weighs by their length.

    Raises:
        InputError: when both are given, a row has no objective, or the cone has another size.
    """
    if minimized and cone is not None:
        raise InputError("minimize, cone: expected one of them, found both; minimize makes its own cone")
    for form in minimized:
        if not form.terms:
            raise InputError(f"minimize: expected an expression with an objective, found '{form}'; remove it")
    if minimized:
        order = _matrix(names, minimized)
        cone = Cone(order)
    if cone is not None and not isinstance(cone, Cone):
        raise InputError(f"cone: expected a ferero.Cone, found {type(cone).__name__}; write ferero.Cone(A)")
    if cone is not None and cone.m != len(names):
        raise InputError(f"cone: expected m = {len(names)} losses ({', '.join(names)}), found m = {cone.m}")
    if order is None:
        order = torch.eye(len(names), dtype=torch.float64) if cone is None else cone.matrix.clone()
    return {"minimized": tuple(minimized), "cone": cone, "A": order}


def read_constraints(constraints: Constraint | Iterable[Constraint]) -> tuple[Constraint, ...]:
    """One constraint or several, as a tuple.

    Raises:
        InputError: for anything in it that is no constraint.
    """
    if isinstance(constraints, Constraint):
        return (constraints,)
    return tuple(_checked(item, i) for i, item in enumerate(constraints))


def read_minimized(minimize: Expression | Iterable[Expression] | None) -> tuple[LinearForm, ...]:
    """The forms of one expression, of several, or of none.

    Raises:
        InputError: for an empty sequence, or anything in it that is no linear expression.
    """
    if minimize is None:
        return ()
    expressions = (minimize,) if isinstance(minimize, Expression) else _listed(minimize)
    if not expressions:
        raise InputError("minimize: expected an expression, found none; leave it out to minimise every loss")
    for item in expressions:
        if not isinstance(item, Expression):
            hint = f"; write f.{item}" if isinstance(item, str) and item.isidentifier() else ""
            raise InputError(
                f"minimize: expected expressions such as f.a + f.b, found {item} ({type(item).__name__}){hint}"
            )
    return tuple(expression.form for expression in expressions)


def is_same_cone(one: Cone | None, other: Cone | None) -> bool:
    """Whether two cones have the same rows, or both are absent."""
    if one is None or other is None:
        return one is other
    return one.matrix.shape == other.matrix.shape and torch.equal(one.matrix, other.matrix)


def _listed(minimize: Any) -> tuple[Any, ...]:
    return tuple(minimize) if isinstance(minimize, Iterable) and not isinstance(minimize, str) else (minimize,)


def _checked(item: object, index: int) -> Constraint:
    if isinstance(item, str):
        raise InputError(f"constraints[{index}]: found the text {item!r}; Preference.parse({item!r}) reads text")
    if not isinstance(item, Constraint):
        raise InputError(
            f"constraints[{index}]: expected a comparison such as f.a <= 1, found {item} "
            f"({type(item).__name__}); compare with '<=', '>=' or '=='"
        )
    return item


def _check_names(names: tuple[str, ...], forms: Iterable[LinearForm]) -> None:
    known = set(names)
    for form in forms:
        for name, _ in form.terms:
            if name not in known:
                raise UnknownNameError(f"'{name}' is none of the objectives{did_you_mean(name, names)}")


def _rows(names: Sequence[str], parts: Sequence[Constraint]) -> tuple[Tensor, Tensor]:
    """`B` (k, m) and `b` (k,) of constraints of one row each."""
    forms = [part.form for part in parts]
    for part, form in zip(parts, forms, strict=True):
        if not all(math.isfinite(c) for c in (form.constant, *(c for _, c in form.terms))):
            raise InputError(f"constraints: '{part}' is not finite after left minus right; rescale the losses")
    return _matrix(names, forms), torch.tensor([form.constant for form in forms], dtype=torch.float64) + 0.0


def _matrix(names: Sequence[str], forms: Sequence[LinearForm]) -> Tensor:
    """The coefficients (k, m) of k forms."""
    matrix = torch.zeros(len(forms), len(names), dtype=torch.float64)
    where, coefficients = entries(names, forms)
    matrix[where] = torch.tensor(coefficients, dtype=torch.float64)
    return matrix
