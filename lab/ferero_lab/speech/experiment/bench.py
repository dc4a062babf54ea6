"""What every part of the speech experiment starts from: recordings, a model, a training run with its measures."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ferero.files import write_whole
from ferero_lab.experiments.experiment import Context, Found
from ferero_lab.speech.corpora.corpus import LANGUAGES
from ferero_lab.speech.encoder import SIZES
from ferero_lab.speech.experiment.measuring import measure
from ferero_lab.speech.experiment.plan import Plan
from ferero_lab.speech.experiment.sets import Sets, load_sets
from ferero_lab.speech.experiment.training import Schedule, Training
from ferero_lab.speech.experiment.wishes import Levels, method_named, preference_of
from ferero_lab.speech.recogniser import Recogniser

__all__ = ["Bench", "keep_model", "start_key"]

_MODEL = "model.pt"


def start_key(seed: int) -> str:
    """The part that all methods begin from at a seed."""
    return f"pretrain-{seed}"


@dataclass(frozen=True)
class Bench:
    """A plan with its recordings, on a device.

    Attributes:
        plan: what is to be trained.
        sets: the recordings.
        device: where.
    """

    plan: Plan
    sets: Sets
    device: torch.device

    @classmethod
    def of(cls, plan: Plan, context: Context) -> Bench:
        """For a part; features are kept in the run's folder."""
        sets = load_sets(plan, context.settings, context.folder_of("features"))
        return cls(plan, sets, torch.device(context.settings.device))

    def fresh(self, seed: int) -> Recogniser:
        """A model with random weights."""
        torch.manual_seed(seed)
        size = replace(SIZES[self.plan.size], dropout=self.plan.dropout)
        return Recogniser(size, self.sets.symbols(), future_steps=self.plan.future).to(self.device)

    def pretrained(self, context: Context, seed: int) -> Recogniser:
        """The model that pre-training gave."""
        return self.kept(context.folder_of(start_key(seed)))

    def kept(self, folder: Path) -> Recogniser:
        """A model that `keep_model` put into a part's folder."""
        model = self.fresh(0)
        model.load_state_dict(torch.load(folder / _MODEL, map_location=self.device, weights_only=True))
        return model

    def schedule(self, epochs: int, rate: float, *, every: int, warm_up: float = 0.1) -> Schedule:
        """So many passes over the training set, with a look at the held-out one after so many steps."""
        plan = self.plan
        streams = self.sets.streams(plan.seconds, 0, torch.device("cpu"))
        per_epoch = max(streams[language].per_epoch for language in LANGUAGES)
        return Schedule(
            steps=max(1, math.ceil(epochs * per_epoch)),
            rate=rate,
            seconds=plan.seconds,
            every=every,
            warm_up=warm_up,
            tempo=plan.tempo,
            pitch=plan.pitch,
        )

    def train(
        self,
        model: Recogniser,
        name: str,
        schedule: Schedule,
        *,
        seed: int,
        levels: Levels | None = None,
        checkpoint: Path,
        advance: Callable[[int, int], None],
    ) -> Found:
        """One run by the method of that name, and what came of it: losses and error rates on dev and test."""
        training = Training(
            model,
            self.sets,
            preference_of(name, levels),
            method_named(name),
            schedule,
            seed=seed,
            device=self.device,
            levels=levels,
        )
        course = training.run(checkpoint, advance)
        found: dict[str, Any] = {
            "method": name,
            "seed": seed,
            "rate": schedule.rate,
            "steps": schedule.steps,
            "levels": None if levels is None else vars(levels),
            "course": {key: value for key, value in vars(course).items() if key != "seconds"},
            **self.measures(model),
            "seconds": course.seconds,
        }
        checkpoint.unlink(missing_ok=True)
        return found

    def measures(self, model: Recogniser) -> dict[str, Any]:
        """On dev and test."""
        return {split: measure(model, self.sets, split, self.device) for split in ("dev", "test")}


def keep_model(model: Recogniser, folder: Path) -> None:
    """For `Bench.kept`."""
    content = io.BytesIO()
    torch.save(model.state_dict(), content)
    write_whole(folder / _MODEL, content.getbuffer())
