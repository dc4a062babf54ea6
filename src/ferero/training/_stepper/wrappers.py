"""What a model is wrapped in, and what cannot be right under it.

m backward passes through a wrapper that averages gradients over ranks average the wrong thing, or let ranks drift apart
without a word; forward mode does not go through one at all. So these run on the bare module, and where there is none,
because its parameters are in pieces, they are refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, distributed, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from ferero.errors import UnsupportedError
from ferero.training._joint import ranks_of

__all__ = ["bare", "calling", "check_wrapping", "ddp_of", "is_sharded", "reshard", "sharded_parts", "share_buffers"]


def bare(model: nn.Module) -> nn.Module:
    """The module inside `torch.compile`, DDP and DataParallel."""
    while True:
        inside = getattr(model, "_orig_mod", None)
        if isinstance(model, DistributedDataParallel | DataParallel):
            inside = model.module
        if not isinstance(inside, nn.Module):
            return model
        model = inside


def ddp_of(model: nn.Module) -> DistributedDataParallel | None:
    """The DDP wrapper, compiled or not; None if there is none."""
    inside = getattr(model, "_orig_mod", model)
    return inside if isinstance(inside, DistributedDataParallel) else None


def is_sharded(model: nn.Module, parameters: Sequence[Tensor]) -> bool:
    """Whether the parameters are in pieces on several processes."""
    has_pieces = any(_is_a(p, "torch.distributed.tensor", "DTensor") for p in parameters)
    return has_pieces or any(_is_fsdp(module) for module in model.modules())


def sharded_parts(model: nn.Module) -> list[Any]:
    """The modules that FSDP2 gathers parameters for."""
    return [module for module in model.modules() if _is_a(module, "torch.distributed.fsdp", "FSDPModule")]


def reshard(parts: Sequence[Any]) -> None:
    """Let FSDP2 forget the parameters it has gathered: after a forward pass without a backward pass it keeps some.

    The next forward pass would otherwise not see what the optimizer did to them.
    """
    for module in parts:
        module.reshard()


@contextmanager
def calling(ddp: DistributedDataParallel | None) -> Iterator[None]:
    """Refuse a forward pass that goes past the wrapper, since then nobody averages its gradients over the ranks.

    Raises:
        UnsupportedError: The wrapper was not called inside.
    """
    if ddp is None:
        yield
        return
    calls: list[bool] = []
    handle = ddp.register_forward_pre_hook(lambda *_: calls.append(True))
    try:
        yield
    finally:
        handle.remove()
    if not calls:
        raise UnsupportedError(
            "loss_fn: expected a call of the model it is given, wrapped in DistributedDataParallel, found none, so "
            "that ranks would drift apart; call model(...), and not model.module or a model of your own."
        )


def share_buffers(ddp: DistributedDataParallel, group: distributed.ProcessGroup | None) -> None:
    """Give every rank the first one's buffers, as DDP's own forward pass does, which the bare module goes without."""
    if ddp.broadcast_buffers and ranks_of(group) > 1:
        for buffer in ddp.module.buffers():
            distributed.broadcast(buffer, group_src=0, group=group)


def check_wrapping(
    model: nn.Module,
    parameters: Sequence[Tensor],
    *,
    group: distributed.ProcessGroup | None,
    whole: str | None,
    looks_twice: bool,
) -> None:
    """Refuse what could not be right.

    Args:
        model: As the user wraps it.
        parameters: Those that are trained.
        group: The processes that train together.
        whole: What needs whole parameters and gradients of single losses, in words; None for nothing.
        looks_twice: Whether losses are evaluated without a backward pass in between.

    Raises:
        UnsupportedError: Saying what to do instead.
    """
    sharded = is_sharded(model, parameters)
    if whole is not None and sharded:
        raise UnsupportedError(
            f"model: {whole} needs whole parameters, found them sharded (FSDP or DTensor), where backward passes for "
            "single losses could not be right; wrap the model in DistributedDataParallel, or take a method of values "
            'or slopes with slopes="realized".'
        )
    if looks_twice and any(_is_a(m, "torch.distributed.fsdp", "FullyShardedDataParallel") for m in model.modules()):
        raise UnsupportedError(
            "model: FullyShardedDataParallel keeps gathered parameters after a forward pass, so that losses after a "
            "step could be those before it; use torch.distributed.fsdp.fully_shard instead."
        )
    ranks = ranks_of(group)
    if ranks > 1 and ddp_of(model) is None and not sharded:
        raise UnsupportedError(
            f"model: {ranks} processes train together, but nothing keeps their models the same: found "
            f"{type(model).__name__}, neither DistributedDataParallel nor sharded by fully_shard; wrap it, or pass "
            "group= with this process alone."
        )


def _is_fsdp(module: nn.Module) -> bool:
    return any(_is_a(module, "torch.distributed.fsdp", name) for name in ("FSDPModule", "FullyShardedDataParallel"))


def _is_a(thing: Any, module: str, name: str) -> bool:
    """Like isinstance without importing the module: what was never imported has no instances."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(thing, kind)
