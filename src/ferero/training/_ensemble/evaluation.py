"""Every loss and every metric of K models over a whole data set, in one pass for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from ferero.errors import InputError
from ferero.training._ensemble.batches import Batches
from ferero.training._ensemble.members import Members
from ferero.training._ensemble.question import LossFunction, Question
from ferero.training._evaluate import evaluating, examples
from ferero.training._losses import read_losses

__all__ = ["Metrics", "evaluate_members"]

Metrics: TypeAlias = Callable[[Any, Any], Mapping[str, Tensor]]


def ask_figures(
    members: Members,
    loss_fn: LossFunction,
    metrics: Metrics | None,
    names: Sequence[str],
    measured: Sequence[str] = (),
) -> Question:
    """The question for the losses that a batch has, by their names, then metrics by theirs.

    A metric with the name of a loss that is measured elsewhere replaces it.

    Args:
        members: Who is asked.
        loss_fn: ``loss_fn(model, batch)``.
        metrics: Further figures, or None.
        names: The losses' names, (m,).
        measured: Those of them that metrics measure.
    """
    device = members.parameters[0].device

    def figures(model: nn.Module, batch: Any) -> dict[str, Tensor]:
        reading = read_losses(loss_fn(model, batch), None, names, device)
        counts = [1.0] * len(names) if reading.counts is None else reading.counts.tolist()
        found = {name: value for name, value, n in zip(names, reading.values.unbind(), counts, strict=True) if n}
        if metrics is None:
            return found
        more = metrics(model, batch)
        if not isinstance(more, Mapping):
            raise InputError(f"metrics: expected figures by name, found {type(more).__name__}.")
        taken = [name for name in more if name in names and name not in measured]
        if taken:
            raise InputError(
                f"metrics: {taken[0]!r} is the name of a loss, whose value it would replace; give it another name, or "
                "let it drive the constraints by held_out=."
            )
        return {**found, **{name: torch.as_tensor(value, device=device) for name, value in more.items()}}

    return Question(members, figures)


def evaluate_members(question: Question, batches: Batches, names: Sequence[str]) -> dict[str, Tensor]:
    """Means over all examples, in eval mode and without gradients; of the batches that have a loss where some do not.

    Args:
        question: From `ask_figures`.
        batches: The data.
        names: The losses that must be found.

    Returns:
        (K,) each, float64, on the device.

    Raises:
        InputError: No batch at all, or none with a certain loss.
    """
    totals: dict[str, Tensor] = {}
    counts: dict[str, int] = {}
    with evaluating(question.structure), torch.no_grad():
        for batch in batches.whole():
            n = examples(batch)
            for name, values in question.of_all(batch).items():
                totals[name] = totals.get(name, 0.0) + n * values.double()
                counts[name] = counts.get(name, 0) + n
    if not counts:
        raise InputError("evaluate: expected at least one batch, found none; an iterator can be used only once.")
    missing = [name for name in names if name not in counts]
    if missing:
        raise InputError(f"evaluate: expected a value of every loss in some batch, found none of {', '.join(missing)}.")
    return {name: total / counts[name] for name, total in totals.items()}
