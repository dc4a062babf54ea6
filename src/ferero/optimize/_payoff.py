"""`payoff`: each loss alone at its best, and what the others are there. Look at it before you choose bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ferero._arrays import Array, ArrayLike
from ferero.optimize._box import Bounds, read_bounds
from ferero.optimize._constraint_rows import Constraints
from ferero.optimize._evaluator import Function, Point, UserFunction, make_evaluator, read_starts
from ferero.optimize._minimize import minimize_many
from ferero.optimize._result import Result
from ferero.preference import Objectives, Preference, objectives

__all__ = ["Payoff", "payoff"]


@dataclass(frozen=True)
class Payoff:
    """The payoff table.

    Attributes:
        names: of the losses.
        losses: row i has all losses where loss i alone is at its best, (m, m).
        results: the run of each row.
    """

    names: tuple[str, ...]
    losses: Array
    results: tuple[Result, ...] = field(repr=False)

    @property
    def best(self) -> Array:
        """The smallest of each loss: the ideal point, (m,)."""
        return np.asarray(self.losses.diagonal())

    @property
    def worst(self) -> Array:
        """The largest of each loss in the table: an estimate of what it may cost to have another at its best, (m,)."""
        return np.asarray(self.losses.max(axis=0))

    def __str__(self) -> str:
        titles = ["best", *self.names, "status"]
        rows = [
            [name, *(f"{value:.4g}" for value in values), result.status]
            for name, values, result in zip(self.names, self.losses, self.results, strict=True)
        ]
        widths = [max(len(row[i]) for row in [titles, *rows]) for i in range(len(titles))]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [titles, *rows]
        ]
        return "\n".join(lines)


def payoff(
    fun: Function,
    x0: Point,
    *,
    names: Objectives | Sequence[str] | None = None,
    bounds: Bounds | None = None,
    constraints: Constraints | Sequence[Constraints] | None = None,
    max_iter: int = 200,
    tol: float = 1e-6,
    jac: Function | None = None,
    lower: ArrayLike | None = None,
) -> Payoff:
    """Minimise each of the m losses alone.

    Bounds between `best` and `worst` of the result are worth asking for: below the best there is nothing, above the
    worst a bound does not bind. A loss that others do not determine may be anything in their rows.

    Args:
        fun: ``fun(theta) -> (m,)``, as in `ferero.minimize`, like all that follows.
        x0: the start.
        names: of the losses; None is f1..fm.
        bounds: of the parameters.
        constraints: in x.
        max_iter: the most steps taken for each loss.
        tol: on each part of the KKT certificate.
        jac: ``jac(theta) -> (m, n)``, or None.
        lower: lower bounds of the losses, (m,) or one number.

    Example:
        >>> import torch, ferero
        >>> fun = lambda x: torch.stack([(x - 1).square().sum(), (x + 1).square().sum()])
        >>> print(ferero.payoff(fun, torch.zeros(2, dtype=torch.float64), names=["near", "far"]))
        best  near  far     status
        near     0    8  converged
         far     8    0  converged
    """
    first, starts = read_starts(x0, 1)
    box = read_bounds(bounds, starts.size)
    evaluator, points = make_evaluator(fun, first, jac, 1, UserFunction(fun, jac, box))
    evaluator.losses(points)
    named = (
        names if isinstance(names, Objectives) else objectives(*(names or [f"f{i + 1}" for i in range(evaluator.m)]))
    )
    results = minimize_many(
        fun,
        x0,
        [Preference(named, minimize=named[i]) for i in range(len(named.names))],
        bounds=bounds,
        constraints=constraints,
        max_iter=max_iter,
        tol=tol,
        jac=jac,
        lower=lower,
    )
    table = np.stack([np.asarray(result.losses, dtype=np.float64) for result in results])
    return Payoff(tuple(named.names), np.where(np.abs(table) < TINY * np.abs(table).max(), 0.0, table), tuple(results))


TINY = 1e-12  # of the largest loss: what rounding leaves of a loss that can be zero
