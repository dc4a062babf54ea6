"""Single answers against independent ones: decisions of the neighbours, and slopes by forward differentiation.

Decisions are held to what their authors' released code or an independent solver decided, forward-mode slopes to those
of m backward passes.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import ferero
from ferero.methods import Method, Observation
from ferero.preference import Preference
from ferero.training import forward_slopes, jacobian_slopes
from ferero_lab.bench.golden import golden
from ferero_lab.bench.measure import Row, seconds, summary
from ferero_lab.data.digit_models import LeNet, cross_entropies

__all__ = ["bench_decisions", "bench_slopes", "epo_deviations", "mgda_deviations", "pmtl_deviations"]

GROUP = "decisions"
REPEATS = 200


def bench_decisions(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], list[dict[str, Any]]]:
    """The rows on EPO, PMTL and MGDA."""
    moves, weights = epo_deviations()
    directions = pmtl_deviations()
    slopes = mgda_deviations()
    times = epo_milliseconds(REPEATS // 10 if quick else REPEATS)
    tick()
    rows = [
        Row(GROUP, "EPO: other moves than the released code", sum(moves), 0, note=f"{len(moves)} instances"),
        Row(GROUP, "EPO: worst weight", max(weights), 1e-5, note=f"{len(weights)} instances"),
        Row(GROUP, "PMTL: worst direction, phase 1", max(directions), 1e-6, note=f"{len(directions)} instances"),
        Row(GROUP, "MGDA: worst relative slope error", max(slopes), 1e-7, note=f"{len(slopes)} subprograms"),
        Row(GROUP, "EPO: milliseconds a decision, m = 6, median", median(times), 2.0, note=summary(times)),
    ]
    return rows, []


def epo_deviations() -> tuple[list[bool], list[float]]:
    """For each instance, whether the move differs, and the largest difference of a weight."""
    differs, worst = [], []
    for instance in golden("epo"):
        decision, state = _decide(ferero.EPO(), Preference.from_weights(instance["r"]), instance)
        differs.append(bool(state.is_balancing) != (instance["move"] == "bal"))
        worst.append(float(np.abs(decision.weights.numpy() - np.array(instance["weights"])).max()))
    return differs, worst


def pmtl_deviations() -> list[float]:
    """The largest difference of a weight in phase 1, where a sector is violated."""
    worst = []
    for instance in golden("pmtl"):
        if instance["active"] == 0:
            continue
        vectors = torch.tensor(instance["reference_vectors"], dtype=torch.float64)
        preference = Preference.ray(vectors[instance["index"]].clamp(min=0))
        decision, _ = _decide(ferero.PMTL(vectors=vectors.tolist()), preference, instance)
        worst.append(float(np.abs(decision.weights.numpy() - np.array(instance["phase1_weights"])).max()))
    return worst


def mgda_deviations() -> list[float]:
    """Relative errors of the slopes on the golden subprograms that are MGDA's."""
    errors = []
    for instance in golden("subprograms"):
        m = len(instance["losses"])
        is_plain = instance["domain"] == "simplex" and not instance["B_g"] and not instance["B_h"]
        if not is_plain or not np.array_equal(np.reshape(instance["A"], (-1, m)), np.eye(m)):
            continue
        decision, _ = _decide(ferero.MGDA(), Preference.pareto(m), instance)
        slopes = -np.reshape(instance["gramian"], (m, m)) @ decision.weights.numpy()
        expected = np.array(instance["slopes"])
        errors.append(float(np.linalg.norm(slopes - expected) / np.linalg.norm(expected)))
    return errors


def epo_milliseconds(count: int) -> list[float]:
    """How long single decisions take for six losses."""
    instances = [instance for instance in golden("epo") if len(instance["losses"]) == 6]
    preferences = [Preference.from_weights(instance["r"]) for instance in instances]
    times = []
    for i in range(count + len(instances)):
        at = i % len(instances)
        times.append(1e3 * seconds(lambda at=at: _decide(ferero.EPO(), preferences[at], instances[at])))  # type: ignore[misc]
    return times[len(instances) :]  # the first round warms up


def _decide(method: Method[Any], preference: Preference, instance: dict[str, Any]) -> tuple[Any, Any]:
    m = preference.m
    losses, gramian = (torch.tensor(instance[name], dtype=torch.float64) for name in ("losses", "gramian"))
    return method.update(preference, Observation(losses, gramian.reshape(m, m)), method.init(preference))


LOSSES = (2, 6, 20)


def bench_slopes(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], list[dict[str, Any]]]:  # noqa: ARG001
    """The worst relative difference in float64, over models and numbers of losses."""
    worst = 0.0
    for m in LOSSES:
        for make in (_lenet, _tied_and_frozen):
            worst = max(worst, _difference(*make(m)))
            tick()
    note = "LeNet; a trunk with batch norm, tied and frozen layers and a head that no loss uses"
    return [Row("slopes", "forward against jacobian, float64: worst relative difference", worst, 1e-10, note=note)], []


def _difference(model: nn.Module, losses: Callable[[nn.Module], Tensor]) -> float:
    parameters = [p for p in model.parameters() if p.requires_grad]
    generator = torch.Generator().manual_seed(1)
    gradients = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in parameters]
    expected = jacobian_slopes(losses(model), parameters, gradients)
    found, _ = forward_slopes(model, lambda module: (losses(module), None), parameters, gradients)
    return float((found.double() - expected).norm() / expected.norm())


def _lenet(m: int) -> tuple[nn.Module, Callable[[nn.Module], Tensor]]:
    generator = torch.Generator().manual_seed(m)
    images = torch.rand(16, 1, 36, 36, generator=generator, dtype=torch.float64)
    labels = torch.randint(10, (16, m), generator=generator)
    return LeNet(tasks=m).double(), lambda model: cross_entropies(model(images), labels)


class _TiedAndFrozen(nn.Module):
    """A trunk whose second layer is its first transposed, one layer that is not trained, m heads and one too many."""

    def __init__(self, m: int) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(5, 8, bias=False), nn.BatchNorm1d(8)
        self.frozen = nn.Linear(5, 5).requires_grad_(False)
        self.heads = nn.ModuleList(nn.Linear(5, 1) for _ in range(m + 1))

    def forward(self, x: Tensor) -> Tensor:
        """The losses, (m,)."""
        hidden = torch.tanh(self.norm(self.first(x))) @ self.first.weight
        hidden = self.frozen(hidden)
        return torch.stack([head(hidden).square().mean() for head in list(self.heads)[:-1]])


def _tied_and_frozen(m: int) -> tuple[nn.Module, Callable[[nn.Module], Tensor]]:
    torch.manual_seed(m)
    x = torch.randn(12, 5, generator=torch.Generator().manual_seed(m), dtype=torch.float64)
    return _TiedAndFrozen(m).double(), lambda model: model(x)
