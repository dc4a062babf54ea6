"""What people do today: multipliers moved by the violations, in a few lines each, with every setting side by side.

All of them are maps from values to weights, so many settings train at once. `benchmarks/cooper/check.py` holds the
augmented Lagrangian to Cooper's own, step for step, and nuPI to Cooper's documentation; the code of cooper-optim 1.0.1
begins otherwise, which its second step shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import torch
from torch import Tensor

import ferero

__all__ = ["ALONE", "RIVALS", "Rival", "Rivals"]


@dataclass(frozen=True)
class Rival:
    """One setting of one rule.

        e   = B F + b, or that over |b|                     (relative)
        lam <- [lam + rate e]_+                             [.]_+ for inequalities only
        w   = objective + B^T [lam + proportional e]_+      dual ascent; rate 0 is the quadratic penalty
        lam <- [lam + rate e + proportional (xi - xi')]_+   nuPI, xi the violations smoothed by nu; w with lam itself

    Attributes:
        name: of the rule.
        relative: whether violations are over the bound.
        rate: of the multiplier.
        proportional: k.
        nu: None for dual ascent, nuPI's smoothing otherwise.
        objective: the weight of the objective, 1 but for "constraint alone".
    """

    name: str
    relative: bool
    rate: float
    proportional: float
    nu: float | None = None
    objective: float = 1.0

    @property
    def setting(self) -> str:
        """Its setting in a few words."""
        nu = f", nu {self.nu:g}" if self.nu else ""
        return f"rate {self.rate:g}, k {self.proportional:g}{nu}"

    @property
    def title(self) -> str:
        """The rule and its setting."""
        return f"{self.name}: {self.setting}"


RIVALS = (
    *(
        Rival(f"dual, {'F / b - 1' if relative else 'F - b'}", relative, rate, k)
        for relative, rate, k in product((False, True), (1e-3, 1e-2, 0.1, 1.0), (0.0, 1.0, 10.0))
    ),
    *(Rival("nuPI", False, rate, k, 0.0) for rate, k in product((0.01, 0.1), (1.0, 3.0))),
    *(Rival("nuPI", False, rate, 3.0, 0.9) for rate in (0.01, 0.1)),
    *(Rival("augmented Lagrangian", False, rate, k) for rate, k in product((0.01, 0.1, 1.0), (1.0, 3.0))),
    *(Rival("quadratic penalty", True, 0.0, k) for k in (1.0, 10.0, 100.0, 1000.0)),
)
ALONE = (
    Rival("objective alone", True, 0.0, 0.0),
    Rival("constraint alone", True, 0.0, 1.0, objective=0.0),
)
"""Not rivals: what the objective is without the constraint, and without anything but the constraint."""


@dataclass
class Rivals:
    """The multipliers of K rivals on one preference; `__call__` moves them and gives the weights, (K, m)."""

    preference: ferero.Preference
    rivals: tuple[Rival, ...]
    lam: Tensor = field(init=False)

    def __post_init__(self) -> None:
        p = self.preference
        self.B, self.b = torch.cat([p.B_g, p.B_h]), torch.cat([p.b_g, p.b_h])
        self.is_inequality = torch.arange(len(self.b)) < p.m_g
        # One row of A is minimised as it is; of several the plain mean.
        self.objective = p.A[0] if len(p.A) == 1 else p.A.mean(dim=0)

        def of(name: str) -> Tensor:
            values = [getattr(rival, name) for rival in self.rivals]
            return torch.tensor([0.0 if v is None else float(v) for v in values], dtype=torch.float64)[:, None]

        self.rate, self.proportional, self.nu, self.share = map(of, ("rate", "proportional", "nu", "objective"))
        self.is_nupi = torch.tensor([[rival.nu is not None] for rival in self.rivals])
        over = torch.where(self.b == 0, 1.0, self.b.abs())
        self.unit = torch.where(of("relative") > 0, 1 / over, torch.ones_like(over))
        self.lam = torch.zeros(len(self.rivals), len(self.b), dtype=torch.float64)
        self.smooth: Tensor | None = None

    def __call__(self, losses: Tensor) -> Tensor:
        """The weights (K, m) for losses (K, m)."""
        e = (losses @ self.B.T + self.b) * self.unit
        smooth = e if self.smooth is None else self.nu * self.smooth + (1 - self.nu) * e
        change = torch.zeros_like(e) if self.smooth is None else smooth - self.smooth
        self.smooth = smooth
        self.lam = self._clip(self.lam + self.rate * e + torch.where(self.is_nupi, self.proportional * change, 0.0))
        lam = torch.where(self.is_nupi, self.lam, self._clip(self.lam + self.proportional * e))
        return self.share * self.objective + (lam * self.unit) @ self.B

    def _clip(self, multipliers: Tensor) -> Tensor:
        return torch.where(self.is_inequality, multipliers.clamp(min=0), multipliers)
