"""The two-objective exponential problem and a convex one, written out here so that the tests do not lean on the lab."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

Q = 20
CENTRE = torch.ones(Q, dtype=torch.float64) / Q**0.5


def exponential(x: Tensor) -> Tensor:
    ahead, behind = (x - CENTRE).square().sum(), (x + CENTRE).square().sum()
    return torch.stack([1 - torch.exp(-ahead), 1 - torch.exp(-behind)])


def quadratics(x: Tensor) -> Tensor:
    """Three convex losses in five dimensions; their front is the image of the triangle of the centres."""
    centres = torch.eye(5, dtype=torch.float64)[:3]
    return (x - centres).square().sum(dim=1)


def starts(kind: str, count: int, seed: int) -> list[Tensor]:
    rng = np.random.default_rng(seed)
    draw = {
        "normal": lambda: rng.standard_normal(Q),
        "easy": lambda: rng.uniform(-0.3, 0.3, Q),
        "hard": lambda: rng.uniform(0.15, 0.5, Q) * rng.choice([-1.0, 1.0]),
    }[kind]
    return [torch.from_numpy(draw()) for _ in range(count)]


def random_rays(count: int, seed: int) -> np.ndarray:
    angles = np.random.default_rng(seed).uniform(np.pi / 20, 9 * np.pi / 20, count)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def distance_to_front(losses: np.ndarray) -> float:
    s = np.linspace(-1, 1, 20001)
    front = np.stack([1 - np.exp(-((s - 1) ** 2)), 1 - np.exp(-((s + 1) ** 2))], axis=1)
    return float(np.linalg.norm(front - losses, axis=1).min())
