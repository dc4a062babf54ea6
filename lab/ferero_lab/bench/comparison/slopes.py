"""Forward-mode slopes against those of m backward passes, on models with all that can go wrong between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ferero.training import forward_slopes, jacobian_slopes
from ferero_lab.bench.measure import Row
from ferero_lab.data.digit_models import LeNet, cross_entropies

__all__ = ["bench_slopes"]

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
