"""The optimizer's step with what surrounds it: loss scaling, clipping, and rollback.

Under CUDA-graph capture the host cannot inspect values, so rollback is a masked write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn

from ferero.training._stepper.look import forget_casts
from ferero.training._write import write

__all__ = ["Update"]


class Update:
    """Takes the step, or gives it up.

    Args:
        optimizer: Whose step it is.
        clip_norm: Largest norm of the gradient; None for any.
        scaler: Multiplies losses so that half precision does not lose small gradients; None for 1.
        group: The processes that train together.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        clip_norm: float | None,
        scaler: torch.amp.GradScaler | None,
        group: distributed.ProcessGroup | None,
    ) -> None:
        self._optimizer, self._clip_norm, self._scaler, self._group = optimizer, clip_norm, scaler, group
        self._is_unscaled = False

    @property
    def is_scaling(self) -> bool:
        """Whether gradients may overflow now and then without anything being wrong."""
        return self._scaler is not None and self._scaler.is_enabled()

    def parameters(self) -> list[Tensor]:
        """Those that are trained, each once."""
        groups = self._optimizer.param_groups
        return list({id(p): p for group in groups for p in group["params"] if p.requires_grad}.values())

    def scale(self, losses: Tensor) -> Tensor:
        """The losses as they go into the backward pass."""
        return losses if self._scaler is None else self._scaler.scale(losses)

    def unscale(self) -> None:
        """Make the gradients those of the losses themselves."""
        if self._scaler is not None:
            self._scaler.unscale_(self._optimizer)
            self._is_unscaled = True

    def largest(self, parameters: Sequence[Tensor], device: torch.device) -> Tensor:
        """The largest entry of the gradient in size, (), on the device; not finite if any entry of any rank is not."""
        gradients: list[Any] = [p.grad for p in parameters if p.grad is not None]
        own = [g.to_local() if hasattr(g, "to_local") else g for g in gradients]
        found = nn.utils.get_total_norm([g for g in own if g.numel()], torch.inf).to(device)
        if any(hasattr(g, "to_local") for g in gradients):  # a shard knows of itself alone
            distributed.all_reduce(found, group=self._group)
        return found

    def take(self, parameters: Sequence[Tensor], where: Tensor | None) -> None:
        """Clip and step.

        Args:
            parameters: Those that are trained.
            where: A boolean scalar on the device: where it is False all is put back, gradients aside.
        """
        if self._clip_norm is not None:
            nn.utils.clip_grad_norm_(parameters, self._clip_norm)
        touched = [] if where is None else [*parameters, *self._state()]
        copies = [torch.empty_like(tensor) for tensor in touched]
        write(copies, touched)
        if self._scaler is None:
            self._optimizer.step()
        else:
            self._scaler.step(self._optimizer)
            self._scaler.update()
            self._is_unscaled = False
        if where is not None:
            write(touched, copies, ~where)
        forget_casts()

    def give_up(self) -> None:
        """Let the scaler begin anew, with a smaller scale if gradients were not finite."""
        if self._scaler is not None and self._is_unscaled:
            self._scaler.update()
        self._is_unscaled = False

    def _state(self) -> list[Tensor]:
        return [x for state in self._optimizer.state.values() for x in state.values() if isinstance(x, Tensor)]
