"""Counts the symbols of the sentences: ``.venv/bin/python benchmarks/data_table.py DATA``.

DATA is the folder with the recordings. benchmarks/results/speech-alphabets.json then has the counts, and the table of
docs/data.md is filled from it; without DATA the table alone is filled again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pages import fill

from ferero_lab.bench.measure import environment
from ferero_lab.experiments.experiment import Settings
from ferero_lab.report import to_json, write_file
from ferero_lab.speech.corpora import UNITS, Alphabet, find_corpora
from ferero_lab.speech.experiment.plan import read_plan
from ferero_lab.speech.experiment.sets import load_sets

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks/results/speech-alphabets.json"
PAGE = ROOT / "docs/data.md"
WORDS = {"characters": "a character", "syllables": "pinyin with its tone", "toneless": "pinyin without"}


def counted(data: Path) -> dict[str, Any]:
    """For each unit of Mandarin the size of its alphabet, and how many test symbols it lacks; hours to train on."""
    corpus = find_corpora(data, "sentences")
    train, test = (corpus.of(language="zh", split=split) for split in ("train", "test"))
    units = {}
    for unit in (unit for unit, language in UNITS.items() if language == "zh"):
        alphabet = Alphabet.of(train, unit=unit)
        written = [alphabet.encode(each) for each in test]
        units[unit] = {
            "symbols": len(alphabet),
            "test": sum(len(numbers) for numbers, _ in written),
            "outside": sum(len(outside) for _, outside in written),
        }
    settings = Settings(data=data)
    sets = load_sets(read_plan(settings), settings, None)
    hours = {language: sets.hours(language) for language in sets.alphabets}
    return {"name": "speech-alphabets", "environment": environment(), "units": units, "hours": hours}


def read() -> dict[str, Any]:
    """The counts on record."""
    return dict(json.loads(RESULT.read_text(encoding="utf-8")))


def filled(text: str, result: dict[str, Any]) -> str:
    """The page with the table between its marks."""
    lines = ["| `--unit` | symbol | in the 4 + 2 speakers' corpus | test symbols outside |", "|---|---|---|---|"]
    for unit, found in result["units"].items():
        name = f"`{unit}`" + (" (default)" if unit == "characters" else "")
        lines.append(f"| {name} | {WORDS[unit]} | {found['symbols']} | {found['outside']} of {found['test']} |")
    return fill(text, "alphabets", "\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write_file(RESULT, to_json(counted(Path(sys.argv[1]))).encode())
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), read()), encoding="utf-8")
