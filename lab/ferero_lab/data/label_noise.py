"""Wrong labels on purpose: they keep a loss away from zero, so that tasks go on competing."""

from __future__ import annotations

import torch
from torch import Tensor

from ferero.errors import InputError

__all__ = ["check_share", "wrong_labels"]


def wrong_labels(labels: Tensor, share: float, *, classes: int, generator: torch.Generator) -> Tensor:
    """A copy of the labels (n,) in which round(share n) are another class, each other class equally likely.

    What is drawn does not depend on the share, so a larger share only adds wrong labels to those of a smaller one.
    """
    n = len(labels)
    places = torch.randperm(n, generator=generator)
    shifts = torch.randint(1, classes, (n,), generator=generator)
    chosen = places[: round(share * n)]
    noisy = labels.clone()
    noisy[chosen] = (labels[chosen] + shifts[chosen]) % classes
    return noisy


def check_share(argument: str, share: float) -> None:
    """Raises InputError unless the share of wrong labels is in [0, 1)."""
    if not 0 <= share < 1:
        raise InputError(f"{argument}: expected a share of wrong labels in [0, 1), found {share}. Pass 0 for none.")
