"""Training on several processes: losses averaged over ranks, ranks that must agree, and wrappers of their models."""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from ferero.errors import InputError, UnsupportedError
from ferero.methods._method import Method
from ferero.preference import Preference
from ferero.preference._row_entries import RowEntries
from ferero.training._losses import Reading


def ranks_of(group: distributed.ProcessGroup | None) -> int:
    """The number of processes that train together."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return 1
    return distributed.get_world_size(group)


# the joint batch ------------------------------------------------------------------------------------------


class JointLosses(NamedTuple):
    """The m losses of the joint batch of all ranks.

    Attributes:
        means: Over all examples of all ranks, (m,).
        counts: The number of examples, (m,), 0 for a missing loss; None for one each.
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


def gather(reading: Reading, measured: Tensor, group: distributed.ProcessGroup | None) -> tuple[JointLosses, Tensor]:
    """Average losses and measured values over all ranks, by one all-reduce of sums and counts.

    Args:
        reading: The losses of this rank's batch.
        measured: What this rank measured, and how many times, (2, m); any ranks may have measured something.
        group: The processes that train together.
    """
    ranks = ranks_of(group)
    if ranks == 1:
        counts = None if reading.counts is None else reading.counts.detach()
        return JointLosses(reading.values.detach(), counts), measured
    values = reading.values.detach().to(measured)
    counts = torch.ones_like(values) if reading.counts is None else reading.counts.detach().to(values)
    payload = torch.stack([values * counts, counts, measured[0] * measured[1], measured[1]])
    distributed.all_reduce(payload, group=group)
    sums, total, measured_sums, measurements = payload
    some = total.clamp(min=torch.finfo(total.dtype).tiny)
    share = (ranks * counts / some).to(reading.values)
    joint_measured = torch.stack([measured_sums / measurements.clamp(min=1), measurements])
    return JointLosses(sums / some, total, share), joint_measured


# agreement of the ranks -----------------------------------------------------------------------------------


def traits_of(preference: Preference, method: Method[Any], every: int, on_nonfinite: str) -> dict[str, str]:
    """What all ranks must have in common, as text; the keys say in an error message what differs.

    Numbers are written to nine digits, so rounding does not count as a difference. Addresses of objects are left out.
    """
    p = preference
    moving = [constraint for constraint in p.constraints if constraint.schedule is not None]
    return {
        "other losses": f"{p.names} {p.measured}",
        "another order": _text(p.A),
        "other constraints": " ".join(
            [
                *map(_text, (p.b_g, p.margins, p.b_h)),
                *map(_rows_text, (p.entries_g, p.entries_h)),
                *(str(constraint.schedule) for constraint in moving),
            ]
        ),
        "another method": re.sub(r" at 0x[0-9a-fA-F]+", "", f"{type(method).__qualname__} {method!r}"),
        "another every": str(every),
        "another on_nonfinite": on_nonfinite,
    }


def check_agreement(traits: dict[str, str], device: torch.device, group: distributed.ProcessGroup | None) -> None:
    """Refuse ranks that were built with different arguments: their weights would differ, and no error would show it.

    Compares one checksum a trait, by one all-gather.

    Args:
        traits: See `traits_of`.
        device: Where the group's tensors are.
        group: The processes that train together.

    Raises:
        InputError: On every rank, saying which of them differs in what.
    """
    mine = torch.tensor([zlib.crc32(text.encode()) for text in traits.values()], dtype=torch.int64, device=device)
    found = [torch.empty_like(mine) for _ in range(distributed.get_world_size(group))]
    distributed.all_gather(found, mine, group=group)
    first, *others = torch.stack(found).tolist()
    apart = [rank for rank, checksums in enumerate(others, start=1) if checksums != first]
    if not apart:
        return
    checksums, ranks = others[apart[0] - 1], distributed.get_process_group_ranks(group)
    what = [words for words, one, other in zip(traits, first, checksums, strict=True) if one != other]
    more = f" ({len(apart)} of {len(ranks)} ranks differ from it)" if len(apart) > 1 else ""
    listed = what[0] if len(what) == 1 else f"{', '.join(what[:-1])} and {what[-1]}"
    raise InputError(
        f"Steer: rank {ranks[apart[0]]} has {listed} than rank {ranks[0]}{more}, so their models would drift apart; "
        "build the same Steer on every rank, from the same numbers."
    )


def _text(rows: Tensor) -> str:
    return f"{tuple(rows.shape)} {' '.join(f'{value:.9g}' for value in rows.flatten().tolist())}"


def _rows_text(entries: RowEntries | None) -> str:
    if entries is None:
        return "a stack"
    return f"{entries.shape} {entries.row.tolist()} {entries.column.tolist()} {_text(entries.value)}"


# wrappers of a model --------------------------------------------------------------------------------------


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


@contextmanager
def check_ddp_is_called(ddp: DistributedDataParallel | None) -> Iterator[None]:
    """Refuse a forward pass inside that bypasses the wrapper, which then would not average its gradients over ranks.

    Raises:
        UnsupportedError: The wrapper was not called.
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
    """Broadcast the first rank's buffers, as DDP's forward pass does; a call of the bare module does not."""
    if ddp.broadcast_buffers and ranks_of(group) > 1:
        for buffer in ddp.module.buffers():
            distributed.broadcast(buffer, group_src=0, group=group)


def is_sharded(model: nn.Module, parameters: Sequence[Tensor]) -> bool:
    """Whether the parameters are split over several processes."""
    has_shards = any(_is_a(p, "torch.distributed.tensor", "DTensor") for p in parameters)
    return has_shards or any(is_fsdp1(module) or _is_fsdp2(module) for module in model.modules())


def is_fsdp1(module: nn.Module) -> bool:
    """Whether it is a FullyShardedDataParallel wrapper."""
    return _is_a(module, "torch.distributed.fsdp", "FullyShardedDataParallel")


def _is_fsdp2(module: nn.Module) -> bool:
    return _is_a(module, "torch.distributed.fsdp", "FSDPModule")


def fsdp2_modules(model: nn.Module) -> list[Any]:
    """The modules that FSDP2 gathers parameters for."""
    return [module for module in model.modules() if _is_fsdp2(module)]


def reshard(modules: Sequence[Any]) -> None:
    """Let FSDP2 free the parameters it has gathered: after a forward pass without a backward pass it keeps some.

    The next forward pass would otherwise use them as they were before the optimizer's step.
    """
    for module in modules:
        module.reshard()


def _is_a(thing: Any, module: str, name: str) -> bool:
    """Like isinstance without importing the module: what was never imported has no instances."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(thing, kind)
