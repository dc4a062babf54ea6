"""One wish about the losses, kept as it was written so that it can be printed and named when it binds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NoReturn

from ferero.errors import InputError
from ferero.preference.linear import LinearForm, number_text

__all__ = ["Constraint", "Relation", "with_margins"]

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
        margin: how many estimated standard errors of its value noisy training keeps away from the bound.

    Raises:
        InputError: for an `abs()` with another relation than `<=` or with a negative bound.

    Example:
        >>> import ferero.preference as fp
        >>> f = fp.objectives("zh", "en")
        >>> print((f.zh - f.en <= 0.5).with_margin(1.64))
        zh - en <= 0.5 (margin 1.64 standard errors)
    """

    left: LinearForm
    relation: Relation
    right: LinearForm
    absolute: bool = False
    label: str | None = None
    margin: float = 0.0

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
        upper = Constraint(self.left, "<=", self.right, margin=self.margin)
        return upper, Constraint(self.left, ">=", self.right.times(-1.0), margin=self.margin)

    @cached_property
    def form(self) -> LinearForm:
        """Left minus right, negated for `>=`, of a constraint of one row."""
        difference = self.left.plus(self.right, -1.0)
        return difference.times(-1.0) if self.relation == ">=" else difference

    def with_margin(self, z: float) -> Constraint:
        """The inequality with a margin of `z` standard errors, in place of any it had; its sides stay as they are.

        In noisy training `G <= 0` becomes `G + z * standard error of G <= 0`, so that the constraint holds with the
        confidence of z (1.64: 95%) and not only on average. Without noise a margin changes nothing.

        Args:
            z: how many standard errors; finite, not negative. Both rows of an `abs()` get it.

        Raises:
            InputError: for an equality, or a margin that is negative or not finite.
        """
        if self.is_equality:
            raise InputError(
                f"with_margin: only inequalities take a margin, '{self}' is an equality; "
                f"write 'abs({self.left.plus(self.right, -1.0)}) <= c' for a band"
            )
        return replace(self, margin=_read_margin(z))

    @property
    def text(self) -> str:
        """The constraint in words, without its margin."""
        if self.label is not None:
            return self.label
        left = f"abs({self.left})" if self.absolute else str(self.left)
        return f"{left} {self.relation} {self.right}"

    def __str__(self) -> str:
        if self.margin == 0:
            return self.text
        return f"{self.text} (margin {number_text(self.margin)} standard error{'' if self.margin == 1 else 's'})"

    def __bool__(self) -> NoReturn:
        raise InputError(
            f"the constraint '{self}' is neither true nor false; a chain 'a <= f.x <= b' is not supported: "
            f"write two constraints, [f.x >= a, f.x <= b], which 'and' does not join; for loss values ask "
            "Preference.is_satisfied"
        )

    def __and__(self, other: object) -> NoReturn:
        raise InputError(f"'({self}) & ...' is no constraint; write both into the list, [{self}, ...]")


def with_margins(constraints: Sequence[Constraint], margins: Sequence[float]) -> list[Constraint]:
    """The constraints with each inequality row given its own margin, equalities as they are.

    Args:
        constraints: as written; an `abs()` of two rows with different margins becomes two constraints.
        margins: one for each inequality row, in standard errors.
    """
    remaining = iter(margins)
    given: list[Constraint] = []
    for constraint in constraints:
        if constraint.is_equality:
            given.append(constraint)
            continue
        own = [next(remaining) for _ in constraint.parts]
        whole = len(set(own)) == 1
        parts = (constraint,) if whole else constraint.parts
        given += [part.with_margin(z) for part, z in zip(parts, own, strict=False)]
    return given


def _read_margin(z: object) -> float:
    try:
        margin = float(z)  # type: ignore[arg-type]  # whatever is no number is refused below
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"with_margin: z must be a number of standard errors, found {z!r}; write 1.64") from None
    if not (math.isfinite(margin) and margin >= 0):
        raise InputError(
            f"with_margin: z must be finite and >= 0, found {margin}; it counts standard errors: to loosen, "
            f"change the bound"
        )
    return margin
