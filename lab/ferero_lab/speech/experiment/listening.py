"""The part of the report on speech that can be read and looked at: transcripts, a spectrogram, an alignment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ferero_lab.experiments.experiment import Found, Section
from ferero_lab.report.panels import Heat, Mark, Panel, Table
from ferero_lab.speech.experiment.figures import LANGUAGE
from ferero_lab.speech.experiment.plan import Plan
from ferero_lab.speech.experiment.wishes import TITLES

__all__ = ["sentence_sections"]

_NOTHING = "(nothing)"


def sentence_sections(plan: Plan, found: Found) -> list[Section]:
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


def _search_table(plan: Plan, found: Found, whose: str) -> Table:
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
