"""Every loss and every metric of K models over a whole data set, in one pass for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from ferero.errors import InputError
from ferero.training.ensemble.batches import Batches
from ferero.training.ensemble.members import LossFunction, Members
from ferero.training.evaluate import evaluating, examples
from ferero.training.losses import read_losses

__all__ = ["Metrics", "evaluate_members"]

Metrics: TypeAlias = Callable[[Any, Any], Mapping[str, Tensor]]


def evaluate_members(
    members: Members, loss_fn: LossFunction, metrics: Metrics | None, batches: Batches, names: Sequence[str]
) -> dict[str, Tensor]:
    """Means over all examples, in eval mode and without gradients: losses by their names, then metrics by theirs.

    A metric with the name of a loss replaces it.

    Returns:
        (K,) each, float64, on the device.

    Raises:
        InputError: No batch at all.
    """

    def figures(model: nn.Module, batch: Any) -> dict[str, Tensor]:
        losses = read_losses(loss_fn(model, batch), None, names, members.parameters[0].device).values
        found = dict(zip(names, losses.unbind(), strict=True))
        return found if metrics is None else {**found, **metrics(model, batch)}

    totals: dict[str, Tensor] = {}
    count = 0
    with evaluating(members.structure), torch.no_grad():
        for batch in batches.whole():
            n = examples(batch)
            found = members.map(figures, batch)
            for name, values in found.items():
                totals[name] = totals.get(name, 0.0) + n * values.double()
            count += n
    if count == 0:
        raise InputError("evaluate: expected at least one batch, found none; an iterator can be used only once.")
    return {name: total / count for name, total in totals.items()}
