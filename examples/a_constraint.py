"""Losses with names, a bound that can be had, and one that cannot."""

import torch

import ferero

f = ferero.objectives("error", "gap")


def losses(theta: torch.Tensor) -> torch.Tensor:
    error = 1 - torch.exp(-(theta - 0.5).square().sum())
    gap = 1 - torch.exp(-(theta + 0.5).square().sum())
    return torch.stack([error, gap])


start = torch.tensor([0.1, -0.2, 0.2, 0.0], dtype=torch.float64)

wanted = ferero.Preference(f, [f.error <= 0.3])
print(wanted)
print(ferero.minimize(losses, start, wanted))

too_much = ferero.Preference(f, [f.error <= 0.3, f.gap <= 0.3])
result = ferero.minimize(losses, start, too_much)
print(result.status, "-", result.message)
