"""What steering costs: a training step with `Steer` over the same step with a plain weighted sum, and peak memory.

Blocks of plain and steered steps alternate in one run, and each ratio is that of neighbours, so that what else the
machine does falls on both alike. ``python -m ferero_lab.bench.control.cost [--device cuda] [--out FILE]`` needs torch
alone, for machines without the rest.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

import ferero
from ferero_lab.bench.measure import Row, result_of
from ferero_lab.data.digit_models import LeNet, cross_entropies

__all__ = ["bench_cost"]

Losses = Callable[[], Tensor]


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


def bench_cost(device: str, quick: bool, tick: Callable[[], None]) -> list[Row]:
    """Rows of step time and peak memory on one device."""
    blocks = 8 if quick else 40
    cases: list[tuple[str, str, int, float]] = [("LeNet", "lenet", m, 1.05) for m in (2, 6, 20, 40)]
    cases.append(("transformer", "transformer", 4, 1.05))
    if device == "cuda":
        cases = [("LeNet", "lenet", m, 1.1) for m in (2, 20)] + [("transformer", "transformer", 4, 1.1)]
    rows = []
    for name, kind, m, bar in cases:
        ratios, plain = _step_ratios(kind, m, device, blocks)
        note = f"median of {len(ratios)}, middle half {_quantiles(ratios)}; plain step {1e3 * plain:.2f} ms"
        rows.append(Row(f"step, {device}", f"{name} m = {m}: steered over plain", median(ratios), bar, False, note))
        tick()
    ratio, plain_bytes = _memory_ratio(20, device)
    note = f"plain {plain_bytes / 2**20:.1f} MiB"
    rows.append(Row(f"memory, {device}", "LeNet m = 20: peak, steered over plain", ratio, 1.02, False, note))
    tick()
    return rows


def _quantiles(values: list[float]) -> str:
    low, high = torch.tensor(values).quantile(torch.tensor([0.25, 0.75])).tolist()
    return f"{low:.3f} to {high:.3f}"


def _problem(kind: str, m: int, device: str) -> tuple[nn.Module, Losses]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(10, (256, m), generator=generator).to(device)
    model: nn.Module
    if kind == "lenet":
        model = LeNet(tasks=m).to(device)
        inputs = torch.rand(256, 1, 36, 36, generator=generator).to(device)
    else:
        model = TinyTransformer(m).to(device)
        inputs = torch.randint(128, (256, 32), generator=generator).to(device)
    return model, lambda: cross_entropies(model(inputs), labels)


def _stepper(kind: str, m: int, device: str, is_steered: bool) -> Callable[[], None]:
    """One training step, plain or steered."""
    model, losses = _problem(kind, m, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    weights = torch.full((m,), 1 / m, device=device)
    steer = ferero.Steer(ferero.Preference.ray(torch.ones(m))).to(device)

    def step() -> None:
        values = losses()
        loss = steer(values) if is_steered else (weights * values).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def _step_ratios(kind: str, m: int, device: str, blocks: int) -> tuple[list[float], float]:
    plain, steered = (_stepper(kind, m, device, is_steered) for is_steered in (False, True))
    length = 50 if device == "cuda" else 3
    for step in (plain, steered):
        _block(step, 20 if device == "cuda" else 5, device)
    ratios, times = [], []
    for i in range(blocks):
        order = (plain, steered) if i % 2 == 0 else (steered, plain)
        taken = {step: _block(step, length, device) for step in order}
        ratios.append(taken[steered] / taken[plain])
        times.append(taken[plain] / length)
    return ratios, median(times)


def _block(step: Callable[[], None], length: int, device: str) -> float:
    _wait(device)
    begin = time.perf_counter()
    for _ in range(length):
        step()
    _wait(device)
    return time.perf_counter() - begin


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _memory_ratio(m: int, device: str) -> tuple[float, float]:
    """Peak memory of a step, steered over plain, and the plain one in bytes."""
    measure = _peak_cuda if device == "cuda" else _peak_cpu
    plain, steered = (measure(_stepper("lenet", m, device, is_steered)) for is_steered in (False, True))
    return steered / plain, plain


def _peak_cuda(step: Callable[[], None]) -> float:
    _block(step, 10, "cuda")
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    _block(step, 5, "cuda")
    return float(torch.cuda.max_memory_allocated())


def _peak_cpu(step: Callable[[], None]) -> float:
    """The highest sum of allocations and releases that the profiler saw during one step."""
    _block(step, 3, "cpu")
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        step()
    changes = [e for e in record.profiler.kineto_results.events() if e.name() == "[memory]"]
    now = peak = 0
    for event in sorted(changes, key=lambda e: e.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return float(peak)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = bench_cost(arguments.device, arguments.quick, lambda: None)
    result = result_of("steer-cost", arguments.quick, rows)
    if arguments.device == "cuda":
        result["environment"]["accelerator"] = torch.cuda.get_device_name()
    for row in rows:
        print(f"{row.group:14} {row.measure:45} {row.value:.4f}  (bar {row.bar}; {row.note})")
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
