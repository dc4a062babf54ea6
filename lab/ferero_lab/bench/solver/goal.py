"""`Goal`: what is asked of a problem, as a preference for ferero and as a nonlinear program for the others.

In units of the losses' ranges, ``y = (F - ideal) / range``, goals of the four kinds are::

    ray         min t subject to y == y0 + t a
    at most     min t subject to y <= y0 + t a
    threshold   min y_m subject to y_i <= l_i for i < m
    equality    min y_2 + ... + y_m subject to y_1 == l_1

The others solve this form, with the constraints in x in units of their size at random points; ferero gets the losses as
they are, as its users would write it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, Self, TypeAlias

import numpy as np

import ferero
from ferero_lab.bench.solver.registry import get_problem
from ferero_lab.bench.solver.smooth import FloatArray, SmoothProblem

__all__ = ["KINDS", "Goal", "GoalKind", "NonlinearProgram"]

GoalKind: TypeAlias = Literal["ray", "at most", "threshold", "equality"]

KINDS: tuple[GoalKind, ...] = ("ray", "at most", "threshold", "equality")


@dataclass(frozen=True)
class NonlinearProgram:
    """Minimise ``c . v + has_t t``, linear in the values v = (F, G) of a problem and in one more variable t.

    Attributes:
        objective: c, (m + p,).
        constant: added to the objective.
        equal: rows E with ``E v + e + t s == 0``, (k, m + p).
        equal_constants: e, (k,).
        equal_slopes: s, (k,).
        most: rows with ``<= 0`` in the same form.
        most_constants: their constants.
        most_slopes: their slopes.
        has_t: whether t is a variable, and the objective.
    """

    objective: FloatArray
    constant: float
    equal: FloatArray
    equal_constants: FloatArray
    equal_slopes: FloatArray
    most: FloatArray
    most_constants: FloatArray
    most_slopes: FloatArray
    has_t: bool


@dataclass(frozen=True)
class Goal:
    """One thing to ask of a problem, with the best answer that is known.

    Attributes:
        problem: its name.
        kind: which form.
        index: which of this kind.
        ideal: the least that each loss alone can be in the box, (m,).
        span: how much more it is where another is least, (m,).
        units: of the constraints in x: their median size at random points, (p,).
        origin: y0 of a ray, (m,); empty for other kinds.
        direction: a of a ray, (m,), the largest entry 1; empty for other kinds.
        levels: of thresholds (m - 1,) or of an equality (1,); empty for rays.
        best: the least objective that is known, in the units above; None where nothing feasible is known.
        best_losses: the losses there, (m,).
        found_by: the solver that found it, and from how many starts.
    """

    problem: str
    kind: GoalKind
    index: int
    ideal: tuple[float, ...]
    span: tuple[float, ...]
    units: tuple[float, ...]
    origin: tuple[float, ...] = ()
    direction: tuple[float, ...] = ()
    levels: tuple[float, ...] = ()
    best: float | None = None
    best_losses: tuple[float, ...] = ()
    found_by: str = ""

    @property
    def of(self) -> SmoothProblem:
        """The problem."""
        return get_problem(self.problem)

    @property
    def key(self) -> str:
        """Unique among the goals."""
        return f"{self.problem} | {self.kind} | {self.index}"

    @cached_property
    def program(self) -> NonlinearProgram:
        """The form that SciPy's solvers and IPOPT get."""
        m, p = len(self.ideal), len(self.units)
        ideal, span = np.array(self.ideal), np.array(self.span)
        scaled = np.hstack([np.diag(1 / span), np.zeros((m, p))])  # y = scaled v - ideal / span
        below = -ideal / span
        in_x = np.hstack([np.zeros((p, m)), np.diag(1 / np.array(self.units)) if p else np.zeros((0, 0))])
        none, rows = np.zeros((0, m + p)), np.zeros(0)
        equal, e, s = none, rows, rows
        most, g, h = in_x, np.zeros(p), np.zeros(p)
        objective, constant = np.zeros(m + p), 0.0
        if self.direction:
            origin, a = np.array(self.origin), np.array(self.direction)
            if self.kind == "ray":
                equal, e, s = scaled, below - origin, -a
            else:
                most, g, h = np.vstack([scaled, in_x]), np.append(below - origin, g), np.append(-a, h)
        elif self.kind == "threshold":
            levels = np.array(self.levels)
            most, g = np.vstack([scaled[:-1], in_x]), np.append(below[:-1] - levels, g)
            h = np.zeros(len(g))
            objective, constant = scaled[-1], float(below[-1])
        else:
            equal, e, s = scaled[:1], below[:1] - self.levels[0], np.zeros(1)
            objective, constant = scaled[1:].sum(axis=0), float(below[1:].sum())
        return NonlinearProgram(objective, constant, equal, e, s, most, g, h, bool(self.direction))

    def preference(self) -> ferero.Preference:
        """The form that ferero gets, in the losses' own units."""
        ideal, span = np.array(self.ideal), np.array(self.span)
        if self.direction:
            through = ideal + np.array(self.origin) * span
            vector = np.array(self.direction) * span
            options: dict[str, Any] = {} if not through.any() else {"through": through}
            if self.kind == "at most":
                options["at_most"] = True
            return ferero.Preference.ray(vector, **options)
        f = ferero.objectives(*(f"f{i + 1}" for i in range(len(ideal))))
        losses = [getattr(f, name) for name in f.names]
        levels = (ideal + np.resize(self.levels, len(ideal)) * span).tolist()
        if self.kind == "threshold":
            bounds = [loss <= level for loss, level in zip(losses[:-1], levels, strict=False)]
            return ferero.Preference(f, bounds, minimize=losses[-1])
        total = sum((loss / width for loss, width in zip(losses[2:], self.span[2:], strict=True)), losses[1] / span[1])
        return ferero.Preference(f, [losses[0] == levels[0]], minimize=total)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """From plain data."""
        fields: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in data.items()}
        return cls(**fields)
