"""From the arguments that a person passes to the fields of a preference: checked, and turned into rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ferero._arrays import ArrayLike, check_finite, to_float64
from ferero.errors import InputError, UnknownNameError
from ferero.geometry import Cone
from ferero.preference._consistency import check_consistent
from ferero.preference._expression import Constraint, Expression, LinearForm, Relation, entries
from ferero.preference._line import Line
from ferero.preference._objectives import Objectives, did_you_mean

__all__ = [
    "as_losses",
    "as_matrix",
    "as_vector",
    "assemble",
    "common_size",
    "is_same_cone",
    "no_preference",
    "read_constraints",
    "read_minimized",
    "read_rows",
    "row_constraints",
]

Matrices: TypeAlias = tuple[Tensor, Tensor] | None  # B (k, m) and b (k,), if there are any


def assemble(
    objectives: Objectives,
    constraints: Sequence[Constraint],
    minimized: Sequence[LinearForm] = (),
    cone: Cone | None = None,
    line: Line | None = None,
    order: Tensor | None = None,
) -> dict[str, Any]:
    """All fields of a single preference, checked for contradictions.

    Args:
        objectives: the names (m,).
        constraints: as written.
        minimized: the rows of A; empty for the cone's.
        cone: the cone given, if any.
        line: the line that the constraints describe. It needs no linear programs and has its own notes.
        order: the rows of A as they were given, where the cone was made from them.

    Raises:
        ContradictionError: when no losses satisfy the constraints.
        InputError: for two constraints of one name.
        UnknownNameError: for names that are none of the objectives.
    """
    names = objectives.names
    _check_distinct(constraints)
    parts = [part for constraint in constraints for part in constraint.parts]
    _check_names(names, [*(part.left for part in parts), *(part.right for part in parts), *minimized])
    inequalities = [part for part in parts if not part.is_equality]
    equalities = [part for part in parts if part.is_equality]
    return {
        "names": names,
        "measured": objectives.measured,
        "constraints": tuple(constraints),
        **_order_fields(names, minimized, cone, order),
        **dict(zip(("B_g", "b_g"), _rows(names, inequalities), strict=True)),
        **dict(zip(("B_h", "b_h"), _rows(names, equalities), strict=True)),
        "margins": torch.tensor([part.margin for part in inequalities], dtype=torch.float64),
        "labels_g": tuple(part.titled for part in inequalities),
        "labels_h": tuple(part.titled for part in equalities),
        "notes": line.notes if line is not None else check_consistent(parts),
        "_ray": line and line.direction,
        "through": line and line.through,
        "at_most": None,
        "members": (),
    }


def _order_fields(
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
        order = _coefficients(names, minimized)
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


def _check_distinct(constraints: Iterable[Constraint]) -> None:
    first: dict[str, Constraint] = {}
    for constraint in constraints:
        if constraint.name is None:
            continue
        other = first.setdefault(constraint.name, constraint)
        if other is not constraint:
            raise InputError(
                f"constraints: expected names that differ, found '{constraint.name}' for '{other}' and for "
                f"'{constraint}'; rename one"
            )


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
    return _coefficients(names, forms), torch.tensor([form.constant for form in forms], dtype=torch.float64) + 0.0


def _coefficients(names: Sequence[str], forms: Sequence[LinearForm]) -> Tensor:
    """The coefficients (k, m) of k forms."""
    matrix = np.zeros((len(forms), len(names)))
    where, coefficients = entries(names, forms)
    if coefficients:
        matrix[where] = coefficients
    return torch.from_numpy(matrix)


def read_rows(B: ArrayLike | None, b: ArrayLike | None, suffix: str) -> Matrices:
    """`B` (k, m) and `b` (k,), zeros for None; None if there is no `B`.

    Args:
        B: the matrix, if any.
        b: the constants, if any.
        suffix: `g` or `h`, for the error's words.

    Raises:
        InputError: for shapes that do not fit, or constants without a matrix.
    """
    if B is None:
        if b is not None:
            raise InputError(f"b_{suffix}: expected B_{suffix} beside it, found None; give both")
        return None
    matrix = as_matrix(B, f"B_{suffix}")
    k = matrix.shape[0]
    return matrix, matrix.new_zeros(k) if b is None or k == 0 else as_vector(b, f"b_{suffix}", k)


def common_size(cone: Cone | None, inequalities: Matrices, equalities: Matrices) -> int:
    """The number m of columns that all given matrices have.

    Raises:
        InputError: when they differ, or none is given.
    """
    rows = {"B_g": inequalities, "B_h": equalities}
    sizes = {name: pair[0].shape[1] for name, pair in rows.items() if pair is not None}
    if cone is not None:
        sizes["A"] = cone.m
    if not sizes:
        raise InputError("from_matrices: expected A, B_g or B_h, found none; use pareto(m)")
    if len(set(sizes.values())) > 1:
        found = ", ".join(f"{size} in {name}" for name, size in sizes.items())
        raise InputError(f"from_matrices: expected the same number of columns everywhere, found {found}")
    return next(iter(sizes.values()))


def row_constraints(names: Sequence[str], rows: Matrices, relation: Relation) -> list[Constraint]:
    """The constraints `row . F relation -b` of B (k, m) and b (k,); none for None."""
    if rows is None:
        return []
    B, b = rows
    terms: list[list[tuple[str, float]]] = [[] for _ in range(len(B))]
    for (i, j), coefficient in zip(B.nonzero().tolist(), B[B != 0].tolist(), strict=True):
        terms[i].append((names[j], coefficient))
    return [
        Constraint(LinearForm(tuple(row)), relation, LinearForm(constant=0.0 - constant))
        for row, constant in zip(terms, b.tolist(), strict=True)
    ]


def as_vector(values: ArrayLike, argument: str, m: int | None = None) -> Tensor:
    """A finite float64 copy (m,) of `values`, on the CPU.

    Raises:
        InputError: for anything else than `m` (any positive number for None) finite numbers.
    """
    vector = to_float64(values, argument).cpu().clone()
    if vector.ndim != 1 or vector.numel() == 0:
        raise InputError(f"{argument}: expected a vector (m,), found shape {tuple(vector.shape)}")
    if m is not None and vector.numel() != m:
        raise InputError(f"{argument}: expected {m} numbers, found {vector.numel()}")
    check_finite(vector, argument)
    return vector


def as_matrix(values: ArrayLike, argument: str) -> Tensor:
    """A finite float64 copy (k, m) of `values`, on the CPU.

    Raises:
        InputError: for anything that is not a finite matrix with at least one column.
    """
    matrix = to_float64(values, argument).cpu().clone()
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise InputError(
            f"{argument}: expected a matrix (k, m), found shape {tuple(matrix.shape)}; "
            f"for several preferences use Preference.stack"
        )
    check_finite(matrix, argument)
    return matrix


def as_losses(losses: ArrayLike, m: int) -> Tensor:
    """`losses` (..., m) as a floating tensor, at least float32; lists and integers become float64.

    Tensors keep their device and their graph.

    Raises:
        InputError: when the last dimension is not `m`.
    """
    tensor = losses if isinstance(losses, Tensor) else _from_array(losses)
    if tensor.ndim == 0 or tensor.shape[-1] != m:
        raise InputError(f"losses: expected shape (..., {m}), found {tuple(tensor.shape)}")
    if not tensor.is_floating_point():
        return to_float64(tensor, "losses")
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _from_array(losses: ArrayLike) -> Tensor:
    """An array in its own precision, anything else in float64."""
    tensor = to_float64(losses, "losses")
    narrow = isinstance(losses, np.ndarray) and losses.dtype in (np.float16, np.float32)
    return tensor.to(torch.float32) if narrow else tensor


def no_preference(found: object) -> str:
    """The end of an error about an argument that is no preference: expected, found, what to write."""
    instead = ""
    if isinstance(found, (list, tuple)):
        instead = "; constraints go into Preference(f, [...]), a ray into Preference.ray([...])"
    elif isinstance(found, str):
        instead = "; Preference.parse reads text"
    return f"expected a Preference, found {type(found).__name__}{instead}"
