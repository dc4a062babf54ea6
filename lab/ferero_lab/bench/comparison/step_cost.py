"""What a step with a method of slopes costs: `Stepper` on halves of a batch over a plain step on the whole.

Blocks of plain and steered steps alternate in one run, and each ratio is that of neighbours, so that what else the
machine does falls on both alike. ``python -m ferero_lab.bench.comparison.step_cost [--device cuda] [--out FILE]`` needs
torch alone; on a GPU it also compares both as captured CUDA graphs, without what launching costs.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Literal

import torch
from torch import Tensor

from ferero.methods import FereroSA
from ferero.preference import Preference
from ferero.training import SlopeKind, Stepper
from ferero_lab.bench.measure import Row, result_of
from ferero_lab.data.digit_models import LeNet, cross_entropies

__all__ = ["bench_step_cost", "step_rows"]

Take = Callable[[], object]
Way = Literal["eager", "captured"]
_BATCH = 256
_BARS: dict[str, float] = {"cpu": 1.15, "cuda": 1.5}
_LOSSES = {"cpu": (2, 6, 20, 40), "cuda": (2, 20)}
_KINDS: tuple[SlopeKind, ...] = ("realized", "forward", "jacobian")


def bench_step_cost(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], list[dict[str, Any]]]:
    """Rows of step time on the CPU."""
    return step_rows("cpu", quick, lambda _: tick()), []


def step_rows(device: str, quick: bool, tell: Callable[[Row], None]) -> list[Row]:
    """Rows of step time on one device, for every number of losses and kind of slopes.

    The paper's m + 1 gradients (jacobian) are for information; on a GPU the bar is for the captured step.
    """
    ways: tuple[Way, ...] = ("captured", "eager") if device == "cuda" else ("eager",)
    rows = []
    for way in ways:
        for m in _LOSSES[device]:
            for kind in _KINDS:
                blocks = 10 if quick or (device == "cuda" and way == "eager") else 40
                ratios, plain = _ratios(m, kind, device, way, blocks)
                low, high = torch.tensor(ratios).quantile(torch.tensor([0.25, 0.75])).tolist()
                has_bar = kind != "jacobian" and (device == "cpu" or way == "captured")
                note = f"median of {len(ratios)}, middle half {low:.3f} to {high:.3f}; plain step {1e3 * plain:.3f} ms"
                measure = f"LeNet m = {m}, {kind}, {way}: stepper over plain"
                bar = _BARS[device] if has_bar else None
                rows.append(Row(f"step, {device}", measure, median(ratios), bar, note=note))
                tell(rows[-1])
    return rows


def _batch(m: int, device: str) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(_BATCH, 1, 36, 36, generator=generator)
    return images.to(device), torch.randint(10, (_BATCH, m), generator=generator).to(device)


def _losses(model: LeNet, batch: tuple[Tensor, Tensor]) -> Tensor:
    return cross_entropies(model(batch[0]), batch[1])


def _plain(m: int, device: str) -> Take:
    model, batch, weights = LeNet(tasks=m).to(device), _batch(m, device), torch.full((m,), 1 / m, device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def take() -> None:
        optimizer.zero_grad()
        (weights * _losses(model, batch)).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return take


def _stepper(m: int, kind: SlopeKind, device: str) -> Take:
    model, batch = LeNet(tasks=m).to(device), _batch(m, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    method = FereroSA(gamma=1e-3, bound=5.0, domain="simplex")
    wish = Preference.ray(torch.ones(m))
    stepper = Stepper(model, _losses, wish, optimizer, method=method, slopes=kind)
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


def _ratios(m: int, kind: SlopeKind, device: str, way: Way, blocks: int) -> tuple[list[float], float]:
    plain, steered = _plain(m, device), _stepper(m, kind, device)
    if way == "captured":
        plain, steered = _captured(plain), _captured(steered)
    length = 30 if device == "cuda" else 3
    for take in (plain, steered):
        _block(take, 20 if device == "cuda" else 5, device)
    ratios, times = [], []
    for i in range(blocks):
        order = (plain, steered) if i % 2 == 0 else (steered, plain)
        taken = {take: _block(take, length, device) for take in order}
        ratios.append(taken[steered] / taken[plain])
        times.append(taken[plain] / length)
    return ratios, median(times)


def _block(take: Take, length: int, device: str) -> float:
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
    print(f"{row.group:12} {row.measure:50} {row.value:.3f}  (bar {row.bar}; {row.note})", flush=True)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=sorted(_BARS), default="cpu")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = step_rows(arguments.device, arguments.quick, _show)
    result = result_of("step-cost", arguments.quick, rows)
    if arguments.device == "cuda":
        result["environment"]["accelerator"] = torch.cuda.get_device_name()
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
