"""Refuses processes that train together and do not want the same: each would go a way of its own, and nobody see it."""

from __future__ import annotations

import re
import zlib
from typing import Any

import torch
from torch import Tensor, distributed

from ferero.errors import InputError
from ferero.methods._method import Method
from ferero.preference import Preference

__all__ = ["check_agreement", "traits_of"]


def traits_of(preference: Preference, method: Method[Any], every: int, on_nonfinite: str) -> dict[str, str]:
    """What all ranks must have in common, as text, by the words for having something else.

    Numbers are told to nine digits: what differs by less differs by rounding. Addresses of objects are left out.
    """
    p = preference
    return {
        "other losses": f"{p.names} {p.measured}",
        "another order": _text(p.A),
        "other constraints": " ".join(_text(rows) for rows in (p.B_g, p.b_g, p.margins, p.B_h, p.b_h)),
        "another method": re.sub(r" at 0x[0-9a-fA-F]+", "", f"{type(method).__qualname__} {method!r}"),
        "another every": str(every),
        "another on_nonfinite": on_nonfinite,
    }


def check_agreement(traits: dict[str, str], device: torch.device, group: distributed.ProcessGroup | None) -> None:
    """Compare the ranks, by one all-gather of one number a trait.

    Args:
        traits: See `traits_of`.
        device: Where the group's tensors are.
        group: The processes that train together.

    Raises:
        InputError: On every rank, saying which of them differs in what.
    """
    mine = torch.tensor([zlib.crc32(text.encode()) for text in traits.values()], dtype=torch.int64, device=device)
    found = [torch.empty_like(mine) for _ in range(distributed.get_world_size(group))]
    distributed.all_gather(found, mine, group=group)
    first, *others = torch.stack(found).tolist()
    apart = [rank for rank, marks in enumerate(others, start=1) if marks != first]
    if not apart:
        return
    marks, ranks = others[apart[0] - 1], distributed.get_process_group_ranks(group)
    what = [words for words, one, other in zip(traits, first, marks, strict=True) if one != other]
    more = f" ({len(apart)} of {len(ranks)} ranks differ from it)" if len(apart) > 1 else ""
    raise InputError(
        f"Steer: rank {ranks[apart[0]]} has {_listed(what)} than rank {ranks[0]}{more}, and would go "
        "another way; build the same Steer on every rank, from the same numbers."
    )


def _text(rows: Tensor) -> str:
    return f"{tuple(rows.shape)} {' '.join(f'{value:.9g}' for value in rows.flatten().tolist())}"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
