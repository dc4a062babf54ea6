"""The preference: the order in which losses improve, and the constraints on their values."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar, overload

import torch
from torch import Tensor

from ferero._arrays import ArrayLike, to_float64
from ferero.errors import InputError, UnsupportedError
from ferero.geometry import Cone
from ferero.preference._assembly import (
    as_losses,
    as_matrix,
    as_vector,
    assemble,
    common_size,
    is_same_cone,
    read_constraints,
    read_minimized,
    read_rows,
    row_constraints,
)
from ferero.preference._expression import Constraint, Expression, LinearForm
from ferero.preference._family import Family, shown_names, with_row_margins
from ferero.preference._line import Line, unit_vector, vector_text
from ferero.preference._objectives import Objectives, as_objectives
from ferero.preference._parse import parse_text
from ferero.preference._rewriting import are_valid
from ferero.preference._row_entries import RowBlock, RowEntries, blocks_of
from ferero.preference._schedule import LevelShifts
from ferero.preference._stack import measured_of, stack_fields

__all__ = ["Preference", "check_steady", "levels_of", "shifted"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


class _constructor_and_value(Generic[_P, _R]):  # noqa: N801  # a decorator, like classmethod
    """A classmethod whose name on an instance reads the field `_name`: `Preference.ray(v)` constructs, `p.ray` is v."""

    def __init__(self, function: Callable[Concatenate[type[Any], _P], _R]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Callable[_P, _R]: ...

    @overload
    def __get__(self, instance: object, owner: type[Any]) -> Tensor | None: ...

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        if instance is None:
            return MethodType(self.function, owner)
        return getattr(instance, f"_{self.function.__name__}")


Names: TypeAlias = Objectives | Sequence[str] | None

_TENSORS = ("A", "b_g", "margins", "b_h", "_ray", "through", "at_most")
_MATRICES = {"B_g": "entries_g", "B_h": "entries_h"}
_WRITTEN = frozenset({"blocks", "labels_g", "labels_h"})  # made of the constraints as they are written
_SMALL = 2**21  # entries of a matrix that products use as it is


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Preference:
    """Minimise F with respect to `{y : A y >= 0}`, subject to `B_g F + b_g <= 0` and `B_h F + b_h == 0`.

    Rows are as written: left minus right, `>=` negated, in the given order, not rescaled. All tensors are
    float64 on the CPU until `to` moves them. A stack of P preferences has a leading dimension P in every tensor.

    Args:
        objectives: the named losses.
        constraints: comparisons of expressions; none for the order alone.
        minimize: an expression, or several, each a row of A (its constant is ignored); names that occur only
            in constraints are then quantities. None: every name is an objective.
        cone: what counts as an improvement; None is the orthant. Not together with `minimize`.

    Attributes:
        names: the losses' names (m,).
        measured: those whose target is a value of a metric in other units.
        families: the families among the names, each with its name, size and first position.
        constraints: the constraints as written.
        minimized: the forms of `minimize`, empty if none was given.
        cone: the cone given, the cone of `minimize`, or None. Of a stack: the one that all members share.
        A: the order's rows (k, m): as written where given by `minimize` or as a matrix, else the cone's unit rows; the
            identity if there is none of these.
        B_g: inequalities (m_g, m); made when first asked for, and refused where it would not fit into memory.
        b_g: their constants (m_g,).
        margins: z (m_g,), how many standard errors of its value each inequality keeps away from its bound, 0
            where none was given: in training `Steer` constrains `G + z * standard error <= 0`. Deterministic `minimize`
            has no noise, so a margin changes nothing there, nor in `values`, `violation` or `is_satisfied`.
        entries_g: those of their coefficients that are not zero; None for a stack.
        B_h: equalities (m_h, m).
        b_h: their constants (m_h,). Where a level moves with the steps of training, b_g and b_h have its end, and `at`
            gives those of a step.
        entries_h: as for the inequalities.
        labels_g: the inequalities in words, behind their names, without margins, one a row; empty for a stack, whose
            members have their own.
        labels_h: the equalities in words.
        notes: sentences about constraints that are redundant or that no non-negative losses can meet.
        ray: the unit vector (m,) of a line, None for what is not a line. Of a stack: (P, m) if all are lines.
        through: the point (m,) that the line goes through, None for the origin. Of a stack: zeros where None.
        at_most: the unit vector v (m,) of `F <= through + t v` with the smallest t, None for any other preference. Of a
            stack: (P, m) if all are such.
        members: the stacked preferences; empty for a single one.

    Raises:
        InputError: for arguments of the wrong kind or size.
        UnknownNameError: for a name that is none of the objectives.
        ContradictionError: when no losses at all satisfy the constraints, naming those that clash.

    Example:
        >>> from ferero.preference import objectives
        >>> f = objectives("cpc", "zh", "en")
        >>> p = Preference(f, [f.cpc <= 1.2, f.zh - f.en == 0.5])
        >>> print(p)
        minimize cpc, zh, en
        subject to cpc <= 1.2
                   zh - en == 0.5
        >>> p.B_h.tolist(), p.b_h.tolist()
        ([[0.0, 1.0, -1.0]], [-0.5])
    """

    names: tuple[str, ...]
    measured: tuple[str, ...]
    families: tuple[Family, ...]
    constraints: tuple[Constraint, ...]
    minimized: tuple[LinearForm, ...]
    cone: Cone | None
    A: Tensor
    entries_g: RowEntries | None  # None in a stack, which has padded matrices
    b_g: Tensor
    margins: Tensor
    entries_h: RowEntries | None
    b_h: Tensor
    notes: tuple[str, ...]
    _ray: Tensor | None  # read as `ray`, which is also a constructor
    through: Tensor | None
    at_most: Tensor | None
    members: tuple[Preference, ...]

    def __init__(
        self,
        objectives: Objectives | Sequence[str],
        constraints: Constraint | Iterable[Constraint] = (),
        minimize: Expression | Iterable[Expression] | None = None,
        cone: Cone | None = None,
    ) -> None:
        named = _read_names(objectives)
        self._set(**assemble(named, read_constraints(constraints), read_minimized(minimize), cone))

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @classmethod
    def _of(cls, **fields: Any) -> Preference:
        preference = object.__new__(cls)
        preference._set(**fields)
        return preference

    @classmethod
    def _of_line(cls, line: Line, names: Names, cone: Cone | None) -> Preference:
        named = as_objectives(names, line.direction.numel())
        return cls._of(**assemble(named, line.constraints(named.names), (), cone, line))

    # constructors -------------------------------------------------------------------------------------

    @classmethod
    def parse(cls, text: str, names: Names = None, cone: Cone | None = None) -> Preference:
        """Read a preference from text; nothing is evaluated.

        Constraints are separated by `;`, `,` or a new line. Also `minimize cpc + zh, en`, `ray 1 2`,
        `ray(1, 2) through (0, 0.5)`, `ray 1 2 at_most` and `weights(0.3, 0.7)`.

        Args:
            text: the preference in words.
            names: the losses; None takes the names found, in order of first appearance.
            cone: as for `Preference`.

        Raises:
            InputError: with a caret under what could not be read.

        Example:
            >>> Preference.parse("cpc <= 1.2; zh - en == 0.5", names=["cpc", "zh", "en"])
            Preference(cpc, zh, en: 1 inequality, 1 equality)
        """
        known = None if names is None else _read_names(names)
        parsed = parse_text(text, known)
        named = known if known is not None else parsed.objectives()
        preference = cls(named, parsed.constraints, parsed.minimize_over(named), cone)
        if parsed.ray is not None:
            return cls.ray(parsed.ray, parsed.through, at_most=parsed.at_most, names=named) & preference
        if parsed.weights is not None:
            return cls.from_weights(parsed.weights, names=named) & preference
        return preference

    @_constructor_and_value
    def ray(
        cls: type[Preference],  # noqa: N805  # the decorator passes the class
        vector: ArrayLike,
        through: ArrayLike | None = None,
        *,
        at_most: bool = False,
        cone: Cone | None = None,
        names: Names = None,
    ) -> Preference:
        """Losses with `F - through` parallel to the vector, or at most a multiple of it.

        `B_h` is an orthonormal basis (m - 1, m) of the vector's complement and `b_h = -B_h through`. With
        `through` one inequality keeps to the vector's side, `-v . (F - through) <= 0` for the unit vector v;
        without it there is none, since non-negative losses are on that side anyway.

        Args:
            vector: the direction (m,), of any length.
            through: a point (m,) on it; None is the origin.
            at_most: ask for `F <= through + t v` with the smallest t (weighted Chebyshev) instead. Where the ray meets
                the front the answer is the same; where it misses the front this still has an answer, at which some
                losses are below the ray. Only `minimize` and `trace` take it.
            cone: as for `Preference`; not together with `at_most`.
            names: the losses (m,); None is f1..fm.

        Raises:
            InputError: for a vector that is zero or not finite, or with `at_most` one that is not positive.

        Example:
            >>> print(Preference.ray([1.0, 2.0]))
            minimize f1, f2
            subject to F along (0.45, 0.89)
            >>> print(Preference.ray([1.0, 2.0], at_most=True))
            minimize t
            subject to F <= t (0.45, 0.89)
        """
        unit = unit_vector(as_vector(vector, "vector"), "vector")
        start = None if through is None else as_vector(through, "through", unit.numel())
        if at_most:
            return _below_vector(unit, start, names, cone)
        what = "F" if start is None else f"F - {vector_text(start)}"
        line = Line(unit, start, start is not None, f"{what} along {vector_text(unit)}")
        return cls._of_line(line, names, cone)

    @classmethod
    def from_weights(cls, w: ArrayLike, *, cone: Cone | None = None, names: Names = None) -> Preference:
        """Losses with `w_i f_i` all equal: the ray 1/w.

        Args:
            w: positive weights (m,), of any sum.
            cone: as for `Preference`.
            names: the losses (m,); None is f1..fm.

        Raises:
            InputError: for weights that are not all positive.
        """
        weights = as_vector(w, "w")
        if not bool((weights > 0).all()):
            raise InputError(
                f"w: expected positive weights, found {weights.tolist()}; for a loss that does not matter "
                f"leave it out by Preference(..., minimize=...)"
            )
        return cls.ray(weights.min() / weights, cone=cone, names=names)

    @classmethod
    def between(cls, a: ArrayLike, b: ArrayLike, *, cone: Cone | None = None, names: Names = None) -> Preference:
        """Losses on the line through two points, both ways: `p.ray` points from a to b, `p.through` is a.

        Args:
            a: a point (m,).
            b: another point (m,).
            cone: as for `Preference`.
            names: the losses (m,); None is f1..fm.

        Raises:
            InputError: when the points are equal or differ in size.
        """
        start = as_vector(a, "a")
        end = as_vector(b, "b", start.numel())
        if torch.equal(start, end):
            raise InputError(f"a, b: expected two different points, found {start.tolist()} twice; change one")
        size = torch.maximum(start.abs().max(), end.abs().max())  # the bare difference might overflow
        unit = unit_vector(end / size - start / size, "b - a")
        label = f"F on the line through {vector_text(start)} and {vector_text(end)}"
        return cls._of_line(Line(unit, start, False, label), names, cone)

    @classmethod
    def from_matrices(
        cls,
        A: ArrayLike | None = None,
        B_g: ArrayLike | None = None,
        b_g: ArrayLike | None = None,
        B_h: ArrayLike | None = None,
        b_h: ArrayLike | None = None,
        *,
        margins: ArrayLike | None = None,
        cone: Cone | None = None,
        names: Names = None,
    ) -> Preference:
        """The preference of given matrices: `B_g F + b_g <= 0`, `B_h F + b_h == 0`, ordered by `Cone(A)`.

        Args:
            A: the order's rows (k, m), of any length; not together with `cone`.
            B_g: inequalities (m_g, m).
            b_g: their constants (m_g,); None is zero.
            B_h: equalities (m_h, m).
            b_h: their constants (m_h,); None is zero.
            margins: how many standard errors the inequalities keep away from 0 in training, (m_g,) or one for all;
                None is zero.
            cone: as for `Preference`.
            names: the losses (m,); None is f1..fm.

        Raises:
            InputError: for shapes that do not fit each other, or if nothing is given.
        """
        if A is not None and cone is not None:
            raise InputError("A, cone: expected one of them, found both; A is the cone's matrix")
        cone = cone if A is None else Cone(A)
        inequalities, equalities = read_rows(B_g, b_g, "g"), read_rows(B_h, b_h, "h")
        named = as_objectives(names, common_size(cone, inequalities, equalities))
        constraints = [
            *row_constraints(named.names, inequalities, "<="),
            *row_constraints(named.names, equalities, "=="),
        ]
        order = None if A is None else as_matrix(A, "A")
        preference = cls._of(**assemble(named, constraints, (), cone, None, order))
        if margins is None:
            return preference
        if preference.m_g == 0 and to_float64(margins, "margins").numel():
            raise InputError("margins: only inequalities take a margin, found none; give B_g, or leave margins out")
        return preference._with_margins(margins, "margins")

    @classmethod
    def pareto(cls, m: int, *, cone: Cone | None = None, names: Names = None) -> Preference:
        """Nothing but the order of m losses.

        Raises:
            InputError: when `m` is no positive integer.
        """
        return cls(as_objectives(names, Cone.orthant(m).m), cone=cone)

    @classmethod
    def stack(cls, preferences: Iterable[Preference]) -> Preference:
        """Several preferences in one, for batched work.

        Matrices get a leading dimension: A (P, k, m), B_g (P, m_g, m) and so on, with the largest k, m_g and
        m_h. Short ones are padded by rows whose multipliers stay 0: zeros, with b_g = -1. The tensors of the first
        say on which device and in which dtype.

        Args:
            preferences: P single preferences over the same names.

        Raises:
            InputError: for none, for stacks among them, or for names that differ.
        """
        return cls._of(**stack_fields(tuple(preferences)))

    # values at given losses ---------------------------------------------------------------------------

    def values(self, losses: ArrayLike) -> tuple[Tensor, Tensor]:
        """`G = B_g F + b_g` and `H = B_h F + b_h`.

        Args:
            losses: F (..., m); for a stack (..., P, m) or (m,). Half precision is computed in float32.

        Returns:
            G (..., m_g) and H (..., m_h), on the losses' device.
        """
        F = self._read_losses(losses)
        return self._affine("B_g", self.b_g, F), self._affine("B_h", self.b_h, F)

    def violation(self, losses: ArrayLike) -> Tensor:
        """`[G]_+` then `|H|`, (..., m_g + m_h), for losses (..., m)."""
        G, H = self.values(losses)
        return torch.cat([G.clamp(min=0), H.abs()], dim=-1)

    def is_satisfied(self, losses: ArrayLike, atol: float = 1e-6) -> Tensor:
        """Whether the largest violation is at most `atol`: booleans (...) for losses (..., m).

        A ratio whose denominator is negative is not satisfied, nor is the logarithm of a negative number.
        """
        is_met = (self.violation(losses) <= atol).all(dim=-1)
        valid = are_valid(self, self._read_losses(losses))
        return is_met if valid is None else is_met & valid

    def _read_losses(self, losses: ArrayLike) -> Tensor:
        F = as_losses(losses, self.m)
        if self.members and F.ndim > 1 and F.shape[-2] not in (1, len(self)):
            raise InputError(f"losses: expected shape (..., {len(self)}, {self.m}), found {tuple(F.shape)}")
        return F

    def _affine(self, name: str, b: Tensor, F: Tensor) -> Tensor:
        entries: RowEntries | None = getattr(self, _MATRICES[name])
        if entries is not None and entries.shape[0] * entries.shape[1] > _SMALL:
            return entries.times(F) + b.to(F)
        B: Tensor = getattr(self, name)
        return (B.to(F) @ F.unsqueeze(-1)).squeeze(-1) + b.to(F)

    # other preferences --------------------------------------------------------------------------------

    def with_margin(self, z: ArrayLike) -> Preference:
        """All inequalities with margins of `z` standard errors, in place of any they had.

        In noisy training `G <= 0` becomes `G + z * standard error of G <= 0`; see `margins`.

        Args:
            z: a margin for all rows, or one for each (m_g,); finite, not negative.

        Raises:
            InputError: when there is no inequality, or for margins that do not fit.

        Example:
            >>> p = Preference.parse("a <= 0.1; b <= a").with_margin([1.64, 0])
            >>> print(p)
            minimize a, b
            subject to a <= 0.1 (margin 1.64 standard errors)
                       b <= a
            >>> p.margins.tolist()
            [1.64, 0.0]
        """
        self._check_single("with_margin")
        if self.m_g == 0:
            raise InputError("with_margin: only inequalities take a margin, found none; write '<='")
        return self._with_margins(z, "z")

    def _with_margins(self, z: ArrayLike, argument: str) -> Preference:
        margins = to_float64(z, argument)
        margins = margins.expand(self.m_g) if margins.ndim == 0 else margins
        if margins.shape == self.margins.shape == (0,):
            return self
        margins = as_vector(margins, argument, self.m_g)
        constraints = with_row_margins(self.constraints, margins.tolist())
        fields = assemble(Objectives(self.names, self.measured, self.families), constraints)
        if self._ray is not None:
            fields |= {"_ray": self._ray, "through": self.through, "notes": self.notes}
        return self._of(**{**fields, **self._order}).to(self.A.device, self.A.dtype)

    @property
    def moves(self) -> bool:
        """Whether a level moves with the steps of training, as in ``f.a <= ferero.ramp(1.0, 0.2, steps=5000)``."""
        return any(c.schedule is not None for member in self.members or (self,) for c in member.constraints)

    def at(self, step: int) -> Preference:
        """The preference with the levels of one step of training; itself where none moves.

        Args:
            step: how many steps the optimizer has taken.

        Raises:
            InputError: for a step that is no whole number of at least 0.

        Example:
            >>> p = Preference.parse("minimize b; a <= ramp(1, 0.2, steps=5000)", names=["a", "b"])
            >>> print(p.at(2500))
            minimize b
            subject to a <= 0.6
        """
        if not self.moves:
            return self
        if self.members:
            return self.stack(member.at(step) for member in self.members)
        constraints = tuple(constraint.at(step) for constraint in self.constraints)
        b = [constant for block in blocks_of(constraints) for constant in [block.part.form.constant] * block.size]
        fields: dict[str, Any] = {
            "constraints": constraints,
            "b_g": self.b_g.new_tensor(b[: self.m_g]),
            "b_h": self.b_h.new_tensor(b[self.m_g :]),
        }
        kept = {name: value for name, value in vars(self).items() if name not in _WRITTEN}
        return self._of(**{**kept, **fields})

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Preference:
        """The same preference with all its tensors, and those of its members, on a device and in a dtype.

        The cone stays as it is, float64 on the CPU. `minimize` and the subprograms need a preference there too.

        Args:
            device: where to; None leaves them where they are.
            dtype: a floating dtype; None leaves it.

        Returns:
            The moved preference, or this one where nothing changes.

        Raises:
            InputError: for a dtype that is not floating, or in the place of the device.

        Example:
            >>> Preference.ray([1.0, 2.0]).to(dtype=torch.float32).B_h.dtype
            torch.float32
        """
        if isinstance(device, torch.dtype):
            raise InputError(f"device: expected a device, found {device}; write to(dtype={device})")
        if dtype is not None and not dtype.is_floating_point:
            raise InputError(f"dtype: expected a floating dtype such as torch.float32, found {dtype}")
        names = (*_TENSORS, *(_MATRICES if self.members else _MATRICES.values()))
        fields: dict[str, Any] = {name: value for name in names if (value := getattr(self, name)) is not None}
        moved: dict[str, Any] = {name: tensor.to(device, dtype) for name, tensor in fields.items()}
        members = tuple(member.to(device, dtype) for member in self.members)
        is_same = all(moved[name] is fields[name] for name in fields)
        if is_same and all(new is old for new, old in zip(members, self.members, strict=True)):
            return self
        kept = {name: value for name, value in vars(self).items() if name not in _MATRICES}
        return self._of(**{**kept, **moved, "members": members})

    def __and__(self, other: Preference) -> Preference:
        """Both preferences at once: the constraints of the one, then of the other.

        Raises:
            InputError: when names, cones or minimised expressions differ.
            ContradictionError: when no losses satisfy both.
        """
        if not isinstance(other, Preference):
            return NotImplemented
        self._check_single("&")
        other._check_single("&")
        if self.names != other.names:
            raise InputError(f"&: expected the same names, found {self.shown_names} and {other.shown_names}")
        order = self if self.cone is not None else other
        if other.cone is not None and not is_same_cone(order.cone, other.cone):
            raise InputError(f"&: expected the same cone, or one without, found {self.cone} and {other.cone}")
        named = Objectives(self.names, measured_of(self, other), self.families)
        if self.constraints and other.constraints:
            fields = assemble(named, self.constraints + other.constraints)
        else:
            fields = {**vars(self if self.constraints else other), "measured": named.measured}
        fields |= _joint_ceiling(self, other)
        return self._of(**{**fields, **order._order}).to(self.A.device, self.A.dtype)

    @property
    def _order(self) -> dict[str, Any]:
        return {"minimized": self.minimized, "cone": self.cone, "A": self.A}

    # rows ---------------------------------------------------------------------------------------------

    @cached_property
    def B_g(self) -> Tensor:
        """Inequalities (m_g, m)."""
        return self._dense("B_g")

    @cached_property
    def B_h(self) -> Tensor:
        """Equalities (m_h, m)."""
        return self._dense("B_h")

    def _dense(self, name: str) -> Tensor:
        entries: RowEntries = getattr(self, _MATRICES[name])
        return entries.dense(name)

    @cached_property
    def blocks(self) -> tuple[RowBlock, ...]:
        """The rows, inequalities first, in blocks: one of a single constraint, or all of a family; none for a stack."""
        return blocks_of(self.constraints)

    @cached_property
    def labels_g(self) -> tuple[str, ...]:
        """The inequalities in words."""
        return self._labels(is_equality=False)

    @cached_property
    def labels_h(self) -> tuple[str, ...]:
        """The equalities in words."""
        return self._labels(is_equality=True)

    def _labels(self, *, is_equality: bool) -> tuple[str, ...]:
        blocks = [block for block in self.blocks if block.part.is_equality is is_equality]
        return tuple(block.title(row) for block in blocks for row in range(block.start, block.stop))

    # size and text ------------------------------------------------------------------------------------

    @property
    def m(self) -> int:
        """The number of losses."""
        return len(self.names)

    @property
    def shown_names(self) -> str:
        """The names in one line, a family as one: `ce, group[0] to group[99]`."""
        return shown_names(self.names, self.families)

    @property
    def quantities(self) -> tuple[str, ...]:
        """The names that no row of A (of any member of a stack) touches: constrained, perhaps, but not minimised."""
        touched = (self.A != 0).flatten(end_dim=-2).any(dim=0).tolist()
        return tuple(name for name, is_touched in zip(self.names, touched, strict=True) if not is_touched)

    @property
    def metric_keys(self) -> tuple[str, ...]:
        """What metrics call the blocks of rows: `Constraint.key`, with a number where it would repeat."""
        keys = [block.part.key for block in self.blocks]
        times = Counter(keys)
        taken = set(times)
        found = []
        for key in keys:
            free = (f"{key}_{i}" for i in itertools.count(1))
            found.append(key if times[key] == 1 else next(numbered for numbered in free if numbered not in taken))
            taken.add(found[-1])
        return tuple(found)

    @property
    def m_g(self) -> int:
        """The number of inequality rows."""
        return self.b_g.shape[-1]

    @property
    def m_h(self) -> int:
        """The number of equality rows."""
        return self.b_h.shape[-1]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """(P,) of a stack, () of a single preference."""
        return tuple(self.A.shape[:-2])

    def __len__(self) -> int:
        self._check_stack("len()")
        return len(self.members)

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, index: int) -> Preference:
        self._check_stack("[...]")
        return self.members[index]

    def __iter__(self) -> Iterator[Preference]:
        self._check_stack("iteration")
        return iter(self.members)

    def __str__(self) -> str:
        if self.members:
            return "\n".join(f"[{i}] " + str(p).replace("\n", "\n    ") for i, p in enumerate(self.members))
        if self.at_most is not None:
            start = "" if self.through is None else f"{vector_text(self.through)} + "
            order = "minimize t\nsubject to " + f"F <= {start}t {vector_text(self.at_most)}"
            return order + "".join(f"\n           {text}" for text in dict.fromkeys(map(str, self.constraints)))
        if self.minimized:
            order = "minimize " + ", ".join(str(form) for form in self.minimized)
        else:
            cone = "" if self.cone is None else f" with respect to {self.cone}"
            plain = self.names[: self.families[0].start] if self.families else self.names
            order = "minimize " + ", ".join([*plain, *(family.name for family in self.families)]) + cone
        shown = self.constraints
        if self.ray is not None:  # the half-space of a ray goes without saying
            shown = tuple(constraint for constraint in shown if constraint.is_equality or constraint.margin > 0)
        labels = dict.fromkeys(str(constraint) for constraint in shown)
        separator = "\n" + " " * len("subject to ")
        return order + ("\nsubject to " + separator.join(labels) if labels else "")

    def __repr__(self) -> str:
        counts = f"{_counted(self.m_g, 'inequality')}, {_counted(self.m_h, 'equality')}"
        size = f"{len(self.members)} preferences; " if self.members else ""
        return f"Preference({size}{self.shown_names}: {counts})"

    def _check_single(self, what: str) -> None:
        if self.members:
            raise InputError(f"{what}: expected a single preference, found a stack; use its members")

    def _check_stack(self, what: str) -> None:
        if not self.members:
            raise InputError(f"{what}: expected a stack, found a single preference; write Preference.stack([p])")


def check_steady(preference: Preference, what: str) -> None:
    """Refuse a level that moves where there are no steps of training.

    Raises:
        UnsupportedError: naming the constraint, and its last level.
    """
    for member in preference.members or (preference,):
        for constraint in member.constraints:
            if constraint.schedule is not None:
                raise UnsupportedError(
                    f"preference: '{constraint.text}' moves with the steps of training, found in {what}, which has "
                    f"none; write its last level, '{constraint.at(constraint.schedule.knots[-1]).text}', or pass "
                    "preference.at(step)."
                )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun.removesuffix('y')}ies"


def _read_names(names: Objectives | Sequence[str]) -> Objectives:
    if isinstance(names, str) or not isinstance(names, Objectives | Sequence):
        raise InputError(f"names: expected ferero.objectives(...) or a list, found {names!r} ({type(names).__name__})")
    return as_objectives(names, len(names))


def _below_vector(unit: Tensor, start: Tensor | None, names: Names, cone: Cone | None) -> Preference:
    """`F <= start + t unit` with the smallest t."""
    if cone is not None:
        raise InputError("at_most, cone: expected one of them, found both; F <= t v is about every loss by itself")
    if not bool((unit > 0).all()):
        raise InputError(
            f"vector: expected positive components with at_most=True, found {unit.tolist()}; leave out losses that may "
            "take any value"
        )
    fields = assemble(as_objectives(names, unit.numel()), ())
    return Preference._of(**{**fields, "at_most": unit, "through": start})


def _joint_ceiling(one: Preference, other: Preference) -> dict[str, Any]:
    """The field of `F <= t v` of two preferences, of which at most one may be such."""
    if one.at_most is None and other.at_most is None:
        return {}
    if one.at_most is not None and other.at_most is not None:
        raise InputError("&: expected one ray with at_most=True, found two; write the second as bounds")
    ceiling = one if one.at_most is not None else other
    rest = other if ceiling is one else one
    if rest.minimized or rest.cone is not None or rest.ray is not None:
        raise InputError("&: expected constraints beside a ray with at_most=True, found another order or a line")
    return {"at_most": ceiling.at_most, "through": ceiling.through}


def levels_of(preference: Preference, b: Tensor) -> LevelShifts | None:
    """How the constants move with the steps, inequalities first; None where none does.

    Args:
        preference: single or a stack.
        b: ``[b_g; b_h]``, (..., r), for its device and dtype.
    """
    if not preference.moves:
        return None
    rows = [_level_rows(member, preference.m_g, preference.m_h) for member in preference.members or (preference,)]
    schedules = [[None if part is None else part.schedule for part in row] for row in rows]
    slopes = [[1.0 if part is not None and part.relation == ">=" else -1.0 for part in row] for row in rows]
    return LevelShifts(schedules, slopes, b)


def _level_rows(member: Preference, m_g: int, m_h: int) -> list[Constraint | None]:
    """The constraints of one row each, inequalities first, None for the padding of a stack."""
    sides: list[list[Constraint | None]] = [[], []]
    for block in member.blocks:
        sides[block.part.is_equality] += [block.part] * block.size
    return [*sides[0], *[None] * (m_g - len(sides[0])), *sides[1], *[None] * (m_h - len(sides[1]))]


def shifted(preference: Preference, lower: Tensor) -> Preference:
    """The preference for the losses ``F - lower``, for lower (m,); a ray keeps its direction and starts elsewhere."""
    through = None
    if preference.ray is not None:
        start = -lower if preference.through is None else preference.through - lower
        through = start if bool((start != 0).any()) else None
    values = {"b_g": preference.b_g + preference.B_g @ lower, "b_h": preference.b_h + preference.B_h @ lower}
    return Preference._of(**{**vars(preference), **values, "through": through})
