"""Two losses in a given ratio, with a certificate of first-order optimality."""

import torch

import ferero


def losses(theta: torch.Tensor) -> torch.Tensor:
    near_one = (theta - 1).square().sum()
    near_minus_one = (theta + 1).square().sum()
    return torch.stack([near_one, near_minus_one])


result = ferero.minimize(losses, torch.zeros(5), ferero.Preference.ray([1.0, 2.0]))
print(result)
print(f"second over first: {result.losses[1] / result.losses[0]:.4f}")

front = ferero.trace(losses, torch.zeros(5), ferero.spread(2, 7))
print(front)
