"""What a training step costs with `Steer` and with `Stepper`: time over a plain step with fixed weights, and memory.

Blocks of plain and steered steps alternate in one run, and each ratio is that of neighbours, so that what else the
machine does falls on both alike. ``python -m ferero_lab.bench.step_cost steer`` (or ``stepper``) with ``--device cuda``
and ``--out FILE`` needs torch alone, for machines without the rest; on a GPU ``stepper`` also compares both as captured
CUDA graphs, without what launching costs.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

import ferero
from ferero.training import SlopeKind
from ferero_lab.bench.measure import Row, result_of
from ferero_lab.data.digit_models import LeNet, cross_entropies

__all__ = ["bench_stepper_cost", "main", "steer_rows", "stepper_rows"]

Take: TypeAlias = Callable[[], object]
"""One training step."""
Batch: TypeAlias = tuple[Tensor, Tensor]
Mode: TypeAlias = Literal["eager", "captured"]
BATCH = 256
STEER_BARS = {"cpu": 1.05, "cuda": 1.1}
STEER_LOSSES = {"cpu": (2, 6, 20, 40), "cuda": (2, 20)}
MEMORY_BAR = 1.02
STEPPER_BARS = {"cpu": 1.15, "cuda": 1.5}
STEPPER_LOSSES = {"cpu": (2, 6, 20, 40), "cuda": (2, 20)}
SLOPES: tuple[SlopeKind, ...] = ("realized", "forward", "jacobian")


class TinyTransformer(nn.Module):
    """Two layers of 64 over 32 tokens, and one head of 10 classes for each task."""

    def __init__(self, tasks: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(128, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.heads = nn.Linear(64, 10 * tasks)
        self.tasks = tasks

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (m, n, 10) of tokens (n, 32)."""
        out: Tensor = self.heads(self.body(self.embedding(tokens)).mean(dim=1))
        return out.reshape(len(tokens), self.tasks, 10).movedim(1, 0)


# Steer: one backward pass, weights from the values ---------------------------------------------------------


def steer_rows(device: str, quick: bool, tell: Callable[[Row], None]) -> list[Row]:
    """Rows of `Steer` on one device: step time, and peak memory."""
    blocks, length = (8 if quick else 40), (50 if device == "cuda" else 3)
    models: list[tuple[str, type[nn.Module], int]] = [("LeNet", LeNet, m) for m in STEER_LOSSES[device]]
    models.append(("transformer", TinyTransformer, 4))
    rows = []
    for name, kind, m in models:
        plain, steered = (_weighted_step(kind, m, device, is_steered) for is_steered in (False, True))
        measure = f"{name} m = {m}: steered over plain"
        rows.append(_ratio_row(measure, plain, steered, device, blocks, length, STEER_BARS[device]))
        tell(rows[-1])
    peak = _peak_cuda if device == "cuda" else _peak_cpu
    plain_bytes, steered_bytes = (peak(_weighted_step(LeNet, 20, device, is_steered)) for is_steered in (False, True))
    measure, note = "LeNet m = 20: peak, steered over plain", f"plain {plain_bytes / 2**20:.1f} MiB"
    rows.append(Row(f"memory, {device}", measure, steered_bytes / plain_bytes, MEMORY_BAR, False, note))
    tell(rows[-1])
    return rows


def _weighted_step(kind: type[nn.Module], m: int, device: str, is_steered: bool) -> Take:
    """A step on the plain mean of the losses, or on the loss of a `Steer`."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(10, (BATCH, m), generator=generator).to(device)
    model = kind(tasks=m).to(device)
    if kind is LeNet:
        inputs = torch.rand(BATCH, 1, 36, 36, generator=generator).to(device)
    else:
        inputs = torch.randint(128, (BATCH, 32), generator=generator).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    weights = torch.full((m,), 1 / m, device=device)
    steer = ferero.Steer(ferero.Preference.ray(torch.ones(m))).to(device)

    def take() -> None:
        losses = cross_entropies(model(inputs), labels)
        loss = steer(losses) if is_steered else (weights * losses).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return take


def _peak_cuda(take: Take) -> float:
    """Peak memory of a step, in bytes."""
    _block(take, 10, "cuda")
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    _block(take, 5, "cuda")
    return float(torch.cuda.max_memory_allocated())


def _peak_cpu(take: Take) -> float:
    """The highest sum of allocations and releases that the profiler saw during one step, in bytes."""
    _block(take, 3, "cpu")
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        take()
    changes = [e for e in record.profiler.kineto_results.events() if e.name() == "[memory]"]
    now = peak = 0
    for event in sorted(changes, key=lambda e: e.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return float(peak)


# Stepper: a method of slopes, on halves of a batch ---------------------------------------------------------


def bench_stepper_cost(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], list[dict[str, Any]]]:
    """Rows of `Stepper` on the CPU."""
    return stepper_rows("cpu", quick, lambda _: tick()), []


def stepper_rows(device: str, quick: bool, tell: Callable[[Row], None]) -> list[Row]:
    """Rows of `Stepper` on one device: step time for every number of losses and kind of slopes.

    The paper's m + 1 gradients (jacobian) are for information; on a GPU the bar is for the captured step.
    """
    modes: tuple[Mode, ...] = ("captured", "eager") if device == "cuda" else ("eager",)
    rows = []
    for mode in modes:
        for m in STEPPER_LOSSES[device]:
            for kind in SLOPES:
                plain, stepped = _plain_step(m, device), _stepper_step(m, kind, device)
                if mode == "captured":
                    plain, stepped = _captured(plain), _captured(stepped)
                blocks = 10 if quick or (device == "cuda" and mode == "eager") else 40
                has_bar = kind != "jacobian" and (device == "cpu" or mode == "captured")
                measure, bar = f"LeNet m = {m}, {kind}, {mode}: stepper over plain", STEPPER_BARS[device]
                length = 30 if device == "cuda" else 3
                rows.append(_ratio_row(measure, plain, stepped, device, blocks, length, bar if has_bar else None))
                tell(rows[-1])
    return rows


def _batch(m: int, device: str) -> Batch:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(BATCH, 1, 36, 36, generator=generator)
    return images.to(device), torch.randint(10, (BATCH, m), generator=generator).to(device)


def _losses(model: LeNet, batch: Batch) -> Tensor:
    return cross_entropies(model(batch[0]), batch[1])


def _plain_step(m: int, device: str) -> Take:
    model, batch, weights = LeNet(tasks=m).to(device), _batch(m, device), torch.full((m,), 1 / m, device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def take() -> None:
        optimizer.zero_grad()
        (weights * _losses(model, batch)).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return take


def _stepper_step(m: int, kind: SlopeKind, device: str) -> Take:
    model, batch = LeNet(tasks=m).to(device), _batch(m, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    method = ferero.FereroSA(gamma=1e-3, bound=5.0, domain="simplex")
    preference = ferero.Preference.ray(torch.ones(m))
    stepper = ferero.Stepper(model, _losses, preference, optimizer, method=method, slopes=kind)
    return lambda: stepper.step(batch)


def _captured(take: Take) -> Take:
    """The step as one CUDA graph, after a few plain ones on another stream."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(6):
            take()
    torch.cuda.current_stream().wait_stream(stream)
    gc.collect()  # an older graph that is thrown away in the middle of a capture would end it
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        take()
    return graph.replay


# both on the clock -----------------------------------------------------------------------------------------


def _ratio_row(
    measure: str, plain: Take, steered: Take, device: str, blocks: int, length: int, bar: float | None
) -> Row:
    """The median ratio of step times, over alternating blocks of ``length`` steps."""
    for take in (plain, steered):
        _block(take, 20 if device == "cuda" else 5, device)
    ratios, times = [], []
    for i in range(blocks):
        order = (plain, steered) if i % 2 == 0 else (steered, plain)
        taken = {take: _block(take, length, device) for take in order}
        ratios.append(taken[steered] / taken[plain])
        times.append(taken[plain] / length)
    low, high = torch.tensor(ratios).quantile(torch.tensor([0.25, 0.75])).tolist()
    note = f"median of {len(ratios)}, middle half {low:.3f} to {high:.3f}; plain step {1e3 * median(times):.3f} ms"
    return Row(f"step, {device}", measure, median(ratios), bar, note=note)


def _block(take: Take, length: int, device: str) -> float:
    """Seconds of so many steps."""
    _wait(device)
    begin = time.perf_counter()
    for _ in range(length):
        take()
    _wait(device)
    return time.perf_counter() - begin


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _show(row: Row) -> None:
    print(f"{row.group:14} {row.measure:50} {row.value:.4f}  (bar {row.bar}; {row.note})", flush=True)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", choices=("steer", "stepper"))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    measure, name = (steer_rows, "steer-cost") if given.which == "steer" else (stepper_rows, "step-cost")
    result = result_of(name, given.quick, measure(given.device, given.quick, _show))
    if given.device == "cuda":
        result["environment"]["accelerator"] = torch.cuda.get_device_name()
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
