"""Trains a recogniser on two languages at once, steered; can be broken off anywhere and taken up again exactly."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ferero.errors import NonFiniteError
from ferero.files import load_checkpoint, save_checkpoint
from ferero.methods import Method
from ferero.preference import Preference
from ferero_lab.speech.experiment.drivers import driver_for
from ferero_lab.speech.experiment.losses import NAMES, draw, held_out_sums
from ferero_lab.speech.experiment.sets import Sets
from ferero_lab.speech.experiment.wishes import Levels
from ferero_lab.speech.recogniser import Recogniser

__all__ = ["LATE", "Course", "Schedule", "Training"]

_SAVE_AFTER = 60.0

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
        every: steps between two looks at the held-out losses.
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
class Course:
    """What was seen on the way, a row for each look at the held-out set.

    Attributes:
        steps: when.
        held_out: the losses there, (3,) each.
        training: the losses on the training batches, denoised, (3,) each.
        weights: of the losses, (3,) each.
        multipliers: of the constraints as the preference lists them.
        kept: the step whose weights the model has in the end.
        seconds: of all steps, looks included.
    """

    steps: list[int] = field(default_factory=list)
    held_out: list[list[float]] = field(default_factory=list)
    training: list[list[float]] = field(default_factory=list)
    weights: list[list[float]] = field(default_factory=list)
    multipliers: list[list[float]] = field(default_factory=list)
    kept: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class _Kept:
    """The weights at a look."""

    step: int
    weights: dict[str, Tensor]


class Training:
    """One run.

    It ends with the last weights; under levels with those of the last look that holds them, if one in the last third of
    the steps does.

    Args:
        model: is trained in place.
        sets: the recordings; the dev set is looked at.
        preference: what is wanted of the three losses.
        method: by which; one that reads losses is driven by the held-out ones.
        schedule: how long.
        seed: of batches, augmentation and dropout.
        device: where.
        levels: what the preference asks of the held-out losses, with the floors that are taken off each loss before
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
        self.course, self.done = Course(), 0
        self._levels = levels
        self._kept: _Kept | None = None
        torch.manual_seed(seed)

    def run(self, checkpoint: Path | None = None, advance: Callable[[int, int], None] = lambda *_: None) -> Course:
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
        before = self.course.seconds
        self.model.train()
        while self.done < self.schedule.steps:
            if self.done % self.schedule.every == 0:
                self._look()
                advance(self.done, self.schedule.steps)
            self.step()
            self.course.seconds = before + time.monotonic() - began
            if checkpoint is not None and time.monotonic() - saved > _SAVE_AFTER:
                self.save(checkpoint)
                saved = time.monotonic()
        self._look()
        self._end()
        self.course.seconds = before + time.monotonic() - began
        advance(self.done, self.schedule.steps)
        return self.course

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

    def _look(self) -> None:
        losses = held_out_sums(self.model, self._held_out).means()
        if not all(map(math.isfinite, losses.values())):
            raise NonFiniteError(
                f"the held-out losses after {self.done} steps: expected finite numbers, found {losses}; lower the rate."
            )
        self.driver.observe(losses)
        self.course.steps.append(self.done)
        self.course.held_out.append([losses[name] for name in NAMES])
        for name, values in self.driver.told().items():
            getattr(self.course, name).append(values)
        is_late = self.done >= LATE * self.schedule.steps
        if is_late and self._levels is not None and self._levels.failure(losses) == 0:
            self._kept = _Kept(self.done, {name: value.clone() for name, value in self.model.state_dict().items()})

    def _end(self) -> None:
        self.course.kept = self.done if self._kept is None else self._kept.step
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
            "course": vars(self.course),
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
        self.course = Course(**state["course"])
        self._kept = None if state["kept"] is None else _Kept(**state["kept"])
