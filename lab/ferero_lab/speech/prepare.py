"""From recordings to what can be learned from: features, targets, and the names of those that are of no use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from ferero.errors import InputError
from ferero_lab.speech.corpora.alphabet import Alphabet
from ferero_lab.speech.corpora.audio import AudioError, waveform
from ferero_lab.speech.corpora.corpus import Skipped, SkippedCollector, Utterance
from ferero_lab.speech.ctc import frames_needed
from ferero_lab.speech.feature_store import FeatureStore, Made, digest, stored
from ferero_lab.speech.features import SETTINGS, WINDOW, encoder_frames, log_mel, trim

__all__ = ["TOO_LONG", "TOO_SHORT", "UNREADABLE", "Prepared", "prepare"]

UNREADABLE = "audio unreadable"
TOO_SHORT = "audio too short for one frame"
TOO_LONG = "target longer than its input"


@dataclass(frozen=True, eq=False)
class Prepared:
    """A set of utterances to learn from or to be measured on, of one language and one split as a rule.

    Attributes:
        store: their features.
        targets: for each the symbols (symbols,), int64, from 1 upwards.
        utterances: the recordings they come from, in the same order.
        skipped: those that were left out, by reason.
    """

    store: FeatureStore
    targets: list[Tensor]
    utterances: tuple[Utterance, ...]
    skipped: Skipped = field(default_factory=Skipped)

    def __len__(self) -> int:
        """How many utterances."""
        return len(self.utterances)

    @property
    def lengths(self) -> Tensor:
        """(n,), in frames of features."""
        return self.store.lengths

    def subset(self, indices: Sequence[int]) -> Prepared:
        """Some of the utterances, in that order; the features are shared, and nothing is skipped."""
        chosen = [int(each) for each in indices]
        targets, utterances = [self.targets[each] for each in chosen], [self.utterances[each] for each in chosen]
        return Prepared(self.store.subset(chosen), targets, tuple(utterances))


def prepare(
    utterances: Sequence[Utterance],
    alphabet_of: Mapping[str, Alphabet],
    *,
    cache: Path | None,
    trimmed: bool = False,
    bins: int = 80,
    progress: Callable[[int, int], None] | None = None,
) -> Prepared:
    """Features and targets of the utterances; what cannot be used is left out and named.

    Left out are: audio that cannot be read or is shorter than one window, no transcript, characters outside a closed
    alphabet (English; an open one writes OTHER for them), and a target for which the encoder makes too few frames.

    Args:
        utterances: of one language and one split; their names differ.
        alphabet_of: for each language its symbols.
        cache: a folder for the features, which are made once for the same audio and settings; None to keep nothing.
        trimmed: cut off the silence at both ends first.
        bins: mel bands.
        progress: told (utterances done, utterances in all), when features are made.

    Raises:
        InputError: for two utterances of one name.
    """
    given = {utterance.name: utterance for utterance in utterances}
    if len(given) < len(utterances):
        twice = next(name for name in given if sum(each.name == name for each in utterances) > 1)
        raise InputError(f"utterances: expected names that differ, found {twice!r} more than once.")
    workers = min(8, os.cpu_count() or 1)
    with ThreadPoolExecutor(workers) as pool:

        def make() -> Iterator[Made]:
            made = pool.map(lambda utterance: _features(utterance, trimmed, bins), utterances)
            for done, (utterance, result) in enumerate(zip(utterances, made, strict=True), start=1):
                yield utterance.name, result
                if progress is not None:
                    progress(done, len(utterances))

        key = "" if cache is None else _key(utterances, pool, f"{SETTINGS}; bins {bins}; trimmed {trimmed}")
        store = stored(cache, key, bins, make)
    return _chosen(store, given, alphabet_of)


def _key(utterances: Sequence[Utterance], pool: ThreadPoolExecutor, settings: str) -> str:
    contents = pool.map(lambda utterance: digest([utterance.name, _bytes(utterance)]), utterances)
    return digest([settings, *contents])


def _bytes(utterance: Utterance) -> bytes:
    """The audio file, or nothing where it cannot be read, which is told of later."""
    try:
        return utterance.read()
    except OSError:
        return b""


def _features(utterance: Utterance, trimmed: bool, bins: int) -> Tensor | str:
    """The features of an utterance, or why it has none."""
    try:
        sound = waveform(utterance)
    except AudioError:
        return UNREADABLE
    if trimmed:
        sound = trim(sound)
    return log_mel(sound, bins) if len(sound) >= WINDOW else TOO_SHORT


def _chosen(store: FeatureStore, given: Mapping[str, Utterance], alphabet_of: Mapping[str, Alphabet]) -> Prepared:
    """Those of the store that have a target that fits."""
    kept: list[int] = []
    targets: list[Tensor] = []
    left_out = SkippedCollector()
    for index, (name, frames) in enumerate(zip(store.names, store.lengths.tolist(), strict=True)):
        alphabet = alphabet_of[given[name].language]
        objection = alphabet.objection(given[name])
        target = torch.tensor(alphabet.encode(given[name])[0], dtype=torch.int64)
        if objection is not None:
            left_out.add(objection, name)
        elif int(frames_needed(target[None], torch.tensor([len(target)]))) > encoder_frames(frames):
            left_out.add(TOO_LONG, name)
        else:
            kept.append(index)
            targets.append(target)
    recordings = tuple(given[store.names[index]] for index in kept)
    return Prepared(store.subset(kept), targets, recordings, store.skipped + left_out.skipped())
