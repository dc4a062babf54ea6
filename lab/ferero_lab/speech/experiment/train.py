"""One training run on two languages, steered by loss values or by gradients; resumes exactly from a checkpoint."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

import ferero
from ferero.errors import NonFiniteError
from ferero.files import load_checkpoint, save_checkpoint
from ferero.methods import Method
from ferero.preference import Preference
from ferero_lab.speech.experiment.losses import NAMES, Given, draw, held_out_sums, training_losses
from ferero_lab.speech.experiment.plan import Levels
from ferero_lab.speech.experiment.sets import Sets
from ferero_lab.speech.recogniser import Recogniser

__all__ = ["LATE", "Schedule", "SpeechTraining", "driver_for"]

_SAVE_AFTER = 60.0
_CLIP = 1.0
_MEMORY = 20.0

LATE = 2 / 3
"""From which share of the steps on a model may be kept for holding its levels: the rate has fallen by then."""


@dataclass(frozen=True)
class Schedule:
    """How long to train, and how fast.

    The rate rises linearly over the first ``warm_up`` share of the steps, and falls linearly to ``last`` of itself.

    Attributes:
        steps: of the optimizer.
        rate: AdamW's largest step.
        seconds: of speech in a step.
        every: steps between two evaluations of the held-out losses.
        tempo: largest change of tempo.
        pitch: largest change of pitch.
        warm_up: share of the steps.
        last: share of the rate.
    """

    steps: int
    rate: float
    seconds: float
    every: int
    tempo: float
    pitch: float
    warm_up: float = 0.1
    last: float = 0.05

    def factor(self, step: int) -> float:
        """Of the rate, at a step from 0."""
        rising = max(1.0, self.warm_up * self.steps)
        if step < rising:
            return min(1.0, (step + 1) / rising)
        return 1 - (1 - self.last) * (step - rising) / max(1.0, self.steps - rising)


@dataclass
class SpeechTrajectory:
    """A row for each evaluation on the held-out set.

    Attributes:
        steps: when.
        held_out: the losses there, (3,) each.
        training: the losses on the training batches, denoised, (3,) each.
        weights: of the losses, (3,) each.
        multipliers: of the constraints as the preference lists them.
        kept: the step whose weights the model has in the end.
        seconds: of all steps, evaluations included.
    """

    steps: list[int] = field(default_factory=list)
    held_out: list[list[float]] = field(default_factory=list)
    training: list[list[float]] = field(default_factory=list)
    weights: list[list[float]] = field(default_factory=list)
    multipliers: list[list[float]] = field(default_factory=list)
    kept: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class _KeptWeights:
    """The weights at an evaluation."""

    step: int
    weights: dict[str, Tensor]


class SpeechTraining:
    """One run.

    It ends with the last weights; under levels with those of the last evaluation that holds them, if one in the last
    third of the steps does.

    Args:
        model: is trained in place.
        sets: the recordings; the dev set is evaluated.
        preference: over the three losses.
        method: by which; one that reads losses is driven by the held-out ones.
        schedule: how long.
        seed: of batches, augmentation and dropout.
        device: where.
        levels: of the constraints on the held-out losses, with the floors that are subtracted from each loss before
            the method sees it; None for no constraints.
    """

    def __init__(
        self,
        model: Recogniser,
        sets: Sets,
        preference: Preference,
        method: Method[Any],
        schedule: Schedule,
        *,
        seed: int,
        device: torch.device,
        levels: Levels | None = None,
    ) -> None:
        self.model, self.schedule, self.device = model.to(device), schedule, device
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=schedule.rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True
        )
        self._rates = torch.optim.lr_scheduler.LambdaLR(self.optimizer, schedule.factor)
        self._streams = sets.streams(schedule.seconds, seed, device)
        self._held_out = sets.held_out("dev", device)
        self._generator = torch.Generator().manual_seed(seed)
        self._belongs = {
            "schedule": str(schedule),
            "seed": str(seed),
            "method": str(method),
            "preference": str(preference),
            "model": f"{sum(each.numel() for each in model.parameters())} parameters",
        }
        floors = (0.0,) * preference.m if levels is None else levels.floors
        self.driver = driver_for(self.model, self.optimizer, preference, method, floors)
        self.trajectory, self.done = SpeechTrajectory(), 0
        self._levels = levels
        self._kept: _KeptWeights | None = None
        torch.manual_seed(seed)

    def run(
        self, checkpoint: Path | None = None, advance: Callable[[int, int], None] = lambda *_: None
    ) -> SpeechTrajectory:
        """All steps that are left.

        Args:
            checkpoint: a file that is written every minute, and read first if it is there.
            advance: told (steps done, steps in all).

        Raises:
            NonFiniteError: when a loss is NaN or infinite.
            InputError: a checkpoint that is damaged or of another run.
        """
        if checkpoint is not None:
            self.load(checkpoint)
        began = saved = time.monotonic()
        before = self.trajectory.seconds
        self.model.train()
        while self.done < self.schedule.steps:
            if self.done % self.schedule.every == 0:
                self._evaluate()
                advance(self.done, self.schedule.steps)
            self.step()
            self.trajectory.seconds = before + time.monotonic() - began
            if checkpoint is not None and time.monotonic() - saved > _SAVE_AFTER:
                self.save(checkpoint)
                saved = time.monotonic()
        self._evaluate()
        self._end()
        self.trajectory.seconds = before + time.monotonic() - began
        advance(self.done, self.schedule.steps)
        return self.trajectory

    def step(self) -> None:
        """One optimizer step."""
        given = draw(
            {language: stream.next() for language, stream in self._streams.items()},
            self._generator,
            self.model.contrast.steps,
            tempo=self.schedule.tempo,
            pitch=self.schedule.pitch,
        )
        self.driver.step(given)
        self._rates.step()
        self.done += 1

    def _evaluate(self) -> None:
        losses = held_out_sums(self.model, self._held_out).means()
        if not all(map(math.isfinite, losses.values())):
            raise NonFiniteError(
                f"the held-out losses after {self.done} steps: expected finite numbers, found {losses}; lower the rate."
            )
        self.driver.observe(losses)
        self.trajectory.steps.append(self.done)
        self.trajectory.held_out.append([losses[name] for name in NAMES])
        for name, values in self.driver.told().items():
            getattr(self.trajectory, name).append(values)
        is_late = self.done >= LATE * self.schedule.steps
        if is_late and self._levels is not None and self._levels.failure(losses) == 0:
            self._kept = _KeptWeights(
                self.done, {name: value.clone() for name, value in self.model.state_dict().items()}
            )

    def _end(self) -> None:
        self.trajectory.kept = self.done if self._kept is None else self._kept.step
        if self._kept is not None:
            self.model.load_state_dict(self._kept.weights)

    def save(self, path: Path) -> None:
        """Everything that the next step depends on."""
        state = {
            "done": self.done,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rates": self._rates.state_dict(),
            "driver": self.driver.state_dict(),
            "streams": {language: stream.state_dict() for language, stream in self._streams.items()},
            "generator": self._generator.get_state(),
            "random": torch.get_rng_state(),
            "random_cuda": torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None,
            "course": vars(self.trajectory),
            "kept": None if self._kept is None else vars(self._kept),
        }
        save_checkpoint(path, self._belongs, state)

    def load(self, path: Path) -> None:
        """Go on where `save` was called, if it was.

        Raises:
            InputError: a file that is damaged, or of a run with another schedule, seed, method, preference or model.
        """
        state = load_checkpoint(path, self._belongs)
        if state is None:
            return
        self.done = state["done"]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self._rates.load_state_dict(state["rates"])
        self.driver.load_state_dict(state["driver"])
        for language, stream in self._streams.items():
            stream.load_state_dict(state["streams"][language])
        self._generator.set_state(state["generator"])
        torch.set_rng_state(state["random"])
        if state["random_cuda"] is not None:
            torch.cuda.set_rng_state(state["random_cuda"], self.device)
        self.trajectory = SpeechTrajectory(**state["course"])
        self._kept = None if state["kept"] is None else _KeptWeights(**state["kept"])


class SpeechDriver(Protocol):
    """Makes optimizer steps, and reports the weights."""

    def step(self, given: Given) -> None:
        """One optimizer step."""

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
) -> SpeechDriver:
    """`ferero.Steer` where the method reads losses only, else `ferero.Stepper`; it gets losses less floors (3,)."""
    kind = _LossDriver if method.requires <= {"losses"} else _GradientDriver
    return kind(model, optimizer, preference, method, floors)


class _LossDriver:
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


class _GradientDriver:
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
