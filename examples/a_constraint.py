"""Losses with names, a bound that can be met, and bounds that cannot."""

import torch

import ferero

f = ferero.objectives("error", "gap")


def losses(theta: torch.Tensor) -> torch.Tensor:
    error = 1 - torch.exp(-(theta - 0.5).square().sum())
    gap = 1 - torch.exp(-(theta + 0.5).square().sum())
    return torch.stack([error, gap])


start = torch.tensor([0.1, -0.2, 0.2, 0.0], dtype=torch.float64)

preference = ferero.Preference(f, [f.error <= 0.3])
print(preference)
print(ferero.minimize(losses, start, preference))

too_much = ferero.Preference(f, [f.error <= 0.3, f.gap <= 0.3])
result = ferero.minimize(losses, start, too_much)
print(result.status, "-", result.message)
