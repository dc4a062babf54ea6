"""Padded batches of utterances of about one length, so that little of them is padding."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ferero.errors import InputError
from ferero_lab.speech.prepare import Prepared

__all__ = ["SpeechBatch", "SpeechBatches", "batches_of"]


@dataclass(frozen=True)
class SpeechBatch:
    """Several utterances of one language.

    Attributes:
        features: (n, frames, bins), log-mel, standardised, zeros after the end.
        lengths: (n,), in frames.
        targets: (n, symbols), from 1 upwards, zeros after the end (0 is CTC's blank).
        target_lengths: (n,).
        index: (n,), which utterances of the set they are.
    """

    features: Tensor
    lengths: Tensor
    targets: Tensor
    target_lengths: Tensor
    index: Tensor

    def __len__(self) -> int:
        """How many utterances."""
        return len(self.lengths)

    def to(self, device: torch.device | str) -> SpeechBatch:
        """The same on another device."""
        return SpeechBatch(*(getattr(self, each.name).to(device, non_blocking=True) for each in fields(self)))


_JITTER = 0.1


class SpeechBatches:
    """An endless stream of batches; every epoch has each utterance once.

    An epoch sorts the utterances by their length times 1 + 0.1 u, with u uniform from 0 to 1 and new in each epoch,
    cuts where the padded batch would pass the budget, and takes the batches in random order. The order depends on
    the seed and the epoch alone, so that the place in it is all the state there is.

    Args:
        prepared: the set.
        frames_per_batch: the most frames of features in a batch, padding included. An utterance that is longer is a
            batch alone.
        seed: of the order.
        shuffle: False for the same batches in every epoch, from the shortest utterances to the longest.
        device: where the batches are made.
        resident: keep all features on the device and gather there; False to copy each batch to it.

    Raises:
        InputError: for a set without utterances, or a budget under one frame.
    """

    def __init__(
        self,
        prepared: Prepared,
        frames_per_batch: int,
        *,
        seed: int,
        shuffle: bool = True,
        device: torch.device | str = "cpu",
        resident: bool = True,
    ) -> None:
        if len(prepared) == 0:
            raise InputError("prepared: expected at least one utterance, found none.")
        _check_budget(frames_per_batch)
        self._gather = _Gather(prepared, torch.device(device), resident)
        self._budget, self._seed, self._shuffle = frames_per_batch, seed, shuffle
        self._lengths = prepared.lengths
        self._epoch = self._position = 0
        self._plan = self._planned()

    def __iter__(self) -> SpeechBatches:
        """Itself."""
        return self

    def __next__(self) -> SpeechBatch:
        """The next batch."""
        return self.next()

    @property
    def per_epoch(self) -> int:
        """How many batches the current epoch has; it may differ by a few from one to the next."""
        return len(self._plan)

    @property
    def epoch(self) -> int:
        """How many epochs are complete."""
        return self._epoch + (self._position == len(self._plan))

    def next(self) -> SpeechBatch:
        """The next batch, of this epoch or the first of another one."""
        if self._position == len(self._plan):
            self._epoch, self._position = self._epoch + 1, 0
            self._plan = self._planned()
        index = self._plan[self._position]
        self._position += 1
        return self._gather(index)

    def state_dict(self) -> dict[str, Any]:
        """The place in the stream, and what it is a place in."""
        return {"epoch": self._epoch, "position": self._position, **self._identity()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where another stream of the same set, budget and seed was.

        Raises:
            InputError: when the state is that of another stream.
        """
        found = {name: state.get(name) for name in self._identity()}
        if found != self._identity():
            raise InputError(f"state: expected that of a stream with {self._identity()}, found {found}.")
        self._epoch = int(state["epoch"])
        self._plan = self._planned()
        self._position = int(state["position"])

    def _identity(self) -> dict[str, int | bool]:
        return {
            "utterances": len(self._lengths),
            "frames": int(self._lengths.sum()),
            "frames_per_batch": self._budget,
            "seed": self._seed,
            "shuffle": self._shuffle,
        }

    def _planned(self) -> list[Tensor]:
        """The batches of this epoch."""
        if not self._shuffle:
            return _cut(self._lengths, self._lengths.argsort(stable=True), self._budget)
        generator = torch.Generator().manual_seed((self._seed * 1_000_003 + self._epoch) % 2**63)
        jittered = self._lengths * (1 + _JITTER * torch.rand(len(self._lengths), generator=generator))
        plan = _cut(self._lengths, jittered.argsort(stable=True), self._budget)
        return [plan[each] for each in torch.randperm(len(plan), generator=generator).tolist()]


def batches_of(prepared: Prepared, frames_per_batch: int, device: torch.device | str = "cpu") -> list[SpeechBatch]:
    """Every utterance exactly once, from the shortest to the longest, for evaluation.

    Args:
        prepared: the set; an empty one has no batches.
        frames_per_batch: the most frames of features in a batch, padding included; see ``SpeechBatches``.
        device: where the batches are.

    Raises:
        InputError: for a budget under one frame.
    """
    _check_budget(frames_per_batch)
    gather = _Gather(prepared, torch.device(device), resident=False)
    return [gather(index) for index in _cut(prepared.lengths, prepared.lengths.argsort(stable=True), frames_per_batch)]


class _Gather:
    """Makes batches out of a set, on the device where the flat features are."""

    def __init__(self, prepared: Prepared, device: torch.device, resident: bool) -> None:
        store = prepared.store.compact() if resident and device.type != "cpu" else prepared.store
        home = device if resident else torch.device("cpu")
        self._device, self._home = device, home
        self._frames = prepared.lengths
        self._symbols = torch.tensor([len(target) for target in prepared.targets], dtype=torch.int64)
        self._values = store.values.to(home)
        self._starts, self._lengths = store.starts.to(home), store.lengths.to(home)
        self._target_lengths = self._symbols.to(home)
        targets = prepared.targets or [torch.zeros(0, dtype=torch.int64)]
        self._targets = pad_sequence(targets, batch_first=True).to(home)

    def __call__(self, index: Tensor) -> SpeechBatch:
        """The batch of the utterances (n,), given on the CPU."""
        frames, symbols = int(self._frames[index].max()), int(self._symbols[index].max())
        if self._home.type == "cuda":
            index = index.pin_memory()
        chosen = index.to(self._home, non_blocking=True)
        lengths = self._lengths[chosen]
        time = torch.arange(frames, device=self._home)
        inside = time < lengths[:, None]
        place = (self._starts[chosen][:, None] + time).where(inside, 0)
        features = self._values[place].float().masked_fill(~inside[..., None], 0)
        targets, target_lengths = self._targets[chosen, :symbols], self._target_lengths[chosen]
        return SpeechBatch(features, lengths, targets, target_lengths, chosen).to(self._device)


def _cut(lengths: Tensor, order: Tensor, budget: int) -> list[Tensor]:
    """The order, cut before each utterance with which the padded batch would pass the budget."""
    cuts, longest, count = [], 0, 0
    for place, length in enumerate(lengths[order].tolist()):
        longest, count = max(longest, length), count + 1
        if count > 1 and longest * count > budget:
            cuts.append(place)
            longest, count = length, 1
    return [part for part in order.tensor_split(cuts) if len(part)]


def _check_budget(frames_per_batch: int) -> None:
    if frames_per_batch < 1:
        raise InputError(f"frames_per_batch: expected a positive number of frames, found {frames_per_batch}.")
