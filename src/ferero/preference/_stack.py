"""Several preferences in one: short matrices are padded by rows whose multipliers stay 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ferero.errors import InputError
from ferero.preference._assembly import is_same_cone

if TYPE_CHECKING:
    from ferero.preference._preference import Preference

__all__ = ["measured_of", "stack_fields"]


def stack_fields(members: Sequence[Preference]) -> dict[str, Any]:
    """All fields of a stack of P single preferences over the same names.

    Raises:
        InputError: for none, for stacks among them, or for names that differ.
    """
    for i, member in enumerate(members):
        _check_member(member, i, members[0])
    if not members:
        raise InputError("preferences: expected at least one to stack, found none")
    first = members[0]
    members = [p.to(first.A.device, first.A.dtype) for p in members]
    is_shared = all(is_same_cone(first.cone, p.cone) for p in members)
    fields: dict[str, Any] = {"names": first.names, "measured": measured_of(*members), "members": tuple(members)}
    fields |= {"families": first.families, "entries_g": None, "entries_h": None}
    empty = dict.fromkeys(("constraints", "minimized"), ())
    notes = tuple(f"[{i}] {note}" for i, p in enumerate(members) for note in p.notes)
    order = {"cone": first.cone if is_shared else None, "notes": notes}
    return {**fields, **empty, **order, **_matrices(members), **_lines(members), "at_most": _ceilings(members)}


def measured_of(*preferences: Preference) -> tuple[str, ...]:
    """The names that any of the preferences measures, in the order of the names."""
    measured = {name for preference in preferences for name in preference.measured}
    return tuple(name for name in preferences[0].names if name in measured)


def _check_member(member: Preference, index: int, first: Preference) -> None:
    if not hasattr(member, "members"):
        raise InputError(f"preferences[{index}]: expected a Preference, found {type(member).__name__}")
    if member.members:
        raise InputError(f"preferences[{index}]: expected a single preference, found a stack; pass its members")
    if member.names != first.names:
        raise InputError(f"preferences[{index}]: expected the names of the first, {first.names}, found {member.names}")


def _matrices(members: Sequence[Preference]) -> dict[str, Tensor]:
    """The padded matrices (P, k, m) and (P, k); G = -1 in a padded inequality, which is never active."""
    fill = {"A": 0.0, "B_g": 0.0, "b_g": -1.0, "margins": 0.0, "B_h": 0.0, "b_h": 0.0}
    return {name: _padded([getattr(p, name) for p in members], value) for name, value in fill.items()}


def _padded(tensors: Sequence[Tensor], fill: float) -> Tensor:
    """Tensors (k_i, ...) stacked to (P, max k_i, ...)."""
    longest = max(len(tensor) for tensor in tensors)
    rows = [(longest - len(tensor), *tensor.shape[1:]) for tensor in tensors]
    return torch.stack(
        [torch.cat([tensor, tensor.new_full(size, fill)]) for tensor, size in zip(tensors, rows, strict=True)]
    )


def _lines(members: Sequence[Preference]) -> dict[str, Tensor | None]:
    """The ray (P, m) if all members are lines, and `through` (P, m) if one of them has it."""
    rays = [p.ray for p in members if p.ray is not None]
    if len(rays) < len(members):
        return {"_ray": None, "through": None}
    points = [torch.zeros_like(members[0].A[0]) if p.through is None else p.through for p in members]
    has_through = any(p.through is not None for p in members)
    return {"_ray": torch.stack(rays), "through": torch.stack(points) if has_through else None}


def _ceilings(members: Sequence[Preference]) -> Tensor | None:
    """The vectors (P, m) of `F <= t v` if all members have one."""
    found = [p.at_most for p in members if p.at_most is not None]
    return torch.stack(found) if len(found) == len(members) else None
