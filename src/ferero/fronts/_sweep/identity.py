"""Whether preferences are those that a folder was made for, told by numbers and not by the machine's rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ferero.preference import Preference

__all__ = ["describe", "difference"]

_ROUNDING = 1e-9


def describe(preferences: Sequence[Preference]) -> dict[str, Any]:
    """Names, and each preference as text and numbers, as ``json.dumps`` takes it."""
    return {"names": list(preferences[0].names), "preferences": [_describe_one(p) for p in preferences]}


def _describe_one(p: Preference) -> dict[str, Any]:
    equalities = torch.cat([p.B_h, p.b_h[:, None]], dim=1)
    return {
        "text": str(p),
        "order": p.A.tolist(),
        "inequalities": torch.cat([p.B_g, p.b_g[:, None], p.margins[:, None]], dim=1).tolist(),
        "equalities": (equalities.T @ equalities).tolist(),  # the same for every basis of a ray's complement
    }


def difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    """How the two differ, in words; empty where they do not."""
    if old["names"] != new["names"]:
        return f"it is for the losses {', '.join(old['names'])}, and these are {', '.join(new['names'])}"
    if len(old["preferences"]) != len(new["preferences"]):
        return f"it is for {len(old['preferences'])} preferences, and these are {len(new['preferences'])}"
    for i, (was, now) in enumerate(zip(old["preferences"], new["preferences"], strict=True)):
        if not all(_is_close(was[part], now[part]) for part in ("order", "inequalities", "equalities")):
            return f"its preferences[{i}] is {_line(was['text'])!r}, and this one is {_line(now['text'])!r}"
    return ""


def _is_close(was: Any, now: Any) -> bool:
    a, b = np.asarray(was, dtype=np.float64), np.asarray(now, dtype=np.float64)
    return a.shape == b.shape and np.allclose(a, b, rtol=_ROUNDING, atol=_ROUNDING * np.abs(b).max(initial=0.0))


def _line(text: str) -> str:
    return "; ".join(line.strip() for line in text.splitlines())
