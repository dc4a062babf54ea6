"""`SmoothProblem`: losses and constraints written as formulas, compiled once into values and exact gradients.

The formulas are sympy's, so that every solver gets the same gradients, without differences and without the time that
automatic differentiation takes: what a solver costs by itself shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import sympy
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["FAMILIES", "Collection", "Family", "FloatArray", "Formulas", "SmoothProblem", "violation"]

FloatArray: TypeAlias = NDArray[np.float64]
Family: TypeAlias = Literal["unbounded", "box", "engineering"]
Formulas: TypeAlias = Callable[[Sequence[Any]], Sequence[Any]]
"""Expressions of sympy in the variables x."""

_TORCH = ("exp", "sin", "cos", "sqrt", "atan2")

FAMILIES: tuple[Family, ...] = ("unbounded", "box", "engineering")


@dataclass(frozen=True, eq=False)
class SmoothProblem:
    """Losses, bounds and constraints of a published problem.

    Attributes:
        name: of the problem, with its size where there are several.
        family: which it is counted in.
        group: problems of one group are in one half, since they resemble each other.
        source: the paper that defines it.
        low: of the box (n,): bounds, or where starts are drawn from if there are none.
        high: the same.
        losses: F, m expressions.
        constraints: expressions that are to be <= 0.
        has_kinks: whether a loss is only piecewise smooth.
        known: the variables (n,) at the optima as the paper gives them, NaN for those that vary; empty if it does not.
    """

    name: str
    family: Family
    group: str
    source: str
    low: tuple[float, ...]
    high: tuple[float, ...]
    losses: Formulas
    constraints: Formulas | None = None
    has_kinks: bool = False
    known: tuple[float, ...] = ()

    @property
    def n(self) -> int:
        """The number of variables."""
        return len(self.low)

    @property
    def is_bounded(self) -> bool:
        """Whether low and high are bounds."""
        return self.family != "unbounded"

    @cached_property
    def m(self) -> int:
        """The number of losses."""
        return len(self.losses(_symbols(self.n)))

    @cached_property
    def p(self) -> int:
        """The number of constraints."""
        return 0 if self.constraints is None else len(self.constraints(_symbols(self.n)))

    @cached_property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds (n,), infinite where there are none."""
        if self.is_bounded:
            return np.array(self.low), np.array(self.high)
        return np.full(self.n, -np.inf), np.full(self.n, np.inf)

    @cached_property
    def width(self) -> FloatArray:
        """The size of the box (n,): how much a variable varies."""
        width: FloatArray = np.array(self.high) - np.array(self.low)
        return width

    def values(self, x: FloatArray) -> FloatArray:
        """Losses and constraints (m + p,) at x (n,); NaN or infinite where they are not defined."""
        return _call(self._compiled[0], x)

    def jacobian(self, x: FloatArray) -> FloatArray:
        """Their gradients (m + p, n) at x (n,)."""
        return _call(self._compiled[1], x).reshape(self.m + self.p, self.n)

    def starts(self, count: int, seed: int) -> FloatArray:
        """Seeded uniform points of the box, (count, n)."""
        share = np.random.default_rng(seed).random((count, self.n))
        return np.array(self.low) + self.width * share

    def torch_losses(self, x: Tensor) -> Tensor:
        """F (m,) of a tensor (n,), which autograd can follow: what functions of torch cost."""
        return torch.stack(self._torch[0](*x.unbind()))

    def torch_constraints(self, x: Tensor) -> Tensor:
        """The constraints (p,) of a tensor (n,)."""
        return torch.stack(self._torch[1](*x.unbind()))

    def torch_values(self, x: Tensor) -> list[Tensor]:
        """Losses and constraints of a tensor (n,), m + p numbers, by one function of both."""
        return list(self._torch[2](*x.unbind()))

    @cached_property
    def _torch(self) -> tuple[Any, Any, Any]:
        x = _symbols(self.n)
        losses, constraints = self.losses(x), () if self.constraints is None else self.constraints(x)
        functions = [{name: getattr(torch, name) for name in _TORCH}]
        parts = (losses, constraints, (*losses, *constraints))
        first, second, both = (
            sympy.lambdify(x, [sympy.N(value) for value in part], modules=functions, cse=True) for part in parts
        )
        return first, second, both

    @cached_property
    def _compiled(self) -> tuple[_Compiled, _Compiled]:
        x = _symbols(self.n)
        constraints = () if self.constraints is None else self.constraints(x)
        values = [sympy.sympify(value) for value in (*self.losses(x), *constraints)]
        slopes = [sympy.diff(value, variable) for value in values for variable in x]
        return _Compiled(x, values), _Compiled(x, slopes)


class _Compiled:
    """Expressions as one Python function: of floats, or of numpy's scalars where those overflow or are not defined."""

    def __init__(self, x: tuple[Any, ...], expressions: list[Any]) -> None:
        self._form = x, expressions
        self.plain = sympy.lambdify(x, expressions, modules="math", cse=True)

    @cached_property
    def careful(self) -> Any:
        """The same with infinities and NaN in place of errors."""
        return sympy.lambdify(*self._form, modules="numpy", cse=True)


def _call(compiled: _Compiled, x: FloatArray) -> FloatArray:
    try:
        return np.array(compiled.plain(*x.tolist()), dtype=np.float64)
    except (ArithmeticError, ValueError, TypeError):  # a complex power is a TypeError
        with np.errstate(all="ignore"):
            return np.array([np.real_if_close(value) for value in compiled.careful(*x)], dtype=np.float64)


def _symbols(n: int) -> tuple[Any, ...]:
    return tuple(sympy.Symbol(f"x{i + 1}", real=True) for i in range(n))


def violation(*margins: Any) -> Any:
    """The sum of what is positive, as the RE suite turns constraints into a loss."""
    return sum((sympy.Piecewise((margin, margin > 0), (0, True)) for margin in margins), sympy.Integer(0))


class Collection:
    """Problems of one family, in the order in which they are written down."""

    def __init__(self, family: Family) -> None:
        self._family: Family = family
        self.problems: list[SmoothProblem] = []

    def add(
        self,
        name: str,
        low: float | Sequence[float],
        high: float | Sequence[float],
        losses: Formulas,
        source: str,
        *,
        n: int | None = None,
        group: str = "",
        constraints: Formulas | None = None,
        has_kinks: bool = False,
        known: Sequence[float] = (),
    ) -> None:
        """One more problem.

        Args:
            name: of the problem.
            low: of its box, one number for all n variables or one for each.
            high: the same.
            losses: as formulas.
            source: the paper.
            n: the number of variables where low and high are numbers.
            group: of problems that resemble it, its name by default.
            constraints: as formulas, <= 0.
            has_kinks: as in `SmoothProblem`.
            known: as in `SmoothProblem`.
        """
        least = (float(low),) * (n or 1) if isinstance(low, (int, float)) else tuple(map(float, low))
        most = (float(high),) * len(least) if isinstance(high, (int, float)) else tuple(map(float, high))
        self.problems.append(
            SmoothProblem(
                name,
                self._family,
                group or name,
                source,
                least,
                most,
                losses,
                constraints,
                has_kinks=has_kinks,
                known=tuple(known),
            )
        )
