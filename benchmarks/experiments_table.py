"""Writes the tables of docs/experiments.md: ``.venv/bin/python benchmarks/experiments_table.py``.

They come from benchmarks/results, where ``benchmarks/keep_run.py`` puts what is to be kept of the folders that
``ferero run`` leaves; it copies the pictures too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

from pages import fill, markdown

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"
PAGE = ROOT / "docs/experiments.md"
NAMES = (
    "synthetic",
    "images",
    "images-paper",
    "images-digits",
    "emotions",
    "emotions-quick",
    "emotions-paper",
    "fairness",
    "quick-times",
    "speech",
    "speech-narrow",
    "speech-earlier",
    "speech-quick",
)
TITLES = {"mnist": "Multi-MNIST", "fashion": "Multi-Fashion", "fashion-mnist": "Multi-Fashion+MNIST"}
DIGITS = {"digits": "digit pairs"}

SPEECH_GOALS = {
    ("speech", "violation_dev"): ("speech: violation of a constraint, worst seed", "dev set"),
    ("speech", "average_error"): ("speech: average error minus that of LS, points", "test set"),
    ("speech", "gap_follows"): ("speech: distance of the gap from what was asked, worst of the sweep", "dev set"),
    ("speech", "step_ratio"): ("speech: a FERERO step over a weighted-sum step", "H200"),
    ("speech-quick", "characters_unseen"): ("recorded words: character errors, worse language, %", "unseen speakers"),
}
"""For a bar of a result its words and where it was measured."""

Result = Mapping[str, Any]
Results = Mapping[str, Result]


def read() -> dict[str, Result]:
    """The results of record of the experiments, by name."""
    return {name: json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")) for name in NAMES}


# goals -------------------------------------------------------------------------------------------------------


def goals_table(results: Results) -> str:
    """Every measure that has a goal, the missed ones too."""
    rows = _image_goals(results["images"], TITLES) + _image_goals(results["images-digits"], DIGITS)
    emotions = results["emotions"]["measures"]["bars"]
    error, over = (emotions[name]["value"] for name in ("error_median", "over_best_neighbour"))
    rows.append(("emotions: median ray error, degrees", error, 4.0, "training songs"))
    rows.append(("emotions: ray error over that of the best of five neighbours", over, 1 / 3, "training songs"))
    rows.append(("models that diverged: images, digit pairs, emotions, fairness", _diverged(results), 0.0, ""))
    minutes = results["images-paper"]["measures"]["seconds"]["FERERO"]["seconds"] / 60
    rows.append(("45 image models, the paper's settings, minutes", minutes, 9.0, "H200"))
    ratio = results["images"]["measures"]["time"]["per_model_over_alone"]
    rows.append(("time per model and step, 25 at once over one alone", ratio, 0.35, "H200"))
    for name, seconds in results["quick-times"]["seconds"].items():
        goal = 300.0 if name == "speech" else 180.0
        rows.append((f"`ferero run {name} --quick`, seconds", seconds, goal, "two cores"))
    lines = [
        [words, _figure(value, goal), f"{goal:.3g}", _verdict(value <= goal), where]
        for words, value, goal, where in rows
    ]
    lines += _speech_goals(results)
    return markdown(("measure", "FERERO", "goal, at most", "", "on"), lines)


def _verdict(is_met: bool) -> str:
    return "reached" if is_met else "**missed**"


def _speech_goals(results: Results) -> list[list[str]]:
    """The same for speech, judged by the experiment itself: one goal is no number."""
    lines = []
    for (name, key), (words, where) in SPEECH_GOALS.items():
        bar = results[name]["measures"]["bars"][key]
        error = bar.get("standard_error")
        value = _figure(bar["value"], bar.get("bar", math.inf)) + ("" if error is None else f" ± {error:.2g}")
        goal = f"{bar['bar']:.3g}" if "bar" in bar else "below 0, or one standard error and a smaller gap"
        lines.append([words, value, goal, _verdict(bar["is_met"]), where])
    return lines


def _figure(value: float, goal: float) -> str:
    """Three digits, or as many as show that a goal was missed."""
    text = f"{value:.3g}"
    return f"{value:.5g}" if float(text) <= goal < value else text


def _image_goals(result: Result, titles: Mapping[str, str]) -> list[tuple[str, float, float, str]]:
    rows = []
    for kind, title in titles.items():
        methods = result["measures"]["methods"][kind]
        own = methods["FERERO"]["ray_error_train"]["median"]
        others = {name: one["ray_error_train"]["median"] for name, one in methods.items() if name != "FERERO"}
        misses = _misses(result, kind)
        level = max(one["ratio"] for one in result["measures"]["fixed"][kind]["levels"])
        count = {3: "three", 6: "six"}[len(others)]
        rows += [
            (f"{title}: median ray error, degrees", own, 2.0, "training images"),
            (f"{title}: the same, shifted rays", median(misses["shifted"]), 2.0, "training images"),
            (f"{title}: violation of thresholds, worst", max(misses["bounded"]), 0.01, "training images"),
            (f"{title}: violation of differences, worst", max(misses["difference"]), 0.01, "training images"),
            (f"{title}: ray error over that of the best of {count} neighbours", own / min(others.values()), 1 / 3, ""),
            (f"{title}: level along the ray over fixed weights, worst", level, 1.05, "one seed"),
        ]
    return rows


def _misses(result: Result, kind: str) -> dict[str, list[float]]:
    """Degrees for shifted rays, violations for differences and thresholds ("bounded"), one for each model."""
    found: dict[str, list[float]] = {"shifted": [], "difference": [], "bounded": []}
    for one in result["preferences"][f"{kind}-fixed"]:
        for group, values in found.items():
            if group in one["name"]:
                values.append(_angle(one) if group == "shifted" else one["violation"])
    return found


def _angle(one: Mapping[str, Any]) -> float:
    """Degrees between the ray and the losses, both seen from where the ray begins."""
    way = [loss - begin for loss, begin in zip(one["losses"], one["through"], strict=True)]
    cosine = sum(a * b for a, b in zip(way, one["ray"], strict=True)) / math.hypot(*way) / math.hypot(*one["ray"])
    return math.degrees(math.acos(min(1.0, cosine)))


def _diverged(results: Results) -> float:
    images = [one for name in ("images", "images-digits") for one in results[name]["measures"]["methods"].values()]
    emotions = results["emotions"]["measures"]["bars"]["diverged"]["value"]
    fairness = results["fairness"]["measures"]["diverged"]
    return float(sum(one["FERERO"]["diverged"] for one in images) + emotions + fairness)


# images ------------------------------------------------------------------------------------------------------


def rays_table(results: Results) -> str:
    """The methods on the three data sets, one line each."""
    return _ray_rows(results["images"], TITLES)


def digits_table(results: Results) -> str:
    """All seven methods on digit pairs."""
    return _ray_rows(results["images-digits"], DIGITS)


def _ray_rows(result: Result, titles: Mapping[str, str]) -> str:
    lines = []
    for kind, title in titles.items():
        for name, one in result["measures"]["methods"][kind].items():
            train, test = one["ray_error_train"], one["ray_error_test"]
            errors = [train["median"], train["worst"], test["median"]]
            accuracies = [f"{100 * value:.1f}" for value in one["accuracy_test"]]
            losses = [f"{value:.3f}" for value in one["losses_train"]]
            lines.append([title, name, f"{one['rate']:g}", *(f"{e:.2f}" for e in errors), *losses, *accuracies])
    header = ("data", "method", "step", "ray error", "worst", "on test", "left loss", "right loss", "left, test %",
              "right, test %")  # fmt: skip
    return markdown(header, lines)


def hypervolume_table(results: Results) -> str:
    """Hypervolumes with our settings, and FERERO's minus that of LS seed by seed."""
    lines = []
    for kind, title in TITLES.items():
        methods = results["images"]["measures"]["methods"][kind]
        for what in ("loss", "accuracy"):
            for part in ("train", "test"):
                volumes = {name: [100 * v for v in one[f"hypervolume_{what}_{part}"]] for name, one in methods.items()}
                paired = [a - b for a, b in zip(volumes["FERERO"], volumes["LS"], strict=True)]
                cells = [_plus_minus(values) for values in (*volumes.values(), paired)]
                lines.append([f"{title}, {what}", part, *cells])
    return markdown(("data", "of", *methods, "FERERO - LS"), lines)


def _plus_minus(values: Sequence[float]) -> str:
    return f"{mean(values):.2f} ± {stdev(values):.2f}"


# tables of the reports ---------------------------------------------------------------------------------------


def told(name: str, section: str, title: str | None = None) -> Callable[[Results], str]:
    """A table of a report as it is; ``title`` where a section has several."""

    def make(results: Results) -> str:
        return _rendered(_find(results[name], section, title))

    return make


def figures_2_and_3(settings: str) -> Callable[[Results], str]:
    """The tables of Figures 2 and 3 in one, by the paper's settings or by ours."""
    sections = ("Figure 2, printed start", "Figure 2, released start", "Figure 3, easy start", "Figure 3, hard start")

    def make(results: Results) -> str:
        tables = {one: _find(results["synthetic"], f"{one}: {settings}") for one in sections}
        rows = [[section, *row] for section, table in tables.items() for row in table["rows"]]
        return markdown(("figure", *tables[sections[0]]["header"]), rows)

    return make


def preferences_table(results: Results) -> str:
    """FERERO on preferences other than rays, for all three data sets."""
    words = "FERERO on preferences"
    tables = {title: _find(results["images"], f"{title}: other preferences", words) for title in TITLES.values()}
    rows = [[title, *row] for title, table in tables.items() for row in table["rows"] if not row[0].startswith("ray")]
    return markdown(("data", *tables["Multi-MNIST"]["header"]), rows)


def beside_fixed_weights(words: str) -> Callable[[Results], str]:
    """One of the tables that hold FERERO against fixed weights, of all data sets."""

    def table(results: Results) -> str:
        found = {"images": list(TITLES.values()), "images-digits": ["digit pairs"]}
        tables = {t: _find(results[n], f"{t}: other preferences", words) for n, titles in found.items() for t in titles}
        rows = [[title, *row] for title, one in tables.items() for row in one["rows"]]
        return markdown(("data", *tables["Multi-MNIST"]["header"]), rows)

    return table


def steps_table(results: Results) -> str:
    """A training step of FERERO on Multi-MNIST, by the number of models and the form that it is computed in."""
    rows = [
        [
            str(one["models"]),
            "matrix products" if one["patches"] else "convolutions",
            "yes" if one["compiled"] else "no",
            f"{one['milliseconds']:.2f}",
        ]
        for one in results["images"]["measures"]["time"]["steps"]
    ]
    return markdown(("models", "layers", "compiled", "milliseconds"), rows)


def small_emotions(results: Results) -> str:
    """The goals of the emotions in the small form."""
    bars = results["emotions-quick"]["measures"]["bars"]
    error, over = bars["error_median"], bars["over_best_neighbour"]
    rows = [
        ["median ray error, degrees", f"{error['value']:.2f}", f"{error['bar']:g}"],
        ["over that of the best neighbour", f"{over['value']:.2f}", f"{over['bar']:.2f}"],
    ]
    return markdown(("measure, small form", "FERERO", "goal, at most"), rows)


def speech_settings(results: Results) -> str:
    """How the recognisers of record were trained."""
    plan = results["speech"]["measures"]["plan"]
    settings = {
        "speech in a step, both languages, seconds": [plan["seconds"]],
        "passes of pre-training; largest step": [plan["pretraining"], plan["pretraining_rate"]],
        "passes of tuning; steps to choose from": [plan["tuning"], plan["rates"]],
        "passes of each model of the sweep; eps_2 moved by": [plan["sweeping"], plan["shifts"]],
        "frames of 40 ms that are hidden in a stretch and predicted": [plan["future"]],
        "optimizer steps between two looks at the dev set": [plan["every"]],
        "eps_1 under where LS ended, as a share; eps_2 moved by": [plan["tightening"], plan["shift"]],
        "floors of CPC, Mandarin, English, as a share of where LS ended": [plan["floors"]],
        "dropout; largest change of tempo and pitch": [plan["dropout"], [plan["tempo"], plan["pitch"]]],
    }
    return markdown(("setting", "value"), [[words, _listed(values)] for words, values in settings.items()])


def _listed(values: Sequence[float | Sequence[float]]) -> str:
    return "; ".join(", ".join(f"{v:g}" for v in one) if isinstance(one, Sequence) else f"{one:g}" for one in values)


def small_speech(results: Results) -> str:
    """Error rates of the small form on recorded words, without the paper's rows."""
    return _own_errors(results["speech-quick"])


def speech_studies(results: Results) -> str:
    """What was asked in each study of the paper's conformer, and what came of it."""
    header = (
        "study", "passes of tuning", "ε₂ moved by", "worst violation, dev", "FERERO minus LS, average error", "by seed",
        "FERERO's gap", "that of LS",
    )  # fmt: skip
    titles = {"speech": "of record", "speech-narrow": "the same weights, another ε₂", "speech-earlier": "earlier"}
    return markdown(header, [_study(title, results[name]["measures"]) for name, title in titles.items()])


def _study(title: str, measures: Mapping[str, Any]) -> list[str]:
    plan, versus = measures["plan"], measures["against_ls"]["test"]
    average = versus["average"]
    return [
        title,
        f"{plan['tuning']:g}",
        f"{plan['shift']:g}",
        f"{measures['bars']['violation_dev']['value']:.3f}",
        f"{average['mean']:+.2f} ± {average['standard_error_seeds']:.2f}",
        ", ".join(f"{value:+.2f}" for value in average["by_seed"]),
        f"{versus['gap']['mean']:.1f}",
        f"{versus['their_gap']['mean']:.1f}",
    ]


def _own_errors(result: Result) -> str:
    table = _find(result, "Error rates", "Test set, beside the paper's table")
    own = [[row[0].removesuffix(" (ours)"), *row[1:]] for row in table["rows"] if row[0].endswith("(ours)")]
    return markdown(table["header"], own)


def _find(result: Result, section: str, title: str | None = None) -> Mapping[str, Any]:
    found = [t for t in result["tables"] if t["section"] == section and title in (None, t["title"])]
    if len(found) != 1:
        raise SystemExit(f"{result['name']}: expected one table {title!r} in {section!r}, found {len(found)}.")
    return dict(found[0])


def _rendered(table: Mapping[str, Any]) -> str:
    note = f"\n{table['note']}\n" if table["note"] else ""
    return markdown(table["header"], table["rows"]) + note


TABLES: dict[str, Callable[[Results], str]] = {
    "goals": goals_table,
    "synthetic-paper": figures_2_and_3("the paper's settings"),
    "synthetic-ours": figures_2_and_3("our settings"),
    "loop-paper": told("synthetic", "The single loop: the paper's settings"),
    "loop-ours": told("synthetic", "The single loop: our settings"),
    "scale-paper": told("synthetic", "Scale invariance: the paper's settings, fixed step 0.05"),
    "scale-ours": told("synthetic", "Scale invariance: our settings, step='auto'"),
    "synthetic-time": told("synthetic", "Time per iteration"),
    "images-paper-test": told("images-paper", "Hypervolume", "On test data"),
    "images-paper-train": told("images-paper", "Hypervolume", "On train data"),
    "images-paper-angles": told("images-paper", "Angles and time", "Angles reached, training losses, in degrees"),
    "images-paper-time": told("images-paper", "Angles and time", "Time"),
    "images-rays": rays_table,
    "images-preferences": preferences_table,
    "images-levels": beside_fixed_weights("Beside fixed weights found by bisection"),
    "images-prices": beside_fixed_weights("What keeping a threshold costs"),
    "images-steps": steps_table,
    "images-hypervolume": hypervolume_table,
    "images-digits": digits_table,
    "emotions-paper": told("emotions-paper", "On the rays"),
    "emotions-paper-hypervolume": told("emotions-paper", "Hypervolume"),
    "emotions-ours": told("emotions", "On the rays"),
    "emotions-ours-hypervolume": told("emotions", "Hypervolume"),
    "emotions-small": small_emotions,
    "emotions-search": told("emotions", "The step of each method"),
    "emotions-constant": told("emotions", "A constant step"),
    "emotions-held-out": told("emotions", "Held-out losses in charge"),
    "fairness-kept": told("fairness", "Asked and got"),
    "fairness-front": told("fairness", "The front"),
    "speech-recordings": told("speech", "Recordings and pre-training", "Recordings"),
    "speech-settings": speech_settings,
    "speech-errors": told("speech", "Error rates", "Test set, beside the paper's table"),
    "speech-versus": told("speech", "Error rates", "Against linear scalarization"),
    "speech-constraints": told("speech", "The constraints"),
    "speech-sweep": told("speech", "Other gaps"),
    "speech-studies": speech_studies,
    "speech-search": told("speech", "The step of each method"),
    "speech-decoding": told("speech", "What is heard", "Greedy decoding and beam search"),
    "speech-time": told("speech", "Time of a step"),
    "speech-small": small_speech,
    "speech-small-constraints": told("speech-quick", "The constraints"),
}


def filled(text: str, results: Results) -> str:
    """The page with every table between its marks."""
    for name, make in TABLES.items():
        text = fill(text, name, make(results))
    return text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), read()), encoding="utf-8")
