"""What steering costs: a FERERO step over a weighted-sum step, on the same batch, taken in turns."""

from __future__ import annotations

import time
from statistics import median

import torch
from torch import nn

import ferero
from ferero_lab.experiments.experiment import Context, Found
from ferero_lab.speech.experiment.bench import Bench
from ferero_lab.speech.experiment.losses import Given, draw, training_losses
from ferero_lab.speech.experiment.plan import Plan
from ferero_lab.speech.experiment.wishes import Levels, preference_of
from ferero_lab.speech.recogniser import Recogniser

__all__ = ["time_steps"]

_ROUNDS = 40
_WARM_UP = 5


def time_steps(plan: Plan, context: Context) -> Found:
    """The median over rounds of the ratio of two steps next to each other, and the median times in milliseconds."""
    bench = Bench.of(plan, context)
    model = bench.fresh(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    streams = bench.sets.streams(plan.seconds, 0, bench.device)
    given = draw(
        {language: stream.next() for language, stream in streams.items()},
        torch.Generator().manual_seed(0),
        model.contrast.steps,
        tempo=plan.tempo,
        pitch=plan.pitch,
    )
    steer = ferero.Steer(preference_of("ferero", Levels(cpc=1.0, gap=0.5))).to(bench.device)
    weights = torch.full((3,), 1 / 3, device=bench.device)
    rounds = 6 if plan.mode == "quick" else _ROUNDS
    plain, steered = [], []
    for index in range(_WARM_UP + rounds):
        times = {}
        for which in (("plain", "steered"), ("steered", "plain"))[index % 2]:
            times[which] = _time_step(model, optimizer, given, steer if which == "steered" else None, weights)
        if index >= _WARM_UP:
            plain.append(times["plain"])
            steered.append(times["steered"])
        context.advance(index + 1, _WARM_UP + rounds)
    ratios = [mine / theirs for mine, theirs in zip(steered, plain, strict=True)]
    return {
        "rounds": rounds,
        "utterances": {language: len(batch) for language, batch in given.batches.items()},
        "frames": {language: int(batch.lengths.sum()) for language, batch in given.batches.items()},
        "ratio": median(ratios),
        "ratios": ratios,
        "seconds": {"weighted sum": median(plain), "ferero": median(steered)},
    }


def _time_step(
    model: Recogniser,
    optimizer: torch.optim.Optimizer,
    given: Given,
    steer: ferero.Steer | None,
    weights: torch.Tensor,
) -> float:
    device = weights.device
    _wait(device)
    began = time.perf_counter()
    losses, counts = training_losses(model, given)
    loss = weights @ losses if steer is None else steer(losses, counts)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    _wait(device)
    return time.perf_counter() - began


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
