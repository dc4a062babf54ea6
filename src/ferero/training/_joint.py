"""The losses of the joint batch: means over all ranks, and each rank's share in their gradient."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, distributed

from ferero.training._losses import Reading

__all__ = ["Step", "gather", "ranks_of"]


class Step(NamedTuple):
    """What a step knows of m losses.

    Attributes:
        means: Over all examples of all ranks, (m,).
        counts: How many examples that were, (m,), 0 for a loss that is missing; None for one each.
        share: ``ranks * (own examples) / (all examples)``, (m,): with it the average of the ranks' gradients is the
            gradient of the means. None on a single process.
    """

    means: Tensor
    counts: Tensor | None = None
    share: Tensor | None = None

    @property
    def present(self) -> Tensor | None:
        """Which losses have a value, (m,), bool; None for all."""
        return None if self.counts is None else self.counts > 0


def ranks_of(group: distributed.ProcessGroup | None) -> int:
    """The number of processes that train together."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return 1
    return distributed.get_world_size(group)


def gather(reading: Reading, news: Tensor, group: distributed.ProcessGroup | None) -> tuple[Step, Tensor]:
    """Add up losses and news over all ranks, by one all-reduce of sums and counts.

    Args:
        reading: The losses of this rank's batch.
        news: What this rank measured, and how many times, (2, m); any ranks may have measured something.
        group: The processes that train together.
    """
    ranks = ranks_of(group)
    if ranks == 1:
        return Step(reading.values.detach(), None if reading.counts is None else reading.counts.detach()), news
    values = reading.values.detach().to(news)
    counts = torch.ones_like(values) if reading.counts is None else reading.counts.detach().to(values)
    payload = torch.stack([values * counts, counts, news[0] * news[1], news[1]])
    distributed.all_reduce(payload, group=group)
    sums, total, measured, measurements = payload
    some = total.clamp(min=torch.finfo(total.dtype).tiny)
    share = (ranks * counts / some).to(reading.values)
    return Step(sums / some, total, share), torch.stack([measured / measurements.clamp(min=1), measurements])
