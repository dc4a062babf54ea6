"""Levels that move with the steps of training: named schedules, which can be saved, compared, printed and parsed.

A level is the constant of a row, so a schedule changes b of ``B F + b <= 0`` and nothing else. Steps are those of the
optimizer, counted from the start of the training: a controller knows them from its own state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, Literal, NoReturn

import torch
from torch import Tensor

from ferero.errors import InputError

__all__ = ["MovingLevel", "cosine", "piecewise", "ramp"]

Kind = Literal["ramp", "cosine", "piecewise"]


@dataclass(frozen=True)
class MovingLevel:
    """A level for every step t, made by `ramp`, `cosine` or `piecewise`.

    With ``x_i = (t - begin_i) / (end_i - begin_i)`` cut to [0, 1], and ``s(x) = x``, for a cosine
    ``s(x) = (1 - cos(pi x)) / 2``:

        level(t) = levels_0 + sum_i (levels_i+1 - levels_i) s(x_i)

    Args:
        kind: how the level moves.
        levels: those it goes through, (n + 1,).
        spans: the steps (begin, end) of each of the n changes; one of a single step is a jump.

    Example:
        >>> import ferero
        >>> level = ferero.ramp(1.0, 0.2, steps=100)
        >>> print(level, round(level.at(50), 3), level.end)
        ramp(1, 0.2, steps=100) 0.6 0.2
    """

    kind: Kind
    levels: tuple[float, ...]
    spans: tuple[tuple[int, int], ...]

    @property
    def end(self) -> float:
        """The last level."""
        return self.levels[-1]

    @property
    def knots(self) -> tuple[int, ...]:
        """The steps at which a change begins or ends."""
        return tuple(sorted({step for span in self.spans for step in span}))

    def at(self, step: int) -> float:
        """The level at a step, to twelve digits on the way, so that it prints as one would write it.

        Raises:
            InputError: for a step that is no whole number of at least 0.
        """
        now = torch.tensor([[_whole(step, "at", "step", 0)]], dtype=torch.float64)
        remaining = float(_remaining(*_changes([self]), now))
        return self.end if remaining == 0 else float(f"{self.end - remaining:.12g}")

    def times(self, factor: float) -> MovingLevel:
        """The schedule with every level multiplied."""
        return MovingLevel(self.kind, tuple(factor * level for level in self.levels), self.spans)

    def _refuse(self, *_: object) -> NoReturn:
        raise InputError(
            f"the level '{self}' stands alone on its side of a comparison with an expression, 'f.a <= {self}'; move "
            "the rest to the other side"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __abs__ = _refuse
    log = __lt__ = __gt__ = __bool__ = _refuse

    def __neg__(self) -> MovingLevel:
        return self.times(-1.0)

    def __pos__(self) -> MovingLevel:
        return self

    def __str__(self) -> str:
        first, *later = (_text(level) for level in self.levels)
        if self.kind == "piecewise":
            jumps = (f"({end}, {level})" for (_, end), level in zip(self.spans, later, strict=True))
            return f"piecewise({', '.join([first, *jumps])})"
        ((begin, end),) = self.spans
        after = f", after={begin}" if begin else ""
        return f"{self.kind}({first}, {later[0]}, steps={end - begin}{after})"


def ramp(start: float, end: float, *, steps: int, after: int = 0) -> MovingLevel:
    """A level that moves evenly from `start` to `end`, and stays there.

    Args:
        start: the first level.
        end: the last level.
        steps: how many optimizer steps it takes.
        after: the step at which it begins to move; for one that begins now, ``steer.steps``.

    Raises:
        InputError: for levels that are not finite, or steps that are no whole numbers.

    Example:
        >>> import ferero
        >>> f = ferero.objectives("a", "b")
        >>> print(ferero.Preference(f, [f.a <= ferero.ramp(1.0, 0.2, steps=5000)], minimize=f.b))
        minimize b
        subject to a <= ramp(1, 0.2, steps=5000)
    """
    return _between("ramp", start, end, steps, after)


def cosine(start: float, end: float, *, steps: int, after: int = 0) -> MovingLevel:
    """A level that moves from `start` to `end` along half a cosine: slowly at first and at last.

    Args:
        start: the first level.
        end: the last level.
        steps: how many optimizer steps it takes.
        after: the step at which it begins to move.

    Raises:
        InputError: for levels that are not finite, or steps that are no whole numbers.

    Example:
        >>> import ferero
        >>> [round(ferero.cosine(1.0, 0.0, steps=4).at(t), 3) for t in range(5)]
        [1.0, 0.854, 0.5, 0.146, 0.0]
    """
    return _between("cosine", start, end, steps, after)


def piecewise(start: float, *jumps: tuple[float, float]) -> MovingLevel:
    """A level that jumps.

    Args:
        start: the first level.
        *jumps: pairs of a step and the level from that step on, in order.

    Raises:
        InputError: for no jump, levels that are not finite, or steps that do not rise from 1 on.

    Example:
        >>> import ferero
        >>> [ferero.piecewise(1.0, (100, 0.5), (200, 0.2)).at(t) for t in (0, 99, 100, 200)]
        [1.0, 1.0, 0.5, 0.2]
    """
    expected = "piecewise: expected jumps (step, level), such as (1000, 0.5)"
    if not jumps:
        raise InputError(f"{expected}, found none; write the number alone for a level that stays")
    for jump in jumps:
        given: Any = jump
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise InputError(f"{expected}, found {given!r}")
    steps = [_whole(step, "piecewise", "step", 1) for step, _ in jumps]
    if any(late <= early for early, late in pairwise(steps)):
        raise InputError(f"{expected} whose steps rise, found {', '.join(map(str, steps))}; sort them")
    levels = [_finite(level, "piecewise", "level") for level in (start, *(level for _, level in jumps))]
    return MovingLevel("piecewise", tuple(levels), tuple((step - 1, step) for step in steps))


class LevelShifts:
    """The constants of r rows that move with the steps: ``b(t) = b + slopes * (level(t) - level(end))``.

    Args:
        schedules: one for each row, None for one that stays, (r,), or for each member of a stack (P, r).
        slopes: what b changes by for a change of the level by 1, -1 or 1, of the same shape.
        like: the constants of the end, (..., r), for their device and dtype.
    """

    def __init__(self, schedules: list[list[MovingLevel | None]], slopes: list[list[float]], like: Tensor) -> None:
        flat = [schedule for row in schedules for schedule in row]
        shape = (*like.shape, -1)
        self._parts = tuple(part.reshape(shape).to(like) for part in _changes(flat))
        self._slopes = torch.tensor(slopes, dtype=torch.float64).reshape(like.shape).to(like)

    def shift(self, step: Tensor) -> Tensor:
        """What b is above its last value at a step (..., 1), (..., r); without a host sync."""
        begins, lengths, changes, is_cosine = self._parts
        return -self._slopes * _remaining(begins, lengths, changes, is_cosine, step)


def _remaining(begins: Tensor, lengths: Tensor, changes: Tensor, is_cosine: Tensor, step: Tensor) -> Tensor:
    """How much each level is still to change, (..., r), at a step (..., 1), from its n changes (..., r, n)."""
    x = ((step[..., None] - begins) / lengths).clamp(0, 1)
    done = torch.where(is_cosine > 0, (1 - (math.pi * x).cos()) / 2, x)
    return (changes * (1 - done)).sum(dim=-1)


def _changes(schedules: list[MovingLevel | None]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Where the changes of r levels begin, how long they take, how large they are and their kind, (r, n) each."""
    n = max((len(s.spans) for s in schedules if s is not None), default=0)
    rows = [_padded(schedule, n) for schedule in schedules]
    begins, lengths, changes, is_cosine = (torch.tensor(part, dtype=torch.float64) for part in zip(*rows, strict=True))
    return begins, lengths, changes, is_cosine


def _padded(schedule: MovingLevel | None, n: int) -> tuple[list[float], list[float], list[float], list[float]]:
    spans = () if schedule is None else schedule.spans
    levels = () if schedule is None else schedule.levels
    fill = n - len(spans)
    return (
        [float(begin) for begin, _ in spans] + [0.0] * fill,
        [float(end - begin) for begin, end in spans] + [1.0] * fill,
        [late - early for early, late in pairwise(levels)] + [0.0] * fill,
        [float(schedule is not None and schedule.kind == "cosine")] * n,
    )


def _between(kind: Literal["ramp", "cosine"], start: Any, end: Any, steps: Any, after: Any) -> MovingLevel:
    levels = _finite(start, kind, "start"), _finite(end, kind, "end")
    begin = _whole(after, kind, "after", 0)
    return MovingLevel(kind, levels, ((begin, begin + _whole(steps, kind, "steps", 1)),))


def _finite(value: Any, name: str, argument: str) -> float:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value):
        raise InputError(f"{name}: expected a finite number for {argument}, found {value!r}")
    return float(value)


def _whole(value: Any, name: str, argument: str, least: int) -> int:
    is_whole = isinstance(value, Integral) or (isinstance(value, float) and value.is_integer())
    if not is_whole or isinstance(value, bool) or value < least:
        raise InputError(f"{name}: expected a whole number of at least {least} for {argument}, found {value!r}")
    return int(value)


def _text(value: float) -> str:
    short = f"{value:g}"
    return short if float(short) == value else repr(value)
