"""The run-time table: what one iteration costs with each method, measured in turn so that ratios can be trusted."""

from __future__ import annotations

import gc
import time
from statistics import median
from typing import Any

import torch
from torch import Tensor

import ferero
from ferero.methods import Method, Observation
from ferero.preference import Preference
from ferero_lab.experiments.experiment import Context, Found
from ferero_lab.experiments.synthetic.cases import ASCENT
from ferero_lab.experiments.synthetic.wishes import draw_starts, even_rays
from ferero_lab.problems import Exponential

__all__ = ["PAPER_TIMES", "time_methods"]

PAPER_TIMES = {  # iterations and seconds per iteration, for the easy and the hard starts of Figure 3
    "ls": ((100, 3.50e-4), (100, 3.10e-4)),
    "pmtl": ((100, 7.67e-4), (200, 7.65e-4)),
    "epo": ((60, 4.93e-3), (80, 4.93e-3)),
    "ferero": ((10, 7.50e-4), (200, 7.30e-4)),
}
BLOCK = 5  # iterations that are timed together: few, so that neighbours share what else the machine does
STEP = 0.1


def time_methods(quick: bool, context: Context) -> Found:
    """Seconds per iteration (evaluate, differentiate, ask the method, step), the median over blocks.

    The blocks of all methods take turns, and each ratio is that of neighbours.

    Returns:
        "seconds" with "per_iteration" and "over_ls" by method, and "auto", a whole `ferero.minimize` with step="auto";
        and the "evaluations" of that.
    """
    ray = even_rays(4)[1]
    start = draw_starts("easy", 1, 0)[0]
    plain, ascent = Preference.ray(ray), Preference.ray(ray, cone=ferero.Cone(ASCENT))
    settings: dict[str, tuple[Method[Any], Preference]] = {
        "ls": (ferero.LinearScalarization(), plain),
        "pmtl": (ferero.PMTL(vectors=even_rays(4).tolist()), plain),
        "epo": (ferero.EPO(), plain),
        "ferero": (ferero.Ferero(), ascent),
        "ferero-sa": (ferero.FereroSA(gamma=0.1, bound=10.0), ascent),
    }
    rounds = 30 if quick else 300
    times: dict[str, list[float]] = {name: [] for name in (*settings, "auto")}
    for turn in range(rounds + 1):
        for name, (method, preference) in settings.items():
            times[name].append(_time_block(method, preference, start))
        times["auto"].append(_time_auto(plain, start))
        context.advance(turn + 1, rounds + 1)
    times = {name: values[1:] for name, values in times.items()}  # the first turn warms up
    auto = median(times.pop("auto"))
    per_iteration = {name: median(values) for name, values in times.items()}
    over_ls = {name: median(_ratios(values, times["ls"])) for name, values in times.items()}
    return {
        "seconds": {"per_iteration": per_iteration, "over_ls": over_ls, "auto": auto},
        "evaluations": ferero.minimize(Exponential(), start, plain).evaluations,
    }


def _ratios(values: list[float], others: list[float]) -> list[float]:
    return [value / other for value, other in zip(values, others, strict=True)]


def _time_block(method: Method[Any], preference: Preference, start: Tensor) -> float:
    theta, state, slopes = start.clone(), method.init(preference), None
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        begin = time.perf_counter()
        for _ in range(BLOCK):
            theta, state, slopes = _iterate(method, preference, theta, state, slopes)
        return (time.perf_counter() - begin) / BLOCK
    finally:
        if is_enabled:
            gc.enable()


def _iterate(
    method: Method[Any], preference: Preference, theta: Tensor, state: Any, slopes: Tensor | None
) -> tuple[Tensor, Any, Tensor | None]:
    """One step with no more derivatives than the method reads: a gradient per loss, or one of the weighted sum."""
    x = theta.requires_grad_()
    losses = Exponential()(x)
    if "gramian" in method.requires:
        rows = [torch.autograd.grad(loss, x, retain_graph=True)[0] for loss in losses]
        jacobian = torch.stack(rows)
        decision, state = method.update(preference, Observation(losses.detach(), jacobian @ jacobian.T), state)
        return (theta - STEP * decision.weights @ jacobian).detach(), state, None
    decision, state = method.update(preference, Observation(losses.detach(), slopes=slopes), state)
    (gradient,) = torch.autograd.grad(decision.weights @ losses, x)
    ahead = (theta - STEP * gradient).detach()
    if "slopes" in method.requires:
        slopes = (Exponential()(ahead) - losses.detach()) / STEP
    return ahead, state, slopes


def _time_auto(preference: Preference, start: Tensor) -> float:
    begin = time.perf_counter()
    ferero.minimize(Exponential(), start, preference)
    return time.perf_counter() - begin
