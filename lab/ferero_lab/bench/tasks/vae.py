"""A variational autoencoder of digits: the least KL with a bounded reconstruction error, or the other way round."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import ferero
from ferero_lab.bench.tasks.task import Task, flat_digits, minibatch, normals
from ferero_lab.data.seeding import seeded

__all__ = ["vae", "vae_rate"]

LATENT, BATCH = 4, 64


class Autoencoder(nn.Module):
    """64 pixels to the means and log-variances of 4 numbers, and back."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        with seeded(seed):
            self.encoder = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 2 * LATENT))
            self.decoder = nn.Sequential(nn.Linear(LATENT, 32), nn.Tanh(), nn.Linear(32, 64), nn.Sigmoid())

    def forward(self, images: Tensor, noise: Tensor) -> Tensor:
        """Squared error and KL of an image, means over the batch, (2,)."""
        mean, log_variance = self.encoder(images).chunk(2, dim=-1)
        decoded = self.decoder(mean + (log_variance / 2).exp() * noise)
        rec = (decoded - images).square().sum(dim=-1).mean()
        kl = (mean.square() + log_variance.exp() - 1 - log_variance).sum(dim=-1).mean() / 2
        return torch.stack([rec, kl])


def _task(name: str, preference: ferero.Preference) -> Task:
    images, _ = flat_digits()

    def losses(model: nn.Module, step: int, seed: int) -> Tensor:
        chosen = minibatch(len(images), BATCH, step, seed)
        found: Tensor = model(images[chosen], normals(1000 + seed, 3000, BATCH, LATENT)[step])
        return found

    def evaluate(model: nn.Module) -> Tensor:
        found: Tensor = model(images, normals(0, len(images), LATENT))
        return found

    return Task(name, preference, Autoencoder, losses, evaluate, 3000, {"adam": 2e-3, "momentum": 1e-2}, "adam")


def vae(level: float) -> Task:
    """``rec <= level, minimize kl``; a decoder that ignores its input reaches 4.7."""
    f = ferero.objectives("rec", "kl")
    return _task(f"vae {level:g}", ferero.Preference(f, [f.rec <= level], minimize=f.kl))


def vae_rate(nats: float) -> Task:
    """``kl == nats, minimize rec``: a target rate, approached from below."""
    f = ferero.objectives("rec", "kl")
    return _task(f"vae rate {nats:g}", ferero.Preference(f, [f.kl == nats], minimize=f.rec))
