"""Keeps a finished run as a result of record: ``.venv/bin/python benchmarks/keep_run.py RUNFOLDER NAME``.

benchmarks/results/NAME.json then has the run's configuration, versions and device, its measures, its preferences one by
one where it had some, and the tables of its report, told by the code of now from the parts that are kept in the folder.
docs/experiments.md is filled from these files (benchmarks/experiments_table.py). Its pictures are the run's own
(``ferero report RUNFOLDER`` draws them anew), with fewer colours; they are copied on the same occasion.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from PIL import Image

from ferero.errors import FereroError, InputError
from ferero_lab import experiments
from ferero_lab.experiments.experiment import Found, Story
from ferero_lab.experiments.run_folder import RunFolder
from ferero_lab.report import to_json

RESULTS = Path(__file__).parent / "results"
PICTURES = Path(__file__).parents[1] / "docs/pictures"
SHOWN = {
    "synthetic": {
        "figure-2-released-start-our-settings": "synthetic-figure-2",
        "figure-3-hard-start-our-settings": "synthetic-figure-3-hard",
    },
    "images": {
        "multi-fashion-mnist-rays": "images-fashion-mnist-rays",
        "multi-fashion-other-preferences": "images-fashion-preferences",
    },
    "images-paper": {"multi-mnist": "images-paper-mnist"},
    "emotions": {"on-the-rays": "emotions-rays"},
    "fairness": {"the-front": "fairness-front", "asked-and-got": "fairness-asked-and-got"},
    "speech": {
        "losses-on-the-way": "speech-course",
        "other-gaps": "speech-gaps",
        "a-sentence-in-mandarin": "speech-sentence",
    },
    "speech-quick": {"losses-on-the-way": "speech-quick-course"},
}
"""For a result the pictures of its run that docs/experiments.md shows, and their names there."""

_PREFERENCE = ("name", "seed", "ray", "through", "losses", "violation")
_COLOURS = 256
_WIDTH = 200
_DIGITS = 6
_PLACE = re.compile(r"(?:^|[\s\"'=(])(?:/[\w.-]+/|~/|[A-Za-z]:\\)")


def result_of(folder: Path) -> dict[str, Any]:
    """The configuration, measures and tables of a run, as plain data.

    Raises:
        InputError: a folder that holds no run, parts that cannot be read, or a path of this machine in a text.
    """
    place = RunFolder(folder)
    config, settings = place.config(), place.settings()
    found = {}
    for key in place.part_keys():
        kept = place.kept(key)
        if kept is None:
            raise InputError(f"RUNFOLDER: the part {key!r} of {folder} is damaged; continue the run with --resume.")
        found[key] = kept
    story = experiments.get(config["options"]["experiment"]).story(settings, found)
    result = {
        "name": config["options"]["experiment"],
        "config": config,
        "parts": sorted(found),
        "lead": story.lead,
        "measures": rounded(story.measures),
        "preferences": {key: preferences_of(part) for key, part in found.items() if "preferences" in part},
        "tables": tables_of(story),
    }
    plain: dict[str, Any] = json.loads(to_json(result))
    _check_places(plain, "result")
    return plain


def tables_of(story: Story) -> list[dict[str, Any]]:
    """Every table of a report with the heading that it stands under."""
    return [
        {
            "section": section.title,
            "title": table.title,
            "header": list(table.header),
            "rows": [list(row) for row in table.rows],
            "note": table.note,
        }
        for section in story.sections
        for table in section.tables
    ]


def preferences_of(part: Found) -> list[dict[str, Any]]:
    """The preference of each model and where it ended, without its trajectory."""
    return [rounded({name: one[name] for name in _PREFERENCE}) for one in part["preferences"]]


def rounded(value: Any) -> Any:
    """The same with six significant digits, which is more than any figure of a run is good for."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def compact(value: Any, indent: int = 0) -> str:
    """JSON with one line for whatever fits in one, so that a changed figure is a changed line."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if not isinstance(value, (dict, list)) or not value or indent + len(line) <= _WIDTH:
        return line
    inner = " " * (indent + 1)
    if isinstance(value, dict):
        items = [f"{json.dumps(key, ensure_ascii=False)}: {compact(item, indent + 1)}" for key, item in value.items()]
        begin, end = "{", "}"
    else:
        items, begin, end = [compact(item, indent + 1) for item in value], "[", "]"
    return f"{begin}\n{inner}" + f",\n{inner}".join(items) + f"\n{' ' * indent}{end}"


def copy_pictures(folder: Path, name: str) -> None:
    """Puts the pictures of a run that the page shows among those of docs, as small files.

    Raises:
        InputError: a run without one of them.
    """
    for source, target in SHOWN.get(name, {}).items():
        file = folder / f"{source}.png"
        if not file.is_file():
            raise InputError(f"RUNFOLDER: expected {file.name} in {folder}, found none; draw it with ferero report.")
        with Image.open(file) as picture:
            few = picture.convert("RGB").quantize(
                _COLOURS,
                method=Image.Quantize.MAXCOVERAGE,  # the median cut gave two groups one colour
                dither=Image.Dither.NONE,
            )
        few.save(PICTURES / f"{target}.png", optimize=True)


def _check_places(value: Any, where: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _check_places(item, f"{where}.{key}")
    elif isinstance(value, list):
        for item in value:
            _check_places(item, where)
    elif isinstance(value, str) and _PLACE.search(value):
        raise InputError(f"{where}: expected no path of this machine, found {value!r}; take it out of the report.")


def main() -> None:
    """Reads the two arguments and writes the file."""
    parser = argparse.ArgumentParser(description="Keep a finished run under benchmarks/results.")
    parser.add_argument("folder", type=Path, metavar="RUNFOLDER", help="what ferero run left")
    parser.add_argument("name", metavar="NAME", help="of the result")
    args = parser.parse_args()
    if not re.fullmatch(r"[a-z0-9-]+", args.name):
        parser.error(f"NAME: expected lower-case letters, digits and '-', found {args.name!r}.")
    try:
        result = result_of(args.folder)
        copy_pictures(args.folder, args.name)
    except FereroError as error:
        parser.error(str(error))
    (RESULTS / f"{args.name}.json").write_text(compact(result) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
