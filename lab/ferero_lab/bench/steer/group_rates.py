"""A bound on the gap between two groups' rates, trained on batches of 64: does it hold on all data?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import ferero
from ferero_lab.bench.measure import Row
from ferero_lab.bench.steer.steer_task import indices
from ferero_lab.data.seeding import seeded

__all__ = ["Audit", "People", "bench_group_rates", "draw_people", "train_fairly"]

GROUP = "fairness, |rate_a - rate_b| <= 0.05"
BATCH = 64
THRESHOLD = 0.05
RATES = (1e-3, 3e-3)


@dataclass(frozen=True, eq=False)
class People:
    """Features (n, 8), labels (n,) in {0, 1} and who is in the minority (n,), bool."""

    features: Tensor
    labels: Tensor
    minority: Tensor


@dataclass(frozen=True)
class Audit:
    """A trained model on all data.

    Attributes:
        gap: ``|rate_a - rate_b|`` at the end, mean predicted probabilities.
        worst: its largest value over the last tenth of the steps.
        batch_gap: the mean of the same computed on single batches, where both groups are present.
        ce: cross-entropy.
        accuracy: share of right answers.
        absent: share of batches without anybody of the minority.
    """

    gap: float
    worst: float
    batch_gap: float
    ce: float
    accuracy: float
    absent: float


def draw_people(seed: int, minority: float = 1 / 3, count: int = 4000) -> People:
    """Logistic labels from Gaussian features, two of which are lower in the minority."""
    generator = torch.Generator().manual_seed(seed)
    is_minor = torch.rand(count, generator=generator) < minority
    features = torch.randn(count, 8, generator=generator)
    features[:, :2] -= 1.0 * is_minor[:, None]
    slopes = torch.tensor([1.2, 0.8, 0.8, -0.6, 0.5, 0.3, 0.0, 0.0])
    labels = torch.rand(count, generator=generator) < torch.sigmoid(features @ slopes)
    return People(features, labels.float(), is_minor)


def train_fairly(people: People, learning_rate: float, is_steered: bool, steps: int = 3000, seed: int = 0) -> Audit:
    """Train a small network with Adam, on the cross-entropy alone or steered."""
    f = ferero.objectives("ce", "rate_a", "rate_b")
    steer = ferero.Steer(ferero.Preference(f, [abs(f.rate_a - f.rate_b) <= THRESHOLD], minimize=f.ce))
    with seeded(seed):
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1), nn.Flatten(0))
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    chosen = indices(len(people.labels), BATCH, steps, seed)
    gaps = []
    for step, batch in enumerate(chosen):
        logits, minor = model(people.features[batch]), people.minority[batch]
        ce = functional.binary_cross_entropy_with_logits(logits, people.labels[batch])
        losses, counts = {"ce": ce} | _rates(logits, minor), {"ce": BATCH} | _counts(minor)
        optimizer.zero_grad()
        (steer(losses, counts=counts) if is_steered else ce).backward()
        optimizer.step()
        if step >= steps - steps // 10 and (steps - 1 - step) % 20 == 0:
            gaps.append(_gap(model, people))
    return _audit(model, people, gaps, chosen)


def bench_group_rates(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], list[dict[str, Any]]]:
    """All rows, and every run."""
    steps, seeds = (1500, range(1)) if quick else (3000, range(4))
    runs: list[dict[str, Any]] = []

    def audit(rate: float, is_steered: bool, minority: float = 1 / 3) -> list[Audit]:
        found = []
        for seed in seeds:
            found.append(train_fairly(draw_people(seed, minority), rate, is_steered, steps, seed))
            setting = {"part": GROUP, "learning_rate": rate, "steered": is_steered, "minority": minority, "seed": seed}
            runs.append(setting | asdict(found[-1]))
            tick()
        return found

    plain = audit(RATES[0], False)
    rows = [Row(GROUP, f"gap on all data, plain, Adam {RATES[0]:g}", max(one.gap for one in plain), note=_note(plain))]
    for rate in RATES[:1] if quick else RATES:
        fair = audit(rate, True)
        note = f"{_note(fair)}; at most {max(one.worst for one in fair):.3f} over the last tenth"
        rows.append(
            Row(GROUP, f"gap on all data, steered, Adam {rate:g}", max(one.gap for one in fair), 0.055, note=note)
        )
    rare = audit(RATES[0], True, 0.05)
    rows.append(Row(GROUP, "the same, minority of 5 %", max(one.gap for one in rare), note=_note(rare)))
    return rows, runs


def _note(audits: list[Audit]) -> str:
    accuracy, batch_gap, absent = (
        sum(getattr(one, name) for one in audits) / len(audits) for name in ("accuracy", "batch_gap", "absent")
    )
    note = f"the largest of {len(audits)} seeds; accuracy {accuracy:.3f}, mean gap within batches {batch_gap:.3f}"
    return note + (f", minority absent in {absent:.0%} of batches" if absent > 0.001 else "")


def _rates(logits: Tensor, minor: Tensor) -> dict[str, Tensor]:
    """Mean predicted probability of each group that is there."""
    share = torch.sigmoid(logits)
    groups = {"rate_a": ~minor, "rate_b": minor}
    return {name: share[members].mean() for name, members in groups.items() if bool(members.any())}


def _counts(minor: Tensor) -> dict[str, int]:
    return {"rate_a": int((~minor).sum()), "rate_b": int(minor.sum())}


@torch.no_grad()
def _gap(model: nn.Module, people: People) -> float:
    rates = _rates(model(people.features), people.minority)
    return float((rates["rate_a"] - rates["rate_b"]).abs())


@torch.no_grad()
def _audit(model: nn.Module, people: People, gaps: list[float], chosen: Tensor) -> Audit:
    logits = model(people.features)
    rates = [_rates(logits[batch], people.minority[batch]) for batch in chosen[-200:]]
    within = [abs(float(one["rate_a"] - one["rate_b"])) for one in rates if len(one) == 2]
    return Audit(
        gap=gaps[-1],
        worst=max(gaps),
        batch_gap=sum(within) / max(len(within), 1),
        ce=float(functional.binary_cross_entropy_with_logits(logits, people.labels)),
        accuracy=float(((logits > 0) == people.labels.bool()).float().mean()),
        absent=1 - len(within) / len(rates),
    )
