"""What a step does to each loss, measured on batches of its own choosing, before and after the optimizer's step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, distributed, nn

from ferero.training._joint import ranks_of
from ferero.training._observe import forward_slopes, jacobian_slopes, realized_slopes
from ferero.training._stepper.look import Look, LossSums
from ferero.training._stepper.wrappers import bare

__all__ = ["SlopeKind", "SlopeMeter"]

SlopeKind: TypeAlias = Literal["realized", "forward", "jacobian"]


class SlopeMeter:
    """Measures slopes (m,), negative for a loss that fell: means over all batches of all ranks.

    Args:
        model: What is trained.
        look: Evaluates losses beside the training.
        sums: As for `Look`.
        kind: As for `Stepper`.
        optimizer: Whose first group's learning rate is the step size, unless one is given.
        step_size: What realised slopes are divided by.
        group: The processes that train together.
    """

    def __init__(
        self,
        model: nn.Module,
        look: Look,
        sums: LossSums,
        *,
        kind: SlopeKind,
        optimizer: torch.optim.Optimizer,
        step_size: float | None,
        group: distributed.ProcessGroup | None,
    ) -> None:
        self._bare, self._look, self._sums, self.kind = bare(model), look, sums, kind
        self._optimizer, self._step_size, self._group = optimizer, step_size, group
        self._seed = 0

    @property
    def is_realized(self) -> bool:
        """Whether losses are looked at before and after, and the gradient is not."""
        return self.kind == "realized"

    def before(self, batches: Sequence[Any], parameters: Sequence[Tensor]) -> Tensor:
        """Before the optimizer's step, with the gradient in place: the losses if realised, else the slopes, (m,)."""
        self._seed = self._look.seed()
        if self.is_realized:
            return self._mean(*self._look.sums(batches, self._seed), len(batches))
        gradients = [parameter.grad for parameter in parameters]
        with self._look.aside(self._seed):
            if self.kind == "forward":
                found = forward_slopes(self._bare, lambda model: self._sums(model, batches), parameters, gradients)
                return self._mean(*found, len(batches))
            with torch.enable_grad():
                sums, counts = self._sums(self._bare, batches)
            return self._mean(jacobian_slopes(sums, parameters, gradients), counts, len(batches))

    def after(self, batches: Sequence[Any], before: Tensor) -> Tensor:
        """After the step: the slopes, (m,), float64."""
        if not self.is_realized:
            return before
        step_size = self._optimizer.param_groups[0]["lr"] if self._step_size is None else self._step_size
        return realized_slopes(before, self._mean(*self._look.sums(batches, self._seed), len(batches)), step_size)

    def _mean(self, sums: Tensor, counts: Tensor | None, number: int) -> Tensor:
        """Over the number of batches, or over those where each loss occurred; and over all ranks."""
        sums, ranks = sums.detach().double(), ranks_of(self._group)
        if counts is None and ranks == 1:
            return sums if number == 1 else sums / number
        both = torch.stack([sums, torch.full_like(sums, number) if counts is None else counts.to(sums)])
        if ranks > 1:
            distributed.all_reduce(both, group=self._group)
        return both[0] / both[1].clamp(min=torch.finfo(both.dtype).tiny)
