"""One wish about the losses, kept as it was written so that it can be printed and named when it binds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NoReturn

from ferero.errors import InputError
from ferero.preference.linear import LinearForm, number_text

__all__ = ["Constraint", "Relation", "tighten"]

Relation = Literal["<=", ">=", "=="]


@dataclass(frozen=True)
class Constraint:
    """`left relation right`, or `abs(left) <= right`.

    Its rows are left minus right, negated for `>=`, not rescaled: `row . F + constant <= 0` (or `== 0`).
    `abs(left) <= right` has two rows, `left - right <= 0` and `-left - right <= 0`.

    Args:
        left: the left side.
        relation: `<=`, `>=` or `==`.
        right: the right side.
        absolute: whether the left side stands inside `abs()`.
        label: a sentence to print in place of the formula, for rows that nobody wrote (those of a ray).

    Raises:
        InputError: for an `abs()` with another relation than `<=` or with a negative bound.

    Example:
        >>> import ferero.preference as fp
        >>> f = fp.objectives("zh", "en")
        >>> print((f.zh - f.en <= 0.5).with_margin(0.125))
        zh - en <= 0.375
    """

    left: LinearForm
    relation: Relation
    right: LinearForm
    absolute: bool = False
    label: str | None = None

    def __post_init__(self) -> None:
        if self.absolute and self.relation != "<=":
            raise InputError(
                f"abs(...) takes only '<=': 'abs({self.left}) {self.relation} {self.right}' is not a convex "
                f"region; write 'abs({self.left}) <= c', or '{self.left} == c' for one value"
            )
        if self.absolute and not self.right.terms and self.right.constant < 0:
            raise InputError(
                f"abs(...) <= c needs c >= 0: 'abs({self.left}) <= {self.right}' can never hold; "
                f"raise the bound above zero"
            )

    @property
    def is_equality(self) -> bool:
        """Whether the constraint is an equation (a row of B_h) and not an inequality (a row of B_g)."""
        return self.relation == "=="

    @property
    def parts(self) -> tuple[Constraint, ...]:
        """The constraints of one row each: two for `abs()`, else the constraint itself."""
        if not self.absolute:
            return (self,)
        upper = Constraint(self.left, "<=", self.right)
        return upper, Constraint(self.left, ">=", self.right.times(-1.0))

    @property
    def form(self) -> LinearForm:
        """Left minus right, negated for `>=`, of a constraint of one row."""
        difference = self.left.plus(self.right, -1.0)
        return difference.times(-1.0) if self.relation == ">=" else difference

    def with_margin(self, z: float) -> Constraint:
        """The inequality tightened by `z`: `left <= right - z`, or `left >= right + z`.

        Raises:
            InputError: for an equality, or a margin that is negative or not finite.
        """
        if self.is_equality:
            raise InputError(
                f"with_margin: only inequalities take a margin, '{self}' is an equality; "
                f"write 'abs({self.left.plus(self.right, -1.0)}) <= c' for a band"
            )
        if not (math.isfinite(z) and z >= 0):
            raise InputError(f"with_margin: z must be finite and >= 0, found {z}; loosen by another bound")
        shift = LinearForm(constant=z if self.relation == ">=" else -z)
        label = self.label and f"{self.label} with margin {number_text(z)}"
        return replace(self, right=self.right.plus(shift), label=label)

    def __str__(self) -> str:
        if self.label is not None:
            return self.label
        left = f"abs({self.left})" if self.absolute else str(self.left)
        return f"{left} {self.relation} {self.right}"

    def __bool__(self) -> NoReturn:
        raise InputError(
            f"the constraint '{self}' is neither true nor false; a chain 'a <= f.x <= b' is not supported: "
            f"write two constraints, [f.x >= a, f.x <= b]; for loss values ask Preference.is_satisfied"
        )


def tighten(constraints: Sequence[Constraint], margins: Sequence[float]) -> list[Constraint]:
    """The constraints with each inequality row tightened by its own margin, equalities as they are.

    Args:
        constraints: as written; an `abs()` of two rows with different margins becomes two constraints.
        margins: one for each inequality row.
    """
    remaining = iter(margins)
    tight: list[Constraint] = []
    for constraint in constraints:
        if constraint.is_equality:
            tight.append(constraint)
            continue
        own = [next(remaining) for _ in constraint.parts]
        whole = len(set(own)) == 1
        parts = (constraint,) if whole else constraint.parts
        tight += [part.with_margin(z) for part, z in zip(parts, own, strict=False)]
    return tight
