"""What every part of the speech experiment starts from: recordings, a model, a training run with its measures."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ferero.files import write_whole
from ferero_lab.experiments.experiment import Context, Found
from ferero_lab.speech.batches import SpeechBatch
from ferero_lab.speech.corpora.corpus import LANGUAGES
from ferero_lab.speech.decode import greedy
from ferero_lab.speech.error_rate import error_rate
from ferero_lab.speech.experiment.losses import NAMES, held_out_sums, mixed
from ferero_lab.speech.experiment.plan import Levels, SpeechPlan, method_named, preference_of
from ferero_lab.speech.experiment.sets import Sets, load_sets
from ferero_lab.speech.experiment.train import Schedule, SpeechTraining
from ferero_lab.speech.recogniser import SIZES, Recogniser

__all__ = ["SpeechSetup", "keep_model", "measure", "start_key", "transcripts"]

_MODEL = "model.pt"


def start_key(seed: int) -> str:
    """The part that all methods begin from at a seed."""
    return f"pretrain-{seed}"


@dataclass(frozen=True)
class SpeechSetup:
    """A plan with its recordings, on a device.

    Attributes:
        plan: what is to be trained.
        sets: the recordings.
        device: where.
    """

    plan: SpeechPlan
    sets: Sets
    device: torch.device

    @classmethod
    def of(cls, plan: SpeechPlan, context: Context) -> SpeechSetup:
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
        """So many passes over the training set, with an evaluation of the held-out one every so many steps."""
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
        training = SpeechTraining(
            model,
            self.sets,
            preference_of(name, levels),
            method_named(name),
            schedule,
            seed=seed,
            device=self.device,
            levels=levels,
        )
        trajectory = training.run(checkpoint, advance)
        found: dict[str, Any] = {
            "method": name,
            "seed": seed,
            "rate": schedule.rate,
            "steps": schedule.steps,
            "levels": None if levels is None else vars(levels),
            "course": {key: value for key, value in vars(trajectory).items() if key != "seconds"},
            **self.measures(model),
            "seconds": trajectory.seconds,
        }
        checkpoint.unlink(missing_ok=True)
        return found

    def measures(self, model: Recogniser) -> dict[str, Any]:
        """On dev and test."""
        return {split: measure(model, self.sets, split, self.device) for split in ("dev", "test")}


def keep_model(model: Recogniser, folder: Path) -> None:
    """For `SpeechSetup.kept`."""
    content = io.BytesIO()
    torch.save(model.state_dict(), content)
    write_whole(folder / _MODEL, content.getbuffer())


Decoder = Callable[[Tensor, Tensor], list[list[int]]]
"""Log-probabilities (n, frames, 1 + symbols) and lengths (n,) to symbols."""


def measure(
    model: Recogniser, sets: Sets, split: str, device: torch.device, decoder: Decoder = greedy
) -> dict[str, Any]:
    """Losses, their standard errors, error rates in percent, their average and gap.

    The error rate of English is counted in words (WER), that of Mandarin in characters (CER), as the paper does; or in
    syllables, where it is written in them.
    """
    batches = sets.held_out(split, device)
    sums = held_out_sums(model, batches)
    found: dict[str, Any] = {
        "losses": sums.means(),
        "standard_errors": {name: sums.standard_error(name) for name in NAMES},
    }
    for language, several in batches.items():
        heard = transcripts(model, sets, language, split, several, decoder)
        alphabet, utterances = sets.alphabets[language], sets.prepared[language, split].utterances
        truths = [alphabet.reference(each) for each in utterances]
        rate = error_rate(truths, heard, "characters" if alphabet.unit == "characters" else "words")
        letters = error_rate(truths, heard, "characters")
        found[language] = {
            "error": 100 * rate.rate,
            "standard_error": None if rate.standard_error is None else 100 * rate.standard_error,
            "characters": 100 * letters.rate,
        }
    rates = [found[language]["error"] for language in ("zh", "en")]
    return {**found, "average": sum(rates) / 2, "gap": abs(rates[0] - rates[1])}


@torch.no_grad()
def transcripts(
    model: Recogniser, sets: Sets, language: str, split: str, batches: Sequence[SpeechBatch], decoder: Decoder = greedy
) -> list[str]:
    """What the model hears in each utterance of a split, in the order of the set."""
    was_training = model.training
    model.eval()
    heard = [""] * len(sets.prepared[language, split])
    for batch in batches:
        with mixed(batch.features.device):
            states, lengths = model.encode(batch.features, batch.lengths)
        found = decoder(model.log_probs(states, language), lengths)
        for index, symbols in zip(batch.index.tolist(), found, strict=True):
            heard[index] = sets.alphabets[language].decode(symbols)
    model.train(was_training)
    return heard
