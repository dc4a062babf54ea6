"""`read_preferences`: the preferences of a front from any form that a caller may pass."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from torch import Tensor

from ferero._arrays import to_float64
from ferero.errors import InputError
from ferero.preference import Preference

__all__ = ["read_preferences"]


def read_preferences(preferences: object) -> list[Preference]:
    """Single preferences over the same names, at least one, from a list, a stack, or rays (P, m).

    Raises:
        InputError: for no preference, names that differ, or another form.
    """
    if isinstance(preferences, Preference):
        return list(preferences.members) or [preferences]
    if isinstance(preferences, Iterable) and not isinstance(preferences, (Tensor, np.ndarray, str)):
        preferences = list(preferences)
        if any(isinstance(item, Preference) for item in preferences):
            return list(Preference.stack(preferences).members)
    rays = to_float64(preferences, "preferences")  # type: ignore[arg-type]  # refuses what is no array
    if rays.shape[:1] == (0,):
        raise InputError("preferences: expected at least one, found none; for rays use ferero.spread(m, n).")
    if rays.ndim != 2:
        raise InputError(
            f"preferences: expected a list of Preference, or rays of shape (P, m), found shape {tuple(rays.shape)}."
        )
    return [_read_ray(ray, i) for i, ray in enumerate(rays)]


def _read_ray(ray: Tensor, index: int) -> Preference:
    try:
        return Preference.ray(ray)
    except InputError as error:
        raise InputError(f"preferences[{index}]: {error}") from None
