"""Steering on two processes, sharded, and resumed by a new process: how far it is from one process without a break.

One small task serves all of them: three regressions on a shared layer in float64, where an example may lack a target.
A `ProcessPlan` says how it is trained, `launch` trains it in new processes, and the measures compare what comes out.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.multiprocessing.spawn import start_processes
from torch.nn.parallel import DistributedDataParallel

import ferero
from ferero.errors import NonFiniteError
from ferero_lab.bench.measure import Row

__all__ = ["ProcessPlan", "bench_processes", "difference", "launch", "resume_differences", "task_preference", "train"]

State: TypeAlias = dict[str, Tensor]
Targets: TypeAlias = Literal["all", "some", "none_at_times", "zero_at_times"]
OptimizerName: TypeAlias = Literal["plain", "sgd", "adamw"]
NAMES = ("a", "b", "c")
_EXAMPLES, _INPUTS, _FIRST_SHARE = 16, 6, 5


@dataclass(frozen=True)
class ProcessPlan:
    """How the task is trained.

    Attributes:
        steps: Optimizer steps, counted from the beginning of training.
        first: The step to begin with; those before it were taken by whoever wrote `load`.
        wrapper: "ddp" or "fsdp" on all ranks, each with its part of the batch; "alone" with the joint batch.
        is_inside: Whether the steer is a part of the wrapped model.
        targets: "all" on equal parts without counts, "some" on unequal parts with counts, "none_at_times" also with
            losses that have no example on a rank, or on none, said by None, absence or a count of 0 in turn;
            "zero_at_times" always by a count of 0, so that every parameter stays in the graph.
        every: Micro-batches per step.
        optimizer: "plain" gradient steps, "sgd" with momentum, or "adamw".
        observers: Ranks that pass a measured value of c to the steer.
        observed: The steps after which they do.
        spoiled: Steps in which the last example's targets are NaN.
        left_out: Steps that are not taken.
        on_nonfinite: What the steer does about them; where it raises, the step is given up.
        load: A checkpoint to begin from.
        save: Where to leave one.
    """

    steps: int = 50
    first: int = 0
    wrapper: Literal["alone", "ddp", "fsdp"] = "alone"
    is_inside: bool = True
    targets: Targets = "all"
    every: int = 1
    optimizer: OptimizerName = "sgd"
    observers: tuple[int, ...] = ()
    observed: tuple[int, ...] = ()
    spoiled: tuple[int, ...] = ()
    left_out: tuple[int, ...] = ()
    on_nonfinite: Literal["raise", "skip"] = "raise"
    load: str | None = None
    save: str | None = None


def task_preference() -> ferero.Preference:
    """One inequality and one equality on the three losses."""
    f = ferero.objectives(*NAMES)
    return ferero.Preference(f, [f.c <= 0.25, f.a - f.b == 0.05])


# the task ------------------------------------------------------------------------------------------------


class _ThreeRegressions(nn.Module):
    """The losses and their counts, or the steered loss where the steer is inside."""

    def __init__(self, steer: ferero.Steer | None) -> None:
        super().__init__()
        self.trunk = nn.Linear(_INPUTS, 8)
        self.heads = nn.ModuleDict({name: nn.Linear(8, 1) for name in NAMES})
        self.steer = steer

    def forward(self, x: Tensor, y: Tensor, known: Tensor, missing: str | None) -> Any:
        hidden = torch.tanh(self.trunk(x))
        losses: dict[str, Tensor | None] = {}
        for i, name in enumerate(NAMES):
            if bool(known[:, i].any()) or missing == "count":
                error = self.heads[name](hidden)[:, 0] - y[:, i]
                losses[name] = error[known[:, i]].square().mean()
            elif missing == "none":
                losses[name] = None
        counts = None if missing is None else {name: int(n) for name, n in zip(NAMES, known.sum(dim=0), strict=True)}
        return (losses, counts) if self.steer is None else self.steer(losses, counts)


def _batch(plan: ProcessPlan, step: int, micro: int, rank: int) -> tuple[Tensor, Tensor, Tensor, str | None]:
    """Inputs, targets, which of them are known, and how it is said that none is; of one rank, or of all if alone."""
    generator = torch.Generator().manual_seed(1000 * step + micro)
    x = torch.randn(_EXAMPLES, _INPUTS, dtype=torch.float64, generator=generator)
    y = torch.stack([torch.sin(x[:, i] + i) + 0.5 * x[:, i + 1] for i in range(len(NAMES))], dim=1)
    y = y + 0.3 * torch.randn(y.shape, dtype=torch.float64, generator=generator)
    known = torch.ones_like(y, dtype=torch.bool)
    border = _EXAMPLES // 2 if plan.targets == "all" else _FIRST_SHARE
    parts = (slice(None, border), slice(border, None))
    if plan.targets != "all":
        known = torch.rand(y.shape, generator=generator) < 0.6
        known[[0, border]] = True
    if plan.targets in ("none_at_times", "zero_at_times"):
        where = torch.rand(len(parts), len(NAMES), generator=generator) < 0.2
        where[:, 0] = False  # a batch without any loss has no gradient to share
        where[1] &= ~where[0]  # a loss that no rank has: an optimizer with momentum tells no gradient from one of 0
        for part, names in zip(parts, where, strict=True):
            known[part] &= ~names
    if step in plan.spoiled:
        y[-1] = torch.nan
    mine = slice(None) if plan.wrapper == "alone" else parts[rank]
    forms = {"all": None, "some": "none", "zero_at_times": "count"}
    return x[mine], y[mine], known[mine], forms.get(plan.targets, ("none", "absent", "count")[step % 3])


# training ------------------------------------------------------------------------------------------------


def train(plan: ProcessPlan, rank: int = 0) -> State:
    """Train in this process, as one rank of the process group if the plan has a wrapper.

    Returns:
        Parameters and the steer's buffers at the end, whole.
    """
    torch.manual_seed(0)
    steer = ferero.Steer(task_preference(), every=plan.every, on_nonfinite=plan.on_nonfinite)
    task = _ThreeRegressions(steer if plan.is_inside else None).double()
    if plan.wrapper == "fsdp":
        fully_shard(task.trunk)
        fully_shard(task)
    optimizer = _optimizer(plan.optimizer, task)
    if plan.load is not None:
        saved = torch.load(plan.load)
        task.load_state_dict(saved["task"])
        steer.load_state_dict(saved["steer"])
        optimizer.load_state_dict(saved["optimizer"])
    is_partial = plan.targets == "none_at_times"
    model = DistributedDataParallel(task, find_unused_parameters=is_partial) if plan.wrapper == "ddp" else task
    for step in range(plan.first, plan.steps):
        if step not in plan.left_out:
            _take_step(plan, step, rank, model, steer)
            optimizer.step()
            optimizer.zero_grad()
        if step in plan.observed and rank in plan.observers:
            steer.observe(c=0.4 + 0.01 * step + 0.1 * rank)
    if plan.save is not None:
        parts = {"task": task, "steer": steer, "optimizer": optimizer}
        torch.save({name: part.state_dict() for name, part in parts.items()}, plan.save)  # type: ignore[attr-defined]
    return {name: _whole(tensor) for part in (task, steer) for name, tensor in part.state_dict().items()}


def _optimizer(name: OptimizerName, task: nn.Module) -> torch.optim.Optimizer:
    if name == "adamw":
        return torch.optim.AdamW(task.parameters(), lr=0.02)
    return torch.optim.SGD(task.parameters(), lr=0.05, momentum=0.9 if name == "sgd" else 0.0)


def _take_step(plan: ProcessPlan, step: int, rank: int, model: nn.Module, steer: ferero.Steer) -> None:
    for micro in range(plan.every):
        try:
            out = model(*_batch(plan, step, micro, rank))
            loss = out if plan.is_inside else steer(*out)
        except NonFiniteError:
            return
        (loss / plan.every).backward()


def _whole(tensor: Tensor) -> Tensor:
    whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return whole.detach().clone()


def launch(plans: Sequence[ProcessPlan], ranks: int = 1, limit: float = 120.0) -> list[list[State]]:
    """Train every plan in new processes, one after the other.

    Args:
        plans: What to do.
        ranks: Processes, joined by gloo if more than one.
        limit: Seconds after which they are ended.

    Returns:
        ``[rank][plan]``.

    Raises:
        TimeoutError: They took longer.
    """
    with tempfile.TemporaryDirectory() as folder:
        started: Any = start_processes(_work, (ranks, folder, list(plans)), ranks, join=False)  # type: ignore[no-untyped-call]
        deadline = time.monotonic() + limit
        try:
            while not started.join(timeout=1.0):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{ranks} processes were not done after {limit:g} s; one waits for another.")
        finally:
            for process in started.processes:
                if process.is_alive():
                    process.kill()
                process.join()
        return [torch.load(Path(folder) / f"{rank}.pt") for rank in range(ranks)]


def _work(rank: int, ranks: int, folder: str, plans: Sequence[ProcessPlan]) -> None:
    torch.set_num_threads(1)
    if ranks > 1:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    try:
        torch.save([train(plan, rank) for plan in plans], Path(folder) / f"{rank}.pt")
    finally:
        if ranks > 1:
            distributed.destroy_process_group()


def difference(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    """The largest difference of any entry; infinite where entries are missing or not numbers."""
    if one.keys() != other.keys():
        return float("inf")
    gaps = [(one[name].double() - other[name].double()).abs().max() for name in one]
    return float(torch.stack(gaps).nan_to_num(nan=float("inf")).max())


# the rows ------------------------------------------------------------------------------------------------


def bench_processes(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], list[dict[str, Any]]]:  # noqa: ARG001
    """The rows on processes and checkpoints."""
    rows = [*_ranks(), _resumed()]
    tick()
    return rows, []


def _ranks() -> list[Row]:
    apart = [ProcessPlan(200, wrapper="ddp", is_inside=inside, targets="none_at_times") for inside in (True, False)]
    ddp = [
        ProcessPlan(wrapper="ddp"),
        ProcessPlan(wrapper="ddp", targets="some"),
        ProcessPlan(wrapper="ddp", targets="none_at_times"),
    ]
    fsdp = [replace(plan, wrapper="fsdp") for plan in ddp[:2]]
    plans = [*apart, *ddp, *fsdp]
    first, second = (dict(zip(plans, states, strict=True)) for states in launch(plans, ranks=2))
    from_joint = {plan: difference(first[plan], train(replace(plan, wrapper="alone"))) for plan in (*ddp, *fsdp)}
    group = "2 processes, gloo"
    return [
        Row(
            group,
            "DDP, 200 steps, losses missing on a rank: ranks apart by",
            max(difference(first[plan], second[plan]) for plan in apart),
            0.0,
            note="parameters and the steer's buffers; steer inside and outside",
        ),
        Row(
            group,
            "DDP against the joint batch, 50 steps",
            max(from_joint[plan] for plan in ddp),
            1e-9,
            note="float64; equal and unequal parts, losses missing on a rank",
        ),
        Row(
            group,
            "FSDP2 against the joint batch, 50 steps",
            max(from_joint[plan] for plan in fsdp),
            1e-5,
            note="float64; equal and unequal parts",
        ),
    ]


def _resumed() -> Row:
    return Row(
        "resume",
        "10 steps against 5, save, new process, load, 5",
        max(resume_differences().values()),
        0.0,
        note="SGD with momentum and AdamW, every 1 and 2, a measured value waiting",
    )


def resume_differences() -> dict[ProcessPlan, float]:
    """How far each plan of ten steps is from itself, saved after five and continued by a new process."""
    optimizers: tuple[OptimizerName, ...] = ("sgd", "adamw")
    whole = [
        ProcessPlan(10, optimizer=optimizer, every=every, targets="some", observers=(0,), observed=observed)
        for optimizer in optimizers
        for every in (1, 2)
        for observed in ((), (2, 4))
    ]
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/{i}.pt" for i in range(len(whole))]
        begun = [replace(plan, steps=5, save=path) for plan, path in zip(whole, paths, strict=True)]
        [states] = launch([*whole, *begun])
        [continued] = launch([replace(plan, first=5, load=path) for plan, path in zip(whole, paths, strict=True)])
    pairs = zip(whole, states[: len(whole)], continued, strict=True)
    return {plan: difference(one, other) for plan, one, other in pairs}
