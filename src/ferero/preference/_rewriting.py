"""Where the linear rows of ratios and logarithms mean what was written, and in which units; see `Rewriting`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ferero.preference._expression import Constraint, LinearForm, Rewriting
from ferero.preference._row_entries import blocks_of

if TYPE_CHECKING:
    from ferero.preference._preference import Preference

__all__ = ["are_valid", "invalid_rows", "is_rewritten", "row_units"]


def is_rewritten(preference: Preference) -> Tensor:
    """Which rows of a single preference were not written as linear ones, (r,), bool, inequalities first."""
    found = torch.zeros(preference.m_g + preference.m_h, dtype=torch.bool)
    found[[i for i, _, _ in _rewritten(preference)]] = True
    return found


def row_units(preference: Preference, losses: Tensor) -> Tensor:
    """What divides the rows of a single preference to the units of what was written, (r,), at losses (m,).

    For a ratio its denominator, and 1 for a row that is as it was written, or whose denominator is not positive.
    """
    units = torch.ones(preference.m_g + preference.m_h, dtype=losses.dtype, device=losses.device)
    for i, _, rewriting in _rewritten(preference):
        found = _value(rewriting.unit, preference, losses)
        units[i] = torch.where(found > 0, found, 1.0)
    return units


def invalid_rows(preference: Preference, losses: Tensor) -> dict[int, str]:
    """A sentence for every row of a single preference that does not mean what was written at losses (m,).

    A loss that is not known (NaN) is no reason.
    """
    found: dict[int, str] = {}
    for i, part, rewriting in _rewritten(preference):
        for form in rewriting.positive:
            value = float(_value(form, preference, losses))
            if value < 0:
                found[i] = (
                    f"'{part.text}' is steered as '{_linear(part)}', which means the same only where {form} >= 0, and "
                    f"{form} is {value:.3g} here. Bound it from below, '{form} >= 0', or choose another ratio."
                )
    return found


def are_valid(preference: Preference, losses: Tensor) -> Tensor | None:
    """Whether all rows mean what was written, (...) for losses (..., m); None where rows are as they were written."""
    members = preference.members or (preference,)
    forms = [[form for _, _, rewriting in _rewritten(member) for form in rewriting.positive] for member in members]
    if not any(forms):
        return None
    wide = losses if not preference.members or losses.ndim > 1 else losses.expand(len(members), -1)
    alone = (wide[..., i, :] for i in range(len(members))) if preference.members else (wide,)
    each = [_all_positive(own, preference, F) for own, F in zip(forms, alone, strict=True)]
    return torch.stack(each, dim=-1) if preference.members else each[0]


def _all_positive(forms: Sequence[LinearForm], preference: Preference, losses: Tensor) -> Tensor:
    valid = torch.ones(losses.shape[:-1], dtype=torch.bool, device=losses.device)
    for form in forms:
        valid = valid & (_value(form, preference, losses) >= 0)
    return valid


def _rewritten(preference: Preference) -> list[tuple[int, Constraint, Rewriting]]:
    """The rows of a single preference that were not written as linear ones: number, constraint, and how."""
    blocks = blocks_of(preference.constraints)
    return [(block.start, block.part, block.part.rewriting) for block in blocks if block.part.rewriting is not None]


def _value(form: LinearForm, preference: Preference, losses: Tensor) -> Tensor:
    """The form (...) at losses (..., m)."""
    means = {family.mean: family for family in preference.families}
    total = losses.new_full(losses.shape[:-1], form.constant)
    for name, coefficient in form.terms:
        family = means.get(name)
        own = (
            losses[..., preference.names.index(name)]
            if family is None
            else losses[..., family.start : family.stop].mean(dim=-1)
        )
        total = total + coefficient * own
    return total


def _linear(part: Constraint) -> str:
    return f"{part.left} {part.relation} {part.right}"
