"""The ray of a preference as tensors, and refusals of methods that know a ray or only the order of the losses."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from ferero.preference import Preference

__all__ = [
    "has_plain_order",
    "knows_rays_only",
    "knows_the_order_only",
    "ray_of",
    "through_of",
    "weights_of",
]


def has_plain_order(preference: Preference) -> bool:
    """Whether the order is that of the losses themselves, in every member of a stack."""
    if preference.members:
        return all(map(has_plain_order, preference.members))
    A, m = preference.A, preference.m
    return A.shape == (m, m) and torch.equal(A, torch.eye(m).to(A))


def knows_rays_only(method: object, preference: Preference, *, shifted: bool = False) -> str | None:
    """None for a ray, or for no constraint at all; else the sentence of refusal.

    Args:
        method: The method that refuses, for its name.
        preference: Of a stack, every member counts.
        shifted: Whether the ray may start at another point than the origin.
    """
    name = type(method).__name__
    for member in preference.members or (preference,):
        if not has_plain_order(member):
            return (
                f"{name} knows no order but that of the losses themselves; leave out cone= and minimize=, or use "
                "ferero.Ferero() or ferero.FereroPI()."
            )
        if member.ray is None and member.m_g + member.m_h > 0:
            return (
                f'{name} knows no constraint but "along this ray"; use Preference.ray or from_weights, or take '
                "ferero.Ferero() or ferero.FereroPI(), which know them all."
            )
        if member.ray is not None and bool((member.ray < 0).any()):
            return (
                f"{name} wants a ray whose entries are >= 0, found {[round(x, 4) for x in member.ray.tolist()]}; "
                "ferero.Ferero() takes any."
            )
        if member.through is not None and not shifted:
            return (
                f"{name} knows rays from the origin only; leave out through=, or take ferero.XWCMGDA(), "
                "ferero.Tchebycheff() or ferero.Ferero()."
            )
    return None


def knows_the_order_only(method: object, preference: Preference) -> str | None:
    """None for a preference without constraints; else the sentence of refusal."""
    if any(member.m_g + member.m_h > 0 for member in preference.members or (preference,)):
        return (
            f"{type(method).__name__} knows no constraints: it ends somewhere on the front; use "
            "Preference.pareto(m), or a method that knows preferences, such as ferero.Ferero() or ferero.FereroPI()."
        )
    return None


@lru_cache(maxsize=256)
def weights_of(preference: Preference, device: torch.device) -> Tensor:
    """``(1/ray) / sum(1/ray)``, (..., m), float64: with it ``r_i f_i`` are all equal on the ray.

    Where the ray has zeros, the limit: they share all the weight. Uniform without a ray.
    """
    ray = ray_of(preference, device)
    is_zero = ray == 0
    inverse = torch.where(is_zero, 0.0, 1.0 / torch.where(is_zero, 1.0, ray))
    inverse = torch.where(is_zero.any(dim=-1, keepdim=True), is_zero.to(ray), inverse)
    return inverse / inverse.sum(dim=-1, keepdim=True)


@lru_cache(maxsize=256)
def ray_of(preference: Preference, device: torch.device) -> Tensor:
    """The unit ray, (..., m), float64; the diagonal where there is none."""
    if preference.members:
        return torch.stack([ray_of(member, device) for member in preference.members])
    if preference.ray is None:
        return torch.full((preference.m,), preference.m**-0.5, dtype=torch.float64, device=device)
    return preference.ray.to(device)


@lru_cache(maxsize=256)
def through_of(preference: Preference, device: torch.device) -> Tensor:
    """Where the ray starts, (..., m), float64; the origin by default."""
    if preference.members:
        return torch.stack([through_of(member, device) for member in preference.members])
    if preference.through is None:
        return torch.zeros(preference.m, dtype=torch.float64, device=device)
    return preference.through.to(device)
