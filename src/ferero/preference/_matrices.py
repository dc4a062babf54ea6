"""Constraints from matrices: `B F + b <= 0` and `B F + b == 0`, row by row, so that they can be named too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from torch import Tensor

from ferero._arrays import ArrayLike
from ferero.errors import InputError
from ferero.geometry import Cone
from ferero.preference._expression import Constraint, LinearForm, Relation
from ferero.preference._inputs import as_matrix, as_vector

__all__ = ["Rows", "common_size", "read_rows", "row_constraints"]

Rows: TypeAlias = tuple[Tensor, Tensor] | None


def read_rows(B: ArrayLike | None, b: ArrayLike | None, suffix: str) -> Rows:
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


def common_size(cone: Cone | None, inequalities: Rows, equalities: Rows) -> int:
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


def row_constraints(names: Sequence[str], rows: Rows, relation: Relation) -> list[Constraint]:
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
