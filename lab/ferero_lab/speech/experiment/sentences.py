"""Test sentences as the models hear them: transcripts, a spectrogram, an alignment; computed and reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import avg_pool1d

from ferero_lab.experiments.experiment import Context, Found, Section
from ferero_lab.report.panels import Heat, Mark, Panel, Table
from ferero_lab.speech.corpora import RATE
from ferero_lab.speech.corpora.corpus import LANGUAGES
from ferero_lab.speech.decode import align, beam, greedy
from ferero_lab.speech.experiment.losses import mixed
from ferero_lab.speech.experiment.plan import TITLES, SpeechPlan
from ferero_lab.speech.experiment.search import best_key
from ferero_lab.speech.experiment.sections import LANGUAGE
from ferero_lab.speech.experiment.sets import Sets
from ferero_lab.speech.experiment.speech_setup import SpeechSetup, measure, start_key
from ferero_lab.speech.features import HOP
from ferero_lab.speech.recogniser import Recogniser

__all__ = ["say_sentences", "sentence_sections"]

_SHOWN = (0.25, 0.5, 0.75)
_PICTURED = 0.1
"""Which utterances of the test set: their place in the order of lengths, whatever is heard in them."""
_COLUMNS = 150
_FRAME_SECONDS = 4 * HOP / RATE


def say_sentences(plan: SpeechPlan, context: Context) -> Found:
    """Transcripts of three test sentences a language, and the spectrogram and the alignment of one.

    The beam search, the spectrogram and the alignment are of FERERO's model of the first seed, or of the last of
    pre-training, linear scalarization and FERERO that there is.

    Returns:
        "listener", whose they are; "rates" on the test set for "greedy" and "beam" (None without listener);
        "sentences" and "pictures".
    """
    setup = SpeechSetup.of(plan, context)
    models = {
        name: setup.kept(context.folder_of(key)).eval()
        for name, key in _kept(context.found).items()
        if (context.folder_of(key) / "model.pt").exists()
    }
    if not models:
        return {"listener": None, "rates": None, "sentences": [], "pictures": []}
    listener = list(models)[-1]
    rates = {}
    for done, (how, decoder) in enumerate({"greedy": greedy, "beam": beam}.items(), start=1):
        rates[how] = _rates(measure(models[listener], setup.sets, "test", setup.device, decoder))
        context.advance(done, 3)
    sentences = [
        _sentence(models, listener, setup, language, index)
        for language in LANGUAGES
        for index in _chosen(setup.sets, language, _SHOWN)
    ]
    pictures = [
        _picture(models[listener], setup, language, _chosen(setup.sets, language, (_PICTURED,))[0])
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
    models: Mapping[str, Recogniser], listener: str, setup: SpeechSetup, language: str, index: int
) -> dict[str, Any]:
    alphabet = setup.sets.alphabets[language]
    utterance = setup.sets.prepared[language, "test"].utterances[index]
    log_probs = {name: _log_probs(model, setup, language, index) for name, model in models.items()}
    lengths = torch.tensor([len(log_probs[listener])])
    return {
        "language": language,
        "name": utterance.name,
        "speaker": utterance.speaker,
        "truth": alphabet.reference(utterance),
        "heard": {name: alphabet.decode(greedy(each[None], lengths)[0]) for name, each in log_probs.items()},
        "beam": alphabet.decode(beam(log_probs[listener][None], lengths)[0]),
    }


def _picture(model: Recogniser, setup: SpeechSetup, language: str, index: int) -> dict[str, Any]:
    """The spectrogram thinned to so many columns, and the probability of each symbol of the target over time."""
    prepared, alphabet = setup.sets.prepared[language, "test"], setup.sets.alphabets[language]
    features = prepared.store[index].float()
    target = prepared.targets[index].tolist()
    log_probs = _log_probs(model, setup, language, index)
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
def _log_probs(model: Recogniser, setup: SpeechSetup, language: str, index: int) -> Tensor:
    """Of one test utterance by itself, (frames, 1 + symbols), on the CPU."""
    features = setup.sets.prepared[language, "test"].store[index].float().to(setup.device)[None]
    lengths = torch.tensor([features.shape[1]], device=setup.device)
    with mixed(setup.device):
        states, short = model.encode(features, lengths)
    return model.log_probs(states, language)[0, : int(short)].cpu()


def _rounded(values: Tensor, places: int) -> list[list[float]]:
    return [[round(value, places) for value in row] for row in values.tolist()]


_NOTHING = "(nothing)"


def sentence_sections(plan: SpeechPlan, found: Found) -> list[Section]:
    """What the models hear, and one picture of each kind a language; none where there was no model."""
    if not found["sentences"]:
        return []
    whose = TITLES[found["listener"]]
    tables = [_transcripts(found, language) for language in LANGUAGE]
    text = (
        "Test sentences, chosen by their lengths alone: at a quarter, the half and three quarters of the order from "
        "the shortest to the longest. Models of the first seed; without a language model."
    )
    heard = Section("What is heard", text, [], [*filter(None, tables), _search_table(plan, found, whose)])
    return [heard, *(_picture_section(picture, whose) for picture in found["pictures"])]


def _transcripts(found: Found, language: str) -> Table | None:
    sentences = [each for each in found["sentences"] if each["language"] == language]
    if not sentences:
        return None
    models = list(sentences[0]["heard"])
    rows = []
    for each in sentences:
        rows.append([f"truth ({each['name']})", each["truth"]])
        rows += [[TITLES[name], each["heard"][name] or _NOTHING] for name in models]
        rows.append([f"{TITLES[found['listener']]}, beam", each["beam"] or _NOTHING])
    return Table(("", "text"), rows, LANGUAGE[language])


def _search_table(plan: SpeechPlan, found: Found, whose: str) -> Table:
    header = (whose, "English WER", plan.mandarin_errors, "average", "gap")
    rows = [
        [
            how,
            *(_with_error(rates[language]) for language in ("en", "zh")),
            f"{rates['average']:.2f}",
            f"{rates['gap']:.2f}",
        ]
        for how, rates in found["rates"].items()
    ]
    note = "Whole test set, first seed, in percent; in brackets standard errors over utterances. Eight prefixes a beam."
    return Table(header, rows, "Greedy decoding and beam search", note)


def _with_error(rate: Mapping[str, Any]) -> str:
    error = rate["standard_error"]
    return f"{rate['error']:.2f}" + ("" if error is None else f" ({error:.2f})")


def _picture_section(picture: Mapping[str, Any], whose: str) -> Section:
    panels: list[Panel] = [_spectrogram(picture), _alignment(picture)]
    text = (
        f"{picture['truth']}\n\n{whose} hears: {picture['heard'] or _NOTHING}. The lines are where the likeliest path "
        f"of the truth begins {'each character' if picture['language'] == 'zh' else 'each word'}; the dots are the "
        "frames in which that path says a symbol, over the probability of the symbol. Where the dots lie on dark "
        "ground, the model hears something else."
    )
    return Section(f"A sentence in {LANGUAGE[picture['language']]}", text, panels)


def _spectrogram(picture: Mapping[str, Any]) -> Heat:
    width = picture["column_seconds"]
    return Heat(
        f"{LANGUAGE[picture['language']]}: log-mel spectrogram",
        "seconds",
        "mel band",
        picture["spectrogram"],
        x=[(i + 0.5) * width for i in range(len(picture["spectrogram"][0]))],
        value_label="energy, standardised",
        marks=[Mark(x, label) for x, label in _beginnings(picture)],
    )


def _alignment(picture: Mapping[str, Any]) -> Heat:
    width = picture["frame_seconds"]
    symbols = ["·" if symbol == " " else symbol for symbol in picture["symbols"]]
    path = [
        Mark(frame * width, symbol, row)
        for row, (symbol, (first, last)) in enumerate(zip(symbols, picture["frames"], strict=True))
        for frame in range(first, last + 1)
    ]
    return Heat(
        f"{LANGUAGE[picture['language']]}: alignment",
        "seconds",
        "the truth, downwards",
        picture["probabilities"],
        x=[frame * width for frame in range(len(picture["probabilities"][0]))],
        rows=symbols,
        value_label="probability of the symbol",
        marks=path,
        top_down=True,
    )


def _beginnings(picture: Mapping[str, Any]) -> list[tuple[float, str]]:
    """When each character, or the first letter of each word, begins, and what it is."""
    symbols, width = picture["symbols"], picture["frame_seconds"]
    starts = [width * first for first, _ in picture["frames"]]
    if picture["language"] != "en":
        return list(zip(starts, symbols, strict=True))
    firsts = [i for i, symbol in enumerate(symbols) if symbol != " " and (i == 0 or symbols[i - 1] == " ")]
    return list(zip([starts[i] for i in firsts], "".join(symbols).split(), strict=True))
