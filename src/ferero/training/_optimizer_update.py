"""An optimizer's step with loss scaling, clipping, and rollback.

Under CUDA-graph capture the host cannot inspect values, so rollback is a masked write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn

from ferero.training._buffers import write


class OptimizerUpdate:
    """Takes the optimizer's step, or gives it up.

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
        """Whether losses are scaled, so that a gradient that overflows now and then is no error."""
        return self._scaler is not None and self._scaler.is_enabled()

    def parameters(self) -> list[Tensor]:
        """Those that are trained, each once."""
        groups = self._optimizer.param_groups
        return list({id(p): p for group in groups for p in group["params"] if p.requires_grad}.values())

    def scale(self, losses: Tensor) -> Tensor:
        """The losses, scaled for the backward pass."""
        return losses if self._scaler is None else self._scaler.scale(losses)

    def unscale(self) -> None:
        """Divide the gradients by the scale."""
        if self._scaler is not None:
            self._scaler.unscale_(self._optimizer)
            self._is_unscaled = True

    def largest(self, parameters: Sequence[Tensor], device: torch.device) -> Tensor:
        """The largest entry of the gradient in size, (), on the device; not finite if any entry of any rank is not."""
        gradients: list[Any] = [p.grad for p in parameters if p.grad is not None]
        own = [g.to_local() if hasattr(g, "to_local") else g for g in gradients]
        found = nn.utils.get_total_norm([g for g in own if g.numel()], torch.inf).to(device)
        if any(hasattr(g, "to_local") for g in gradients):  # each rank has a shard only
            distributed.all_reduce(found, group=self._group)
        return found

    def take(self, parameters: Sequence[Tensor], where: Tensor | None) -> None:
        """Clip and step.

        Args:
            parameters: Those that are trained.
            where: A boolean scalar on the device: False rolls everything back but the gradients.
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
        torch.clear_autocast_cache()  # its casts are those of the parameters before the step

    def give_up(self) -> None:
        """Reset the scaler for the next step, with a smaller scale if gradients were not finite."""
        if self._scaler is not None and self._is_unscaled:
            self._scaler.update()
        self._is_unscaled = False

    def _state(self) -> list[Tensor]:
        return [x for state in self._optimizer.state.values() for x in state.values() if isinstance(x, Tensor)]
