"""Where the linear rows of ratios and logarithms mean what was written, and in which units; see `Rewriting`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ferero.preference._expression import Constraint, LinearForm

if TYPE_CHECKING:
    from ferero.preference._preference import Preference

__all__ = ["are_valid", "invalid_rows", "is_rewritten", "row_units"]


def is_rewritten(preference: Preference) -> Tensor:
    """Which rows of a single preference were not written as linear ones, (r,), bool, inequalities first."""
    return torch.tensor([part.rewriting is not None for part in _parts(preference)], dtype=torch.bool)


def row_units(preference: Preference, losses: Tensor) -> Tensor:
    """What divides the rows of a single preference to the units of what was written, (r,), at losses (m,).

    For a ratio its denominator, and 1 for a row that is as it was written, or whose denominator is not positive.
    """
    units = torch.ones(preference.m_g + preference.m_h, dtype=losses.dtype, device=losses.device)
    for i, part in enumerate(_parts(preference)):
        if part.rewriting is not None:
            found = _value(part.rewriting.unit, preference.names, losses)
            units[i] = torch.where(found > 0, found, 1.0)
    return units


def invalid_rows(preference: Preference, losses: Tensor) -> dict[int, str]:
    """A sentence for every row of a single preference that does not mean what was written at losses (m,).

    A loss that is not known (NaN) is no reason.
    """
    found: dict[int, str] = {}
    for i, part in enumerate(_parts(preference)):
        for form in () if part.rewriting is None else part.rewriting.positive:
            value = float(_value(form, preference.names, losses))
            if value < 0:
                found[i] = (
                    f"'{part.text}' is steered as '{_linear(part)}', which means the same only where {form} >= 0, and "
                    f"{form} is {value:.3g} here. Bound it from below, '{form} >= 0', or choose another ratio."
                )
    return found


def are_valid(preference: Preference, losses: Tensor) -> Tensor | None:
    """Whether all rows mean what was written, (...) for losses (..., m); None where rows are as they were written."""
    members = preference.members or (preference,)
    forms = [[form for part in _parts(member) for form in _positive(part)] for member in members]
    if not any(forms):
        return None
    wide = losses if not preference.members or losses.ndim > 1 else losses.expand(len(members), -1)
    alone = (wide[..., i, :] for i in range(len(members))) if preference.members else (wide,)
    each = [_all_positive(own, preference.names, F) for own, F in zip(forms, alone, strict=True)]
    return torch.stack(each, dim=-1) if preference.members else each[0]


def _all_positive(forms: Sequence[LinearForm], names: Sequence[str], losses: Tensor) -> Tensor:
    valid = torch.ones(losses.shape[:-1], dtype=torch.bool, device=losses.device)
    for form in forms:
        valid = valid & (_value(form, names, losses) >= 0)
    return valid


def _parts(preference: Preference) -> list[Constraint]:
    """Of one row each, inequalities first."""
    parts = [part for constraint in preference.constraints for part in constraint.parts]
    return sorted(parts, key=lambda part: part.is_equality)


def _positive(part: Constraint) -> tuple[LinearForm, ...]:
    return () if part.rewriting is None else part.rewriting.positive


def _value(form: LinearForm, names: Sequence[str], losses: Tensor) -> Tensor:
    return losses @ losses.new_tensor(form.row(names)) + form.constant


def _linear(part: Constraint) -> str:
    return f"{part.left} {part.relation} {part.right}"
