"""Which kind of training a task belongs to, told from its name: so that one sees where a method fails."""

from __future__ import annotations

__all__ = ["FAMILIES", "family_of"]

FAMILIES = {
    "vae": ("vae",),
    "sparsity": ("sparsity",),
    "pinn": ("poisson", "burgers"),
    "weight norm": ("weight norm", "norm equals"),
    "teachers": ("distillation", "retention", "entropy"),
    "fairness": ("fairness",),
    "three losses": ("parity", "digit"),
    "digit pairs": ("pairs",),
    "front, ray": ("ray", "far ray"),
    "front, threshold": ("a <=",),
    "front, equality": ("a ==", "b -"),
}
"""The beginnings of the names in each family."""


def family_of(task: str) -> str:
    """The family; the name itself where none fits.

    Example:
        >>> family_of("poisson 0.0001"), family_of("a == 3; minimize b, quadratic, 0.03")
        ('pinn', 'front, equality')
    """
    return next((name for name, starts in FAMILIES.items() if task.startswith(starts)), task)
