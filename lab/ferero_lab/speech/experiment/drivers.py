"""Two ways to make an optimizer step: by loss values (`ferero.Steer`), or by all gradients (`ferero.Stepper`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

import ferero
from ferero.methods import Method
from ferero.preference import Preference
from ferero_lab.speech.experiment.losses import NAMES, Given, training_losses
from ferero_lab.speech.recogniser import Recogniser

__all__ = ["Driver", "driver_for"]

_CLIP = 1.0
_MEMORY = 20.0


class Driver(Protocol):
    """Makes optimizer steps, and tells with which weights."""

    def step(self, given: Given) -> None:
        """One."""

    def observe(self, losses: Mapping[str, float]) -> None:
        """Take in the held-out losses, where the method can."""

    def told(self) -> dict[str, list[float]]:
        """Running means of the "training" losses, "weights" and "multipliers" of the constraints, as they are now."""

    def state_dict(self) -> dict[str, Any]:
        """What the next step depends on, besides model and optimizer."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""


def driver_for(
    model: Recogniser,
    optimizer: torch.optim.Optimizer,
    preference: Preference,
    method: Method[Any],
    floors: Sequence[float],
) -> Driver:
    """The cheap one where the method reads losses only; it sees them less their floors (3,)."""
    kind = _Steered if method.requires <= {"losses"} else _Stepped
    return kind(model, optimizer, preference, method, floors)


class _Steered:
    """``loss = steer(losses)``; the constraints are driven by the held-out losses."""

    def __init__(
        self,
        model: Recogniser,
        optimizer: torch.optim.Optimizer,
        preference: Preference,
        method: Method[Any],
        floors: Sequence[float],
    ) -> None:
        device = next(model.parameters()).device
        self._model, self._optimizer = model, optimizer
        self._steer = ferero.Steer(preference, method).to(device)
        self._floors = torch.tensor(floors, device=device)
        self._seen, self._training = (torch.zeros(preference.m, device=device) for _ in range(2))

    def step(self, given: Given) -> None:
        losses, counts = training_losses(self._model, given)
        loss = self._steer(losses - self._floors, counts)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self._model.parameters(), _CLIP)
        self._optimizer.step()
        here = counts > 0
        self._seen += here
        self._training += here * (losses.detach() - self._training) / self._seen.clamp(1, _MEMORY)

    def observe(self, losses: Mapping[str, float]) -> None:
        self._steer.observe(
            **{name: losses[name] - float(floor) for name, floor in zip(NAMES, self._floors, strict=True)}
        )

    def told(self) -> dict[str, list[float]]:
        steer = self._steer
        training = torch.where(self._seen > 0, self._training, torch.nan)
        return _told(training, steer.weights, steer.multipliers, steer.preference)

    def state_dict(self) -> dict[str, Any]:
        return {"steer": self._steer.state_dict(), "seen": self._seen, "training": self._training}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._steer.load_state_dict(state["steer"])
        self._seen.copy_(state["seen"])
        self._training.copy_(state["training"])


class _Stepped:
    """Methods of a gramian or of slopes, which the training losses drive."""

    def __init__(
        self,
        model: Recogniser,
        optimizer: torch.optim.Optimizer,
        preference: Preference,
        method: Method[Any],
        floors: Sequence[float],
    ) -> None:
        self._floors = torch.tensor(floors, device=next(model.parameters()).device)
        self._stepper = ferero.Stepper(
            model,
            lambda model, given: training_losses(model, given)[0] - self._floors,
            preference,
            optimizer,
            method=method,
            double_sampling=False,
            clip_norm=_CLIP,
        )

    def step(self, given: Given) -> None:
        self._stepper.step(given)

    def observe(self, losses: Mapping[str, float]) -> None:
        """These methods take no held-out values."""

    def told(self) -> dict[str, list[float]]:
        stepper = self._stepper
        training = stepper.losses + self._floors.to(stepper.losses)
        return _told(training, stepper.weights, stepper.multipliers, stepper.preference)

    def state_dict(self) -> dict[str, Any]:
        return self._stepper.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._stepper.load_state_dict(state)


def _told(
    losses: Tensor, weights: Tensor, multipliers: Tensor | None, preference: Preference
) -> dict[str, list[float]]:
    rows = preference.m_g + preference.m_h
    constraints = [0.0] * rows if multipliers is None else multipliers[len(multipliers) - rows :].tolist()
    return {"training": losses.tolist(), "weights": weights.tolist(), "multipliers": constraints}
