"""Several losses of one small network on digits: constraints that stand beside each other, differences and rays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from torch import Tensor, nn

import ferero
from ferero_lab.bench.steer.steer_task import ray_at
from ferero_lab.bench.tasks.task import Task, minibatch
from ferero_lab.data import Labelled, PairNet, ThreeNet, cross_entropies, digit_pairs, digits_three

__all__ = ["pair_ray", "three"]

NAMES = ("digit", "parity", "magnitude")


@dataclass(frozen=True)
class _Data:
    train: Labelled
    batch: int


@lru_cache(maxsize=1)
def _three() -> _Data:
    return _Data(digits_three().train, 64)


@lru_cache(maxsize=1)
def _pairs() -> _Data:
    return _Data(digit_pairs().train, 128)


def _task(name: str, preference: ferero.Preference, net: type[nn.Module], data: _Data, steps: int) -> Task:
    part, batch = data.train, data.batch

    def losses(model: nn.Module, step: int, seed: int) -> Tensor:
        chosen = minibatch(len(part), batch, step, seed)
        return cross_entropies(model(part.images[chosen]), part.labels[chosen])

    def evaluate(model: nn.Module) -> Tensor:
        return cross_entropies(model(part.images), part.labels)

    rates = {"adam": 3e-3, "momentum": 1e-2, "sgd": 0.1}
    return Task(name, preference, lambda seed: net(seed=seed), losses, evaluate, steps, rates, "adam")  # type: ignore[arg-type]


def three(text: str) -> Task:
    """Digit, parity (with wrong labels, so it cannot vanish) and magnitude under constraints written in words."""
    return _task(text, ferero.Preference.parse(text, names=NAMES), ThreeNet, _three(), 3000)


def pair_ray(degrees: float) -> Task:
    """Two digits in one image along a ray."""
    preference = ferero.Preference.ray(ray_at(degrees), names=["left", "right"])
    return _task(f"pairs, ray {degrees:g}", preference, PairNet, _pairs(), 3000)
