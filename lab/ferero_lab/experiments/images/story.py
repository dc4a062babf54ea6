"""The report on the images: what was reached with our settings, and what with the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean, median
from typing import Any

from ferero_lab.experiments.experiment import Found, Section, Settings, Story
from ferero_lab.experiments.images.figures import (
    attained,
    cell,
    figures_of,
    levels,
    prices,
    ray_errors,
    tried_of,
    with_nan,
)
from ferero_lab.experiments.images.methods import METHODS
from ferero_lab.experiments.images.panels import accuracy_panel, ray_panel, wish_panel
from ferero_lab.experiments.images.paper_story import paper_sections
from ferero_lab.experiments.images.tasks import KINDS
from ferero_lab.report.panels import Table

__all__ = ["image_story"]

_BEST = "FERERO"


def image_story(settings: Settings, found: Mapping[str, Found]) -> Story:
    """The story of whatever parts there are."""
    found = {key: with_nan(part) for key, part in found.items()}
    kinds = [kind for kind in KINDS if any(f"{kind}-{name}" in found for name in ("fixed", *METHODS))]
    if settings.mode == "paper":
        sections, measures = paper_sections(kinds, found)
        lead = (
            "The paper's settings exactly: SGD with a step of 0.001, 100 epochs, three rays. Whatever came out stands "
            "beside what the paper prints; the data were made anew, so that only ratios within a run compare."
        )
        return Story("Images, with the paper's settings", lead, sections, measures)
    by_kind = {kind: _compared(kind, found) for kind in kinds}
    fixed = {kind: found[f"{kind}-fixed"] for kind in kinds if f"{kind}-fixed" in found}
    measures = _measures(by_kind, fixed, found)
    sections = [_summary(measures), _hypervolumes(by_kind)]
    for kind in kinds:
        sections += _of_kind(kind, by_kind[kind], fixed.get(kind))
    return Story(_title(settings), _lead(measures), sections, measures)


def _title(settings: Settings) -> str:
    return "Images, two labels each" + (": a small form on scikit-learn's digits" if settings.mode == "quick" else "")


def _compared(kind: str, found: Mapping[str, Found]) -> dict[str, Found]:
    return {name: found[f"{kind}-{name}"] for name in METHODS if f"{kind}-{name}" in found}


# figures of record -------------------------------------------------------------------------------------------


def _measures(
    by_kind: Mapping[str, Mapping[str, Found]], fixed: Mapping[str, Found], found: Mapping[str, Found]
) -> dict[str, Any]:
    measures: dict[str, Any] = {
        "methods": {kind: {name: figures_of(part) for name, part in parts.items()} for kind, parts in by_kind.items()},
        "fixed": {kind: _fixed_measures(part) for kind, part in fixed.items()},
    }
    if "time" in found:
        measures["time"] = found["time"]
    return measures


def _fixed_measures(part: Found) -> dict[str, Any]:
    wishes = [wish for wish in part["wishes"] if not wish["wish"].startswith("ray")]
    values = [wish["violation"] for wish in wishes]
    return {
        "rate": part["rate"],
        "epochs": part["epochs"],
        "attained_angles": list(attained(part)),
        "levels": levels(part),
        "prices": prices(part),
        "violations": {"median": median(values), "worst": max(values), "models": len(values)},
        "single": {
            f"{one.weight:g}": {"losses": list(one.losses), "evaluated": one.evaluated}
            for one in tried_of(part)
            if one.weight in (0.0, 1.0)
        },
    }


def _lead(measures: Mapping[str, Any]) -> str:
    sentences = []
    for kind, methods in measures["methods"].items():
        if _BEST in methods:
            error = methods[_BEST]["ray_error_train"]["median"]
            others = {n: m["ray_error_train"]["median"] for n, m in methods.items() if n != _BEST}
            name = min(others, key=lambda n: others[n]) if others else ""
            beside = f", {name} by {others[name]:.2f}" if name else ""
            sentences.append(f"{KINDS[kind].title}: FERERO misses its rays by {error:.2f} degrees (median){beside}.")
    return "Losses on training images unless said otherwise. " + " ".join(sentences)


# sections ----------------------------------------------------------------------------------------------------


def _summary(measures: Mapping[str, Any]) -> Section:
    rows = []
    for kind, methods in measures["methods"].items():
        title = KINDS[kind].title
        if _BEST in methods:
            own = methods[_BEST]["ray_error_train"]
            rows.append([title, "median ray error, degrees", f"{own['median']:.3f}", "2"])
            others = [m["ray_error_train"]["median"] for n, m in methods.items() if n != _BEST]
            if others:
                rows.append([title, "over that of the best neighbour", f"{own['median'] / min(others):.3f}", "0.33"])
            rows.append([title, "models that diverge", str(methods[_BEST]["diverged"]), "0"])
        if kind in measures["fixed"]:
            one = measures["fixed"][kind]
            ratios = [row["ratio"] for row in one["levels"]]
            rows.append([title, "level along the ray over fixed weights, worst", f"{max(ratios):.3f}", "1.05"])
            rows.append([title, "the same, mean", f"{mean(ratios):.3f}", ""])
            worst = one["violations"]
            rows.append([title, "violation of the other wishes, worst", f"{worst['worst']:.4f}", "0.01"])
            rows.append([title, "the same, median", f"{worst['median']:.4f}", ""])
    if "time" in measures:
        ratio = measures["time"]["per_model_over_alone"]
        rows.append(["", "time per model, 25 at once over one alone", f"{ratio:.3f}", "0.35"])
    return Section("What was reached", tables=[Table(["data", "measure", "FERERO", "goal"], rows)])


def _hypervolumes(by_kind: Mapping[str, Mapping[str, Found]]) -> Section:
    names = list(dict.fromkeys(name for parts in by_kind.values() for name in parts))
    rows = []
    for kind, parts in by_kind.items():
        for what in ("loss", "accuracy"):
            for data in ("train", "test"):
                values = {name: figures_of(part)[f"hypervolume_{what}_{data}"] for name, part in parts.items()}
                cells = [cell(values[name], 100) if name in values else "-" for name in names]
                rows.append([f"{KINDS[kind].title}, {what}", data, *cells])
    note = (
        "Times 1e-2, mean and standard deviation over seeds that all methods share; reference points are the paper's. "
        "On these data both tasks can nearly be solved at once, so that hypervolume says little about preferences."
    )
    return Section("Hypervolume", tables=[Table(["data", "of", *names], rows, note=note)])


def _of_kind(kind: str, parts: Mapping[str, Found], fixed: Found | None) -> list[Section]:
    title = KINDS[kind].title
    sections = []
    if parts:
        panels = [ray_panel(f"{data} losses", parts, data) for data in ("train", "test")]
        panels.append(accuracy_panel("test accuracies", parts, "test"))
        sections.append(Section(f"{title}: rays", _setting(parts), panels, [_method_table(parts)]))
    if fixed is not None:
        low, high = attained(fixed)
        text = (
            f"Attainable is what fixed weights reach with the same step and as many epochs: angles from {low:.1f} to "
            f"{high:.1f} degrees for weights from 0.02 to 0.98. The other wishes lie between their losses (grey)."
        )
        panels = [wish_panel("training losses", fixed)]
        sections.append(Section(f"{title}: other wishes", text, panels, _fixed_tables(fixed)))
    return sections


def _setting(parts: Mapping[str, Found]) -> str:
    part = next(iter(parts.values()))
    seeds = len({model["seed"] for model in part["models"]})
    how = "chosen from three on held-out images with one seed" if part.get("search") else "the same for all methods"
    return (
        f"SGD, {part['epochs']} epochs, step {how} and falling to 0 along a cosine; {seeds} seeds. Points are means "
        "over seeds, lines the way there of the first seed."
    )


def _method_table(parts: Mapping[str, Found]) -> Table:
    rows = []
    for name, part in parts.items():
        one = figures_of(part)
        rows.append(
            [
                name,
                _step_text(part),
                f"{one['ray_error_train']['median']:.2f}",
                f"{one['ray_error_train']['worst']:.2f}",
                f"{median(ray_errors(part, 'test')):.2f}",
                *(f"{value:.3f}" for value in one["losses_train"]),
                *(f"{100 * value:.1f}" for value in one["accuracy_test"]),
                str(one["diverged"]),
                f"{one['seconds'] / one['epochs']:.2f}",
            ]
        )
    header = ["method", "step", "ray error, median", "worst", "on test", "left loss", "right loss"]
    header += ["left, test %", "right, test %", "diverged", "s an epoch"]
    note = "Ray errors in degrees over rays and seeds; losses and accuracies are means over all models."
    note += " Seconds are of all models together, set-up and evaluation included."
    if any(row[1].endswith("*") for row in rows):
        note += " * the end of the range that was searched: a step beyond it may be better."
    return Table(header, rows, note=note)


def _step_text(part: Found) -> str:
    """The step, marked where it is the smallest or the largest of those it was chosen from."""
    tried = sorted(one["rate"] for one in part.get("search", ()))
    is_end = bool(tried) and part["rate"] in (tried[0], tried[-1])
    return f"{part['rate']:g}" + (" *" if is_end else "")


def _wish_table(part: Found) -> Table:
    rows = []
    for wish in dict.fromkeys(one["wish"] for one in part["wishes"]):
        some = [one for one in part["wishes"] if one["wish"] == wish]
        values = [one["violation"] for one in some]
        losses = [f"{mean(one['losses'][i] for one in some):.4f}" for i in range(2)]
        asked = some[0]["preference"].removeprefix("subject to").strip()
        rows.append([wish, asked, *losses, f"{mean(values):.4f}", f"{max(values):.4f}"])
    header = ["wish", "in words", "left loss", "right loss", "violation, mean", "worst"]
    return Table(header, rows, "FERERO on wishes", "Means over seeds, on training images.")


def _fixed_tables(part: Found) -> list[Table]:
    return [_wish_table(part), _level_table(part), _price_table(part), _single(part)]


def _price_table(part: Found) -> Table:
    rows = [
        [
            row["wish"],
            f"{row['bound']:.4f}",
            f"{row['bounded']:.4f}",
            f"{row['minimized']:.4f}",
            f"{row['fixed']:.4f}",
            f"{row['ratio']:.3f}",
        ]
        for row in prices(part)
    ]
    header = ["threshold", "at", "bounded loss", "other loss", "of fixed weights", "ratio"]
    note = "Seed 0. Fixed weights: the smallest other loss among those tried that keep the bound."
    return Table(header, rows, "What keeping a threshold costs", note)


def _level_table(part: Found) -> Table:
    rows = [
        [
            f"{row['degrees']:g}",
            f"{row['weight']:.4f}",
            f"{row['oracle_off']:.2f}",
            f"{row['oracle_level']:.4f}",
            f"{row['ferero_off']:.2f}",
            f"{row['ferero_level']:.4f}",
            f"{row['ratio']:.4f}",
        ]
        for row in levels(part)
    ]
    header = ["ray", "weight of left", "off by", "level", "FERERO off by", "level", "ratio"]
    return Table(header, rows, "Beside fixed weights found by bisection", "Same seed, step and epochs; degrees.")


def _single(part: Found) -> Table:
    rows = []
    for one in tried_of(part):
        if one.weight in (0.0, 1.0):
            task = "left" if one.weight == 1.0 else "right"
            train, test = one.evaluated["train"], one.evaluated["test"]
            accuracy = f"{100 * test[f'accuracy_{task}']:.1f}"
            rows.append([f"{task} alone", f"{train[task]:.4f}", f"{test[task]:.4f}", accuracy])
    return Table(["task", "training loss", "test loss", "test accuracy, %"], rows, "Each task alone")
