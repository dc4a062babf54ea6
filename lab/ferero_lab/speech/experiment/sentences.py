"""What the models hear in a few sentences, and when: for the reader to look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import avg_pool1d

from ferero_lab.experiments.experiment import Context, Found
from ferero_lab.speech.alignment import align
from ferero_lab.speech.beam import beam
from ferero_lab.speech.corpora import RATE
from ferero_lab.speech.corpora.corpus import LANGUAGES
from ferero_lab.speech.experiment.bench import Bench, start_key
from ferero_lab.speech.experiment.losses import mixed
from ferero_lab.speech.experiment.measuring import measure
from ferero_lab.speech.experiment.plan import Plan
from ferero_lab.speech.experiment.search import best_key
from ferero_lab.speech.experiment.sets import Sets
from ferero_lab.speech.features import HOP
from ferero_lab.speech.greedy import greedy
from ferero_lab.speech.recogniser import Recogniser

__all__ = ["say_sentences"]

_SHOWN = (0.25, 0.5, 0.75)
_PICTURED = 0.1
"""Which utterances of the test set: their place in the order of lengths, whatever is heard in them."""
_COLUMNS = 150
_FRAME_SECONDS = 4 * HOP / RATE


def say_sentences(plan: Plan, context: Context) -> Found:
    """Transcripts of three test sentences a language, and the spectrogram and the alignment of one.

    The beam search, the spectrogram and the alignment are of FERERO's model of the first seed, or of the last of
    pre-training, linear scalarization and FERERO that there is.

    Returns:
        "listener", whose they are; "rates" on the test set for "greedy" and "beam" (None without listener);
        "sentences" and "pictures".
    """
    bench = Bench.of(plan, context)
    models = {
        name: bench.kept(context.folder_of(key)).eval()
        for name, key in _kept(context.found).items()
        if (context.folder_of(key) / "model.pt").exists()
    }
    if not models:
        return {"listener": None, "rates": None, "sentences": [], "pictures": []}
    listener = list(models)[-1]
    rates = {}
    for done, (how, decoder) in enumerate({"greedy": greedy, "beam": beam}.items(), start=1):
        rates[how] = _rates(measure(models[listener], bench.sets, "test", bench.device, decoder))
        context.advance(done, 3)
    sentences = [
        _sentence(models, listener, bench, language, index)
        for language in LANGUAGES
        for index in _chosen(bench.sets, language, _SHOWN)
    ]
    pictures = [
        _picture(models[listener], bench, language, _chosen(bench.sets, language, (_PICTURED,))[0])
        for language in LANGUAGES
    ]
    context.advance(3, 3)
    return {"listener": listener, "rates": rates, "sentences": sentences, "pictures": pictures}


def _kept(found: Mapping[str, Found]) -> dict[str, str]:
    """Whose sentences are shown, and the part that kept the model."""
    best = {name: best_key(name, found) for name in ("ls", "ferero")}
    return {"start": start_key(0), **{name: key for name, key in best.items() if key is not None}}


def _rates(measured: Mapping[str, Any]) -> dict[str, Any]:
    return {key: measured[key] for key in (*LANGUAGES, "average", "gap")}


def _chosen(sets: Sets, language: str, places: tuple[float, ...]) -> list[int]:
    """The utterances at these places in the order of lengths, each once."""
    order = sets.prepared[language, "test"].lengths.argsort(stable=True).tolist()
    return list(dict.fromkeys(order[int(place * (len(order) - 1))] for place in places))


def _sentence(
    models: Mapping[str, Recogniser], listener: str, bench: Bench, language: str, index: int
) -> dict[str, Any]:
    alphabet = bench.sets.alphabets[language]
    utterance = bench.sets.prepared[language, "test"].utterances[index]
    log_probs = {name: _log_probs(model, bench, language, index) for name, model in models.items()}
    lengths = torch.tensor([len(log_probs[listener])])
    return {
        "language": language,
        "name": utterance.name,
        "speaker": utterance.speaker,
        "truth": alphabet.reference(utterance),
        "heard": {name: alphabet.decode(greedy(each[None], lengths)[0]) for name, each in log_probs.items()},
        "beam": alphabet.decode(beam(log_probs[listener][None], lengths)[0]),
    }


def _picture(model: Recogniser, bench: Bench, language: str, index: int) -> dict[str, Any]:
    """The spectrogram thinned to so many columns, and the probability of each symbol of the target over time."""
    prepared, alphabet = bench.sets.prepared[language, "test"], bench.sets.alphabets[language]
    features = prepared.store[index].float()
    target = prepared.targets[index].tolist()
    log_probs = _log_probs(model, bench, language, index)
    found = align(log_probs, target)
    group = -(-len(features) // _COLUMNS)
    thinned = avg_pool1d(features.T[None], group, ceil_mode=True)[0]
    return {
        "language": language,
        "name": prepared.utterances[index].name,
        "truth": alphabet.reference(prepared.utterances[index]),
        "heard": alphabet.decode(greedy(log_probs[None], torch.tensor([len(log_probs)]))[0]),
        "column_seconds": group * HOP / RATE,
        "spectrogram": _rounded(thinned, 2),
        "frame_seconds": _FRAME_SECONDS,
        "symbols": [alphabet.symbols[number - 1] for number in target],
        "frames": [list(pair) for pair in found.frames],
        "probabilities": _rounded(log_probs[:, target].exp().T, 3),
        "score": found.total / len(target),
    }


@torch.no_grad()
def _log_probs(model: Recogniser, bench: Bench, language: str, index: int) -> Tensor:
    """Of one test utterance by itself, (frames, 1 + symbols), on the CPU."""
    features = bench.sets.prepared[language, "test"].store[index].float().to(bench.device)[None]
    lengths = torch.tensor([features.shape[1]], device=bench.device)
    with mixed(bench.device):
        states, short = model.encode(features, lengths)
    return model.log_probs(states, language)[0, : int(short)].cpu()


def _rounded(values: Tensor, places: int) -> list[list[float]]:
    return [[round(value, places) for value in row] for row in values.tolist()]
