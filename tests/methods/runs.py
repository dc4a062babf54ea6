"""Runs of a controller for the tests of `FereroPI`: on given losses, and in closed loops on known fronts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ferero.methods import Observation
from ferero.methods._ferero_pi import FereroPI, FereroPIState

PI = FereroPI()
CENTRE = torch.full((20,), 20**-0.5, dtype=torch.float64)
LOOK = 25  # steps between two diagnoses
LARGEST = 1e30  # in place of what is not finite, so that one run that diverges does not end the others


def tensor(values):
    return torch.as_tensor(values, dtype=torch.float64)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def draw(*shape, seed=0):
    return 0.5 + torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def feed(preference, losses, present=None, method=PI, state=None):
    """The decisions on a given sequence, and the last state."""
    state, decisions = method.init(preference) if state is None else state, []
    for t, values in enumerate(losses):
        here = None if present is None else present[t]
        decision, state = method.update(preference, Observation(values, present=here), state)
        decisions.append(decision)
    return decisions, state


def weights_of(decisions):
    return torch.stack([decision.weights for decision in decisions])


@dataclass
class Run:
    """Losses and weights (steps, ..., m), what was diagnosed every 25 steps, (steps / 25, ..., r), the last state."""

    losses: Tensor
    weights: Tensor
    saturated: Tensor
    state: FereroPIState | None

    def of(self, members):
        """The same of some members of a stack, without the state."""
        return Run(*(part[:, :, members] for part in (self.losses, self.weights, self.saturated)), None)


def closed_loop(preference, problem, x, rates, steps, method=PI, adam=None, see=None):
    """SGD on the weighted sum, or Adam where `adam` is true; observed is F, or `see(t, F)`."""
    state, losses, weights, saturated = method.init(preference), [], [], []
    mean, square = torch.zeros_like(x), torch.zeros_like(x)
    for t in range(steps):
        x = x.detach().requires_grad_()
        F = problem(x)
        seen = F.detach() if see is None else see(t, F.detach())
        decision, state = method.update(preference, Observation(seen.clamp(-1e308, 1e308)), state)
        (gradient,) = torch.autograd.grad((decision.weights * F).sum(), x)
        step = gradient
        if adam is not None:
            mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient.square()
            scaled = mean / (1 - 0.9 ** (t + 1)) / ((square / (1 - 0.999 ** (t + 1))).sqrt() + 1e-12)
            step = torch.where(adam, scaled, gradient)
        x = (x.detach() - rates * step).nan_to_num(nan=LARGEST).clamp(-LARGEST, LARGEST)
        losses.append(F.detach())
        weights.append(decision.weights)
        if t % LOOK == LOOK - 1:
            saturated.append(method.diagnose(preference, state).saturated)
    return Run(torch.stack(losses), torch.stack(weights), torch.stack(saturated), state)


def exponential(x):
    """The paper's concave front: at x = s c, a = 1 - exp(-(1 - s)^2) and b = 1 - exp(-(1 + s)^2)."""
    return 1 - torch.exp(-quadratic(x))


def quadratic(x):
    """A convex front: sqrt(a) + sqrt(b) = 2 between the centres, and |sqrt(a) - sqrt(b)| = 2 beyond them."""
    return torch.stack([(x - CENTRE).square().sum(dim=-1), (x + CENTRE).square().sum(dim=-1)], dim=-1)
