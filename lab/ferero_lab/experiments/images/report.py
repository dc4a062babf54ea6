"""The report on the images: with our settings, and with the paper's beside what the paper prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mean, median, stdev
from typing import Any

from ferero.errors import InputError
from ferero_lab.experiments.experiment import Found, Section, Settings, Story
from ferero_lab.experiments.images.measures import (
    accuracy,
    attained,
    cell,
    figures_of,
    hypervolumes,
    levels,
    losses_on,
    prices,
    ray_errors,
    tried_of,
    with_nan,
)
from ferero_lab.experiments.images.oracle import angle
from ferero_lab.experiments.images.plan import KINDS, METHODS, NAMES, PAPER
from ferero_lab.report.panels import FrontPanel, FrontPoint, Segment, Table

__all__ = ["tell_story"]

_BEST = "FERERO"


def tell_story(settings: Settings, found: Mapping[str, Found]) -> Story:
    """The report of the parts that are there.

    Raises:
        InputError: a part of an earlier version, which kept its preferences under another key.
    """
    for key, part in found.items():
        if "wishes" in part and "preferences" not in part:
            raise InputError(
                f'{key}: expected a part with "preferences", found one of an earlier version with "wishes"; run it '
                "anew with another --out."
            )
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
    values = [one["violation"] for one in part["preferences"] if not one["name"].startswith("ray")]
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
            rows.append([title, "violation of the other preferences, worst", f"{worst['worst']:.4f}", "0.01"])
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
            f"{high:.1f} degrees for weights from 0.02 to 0.98. The other preferences lie between their losses (grey)."
        )
        panels = [preference_panel("training losses", fixed)]
        sections.append(Section(f"{title}: other preferences", text, panels, _fixed_tables(fixed)))
    return sections


def _setting(parts: Mapping[str, Found]) -> str:
    part = next(iter(parts.values()))
    seeds = len({model["seed"] for model in part["models"]})
    how = "chosen from three on held-out images with one seed" if part.get("search") else "the same for all methods"
    return (
        f"SGD, {part['epochs']} epochs, step {how} and falling to 0 along a cosine; {seeds} seeds. Points are means "
        "over seeds, lines the trajectory of the first seed."
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


def _preference_table(part: Found) -> Table:
    rows = []
    for name in dict.fromkeys(one["name"] for one in part["preferences"]):
        some = [one for one in part["preferences"] if one["name"] == name]
        values = [one["violation"] for one in some]
        losses = [f"{mean(one['losses'][i] for one in some):.4f}" for i in range(2)]
        words = some[0]["preference"].removeprefix("subject to").strip()
        rows.append([name, words, *losses, f"{mean(values):.4f}", f"{max(values):.4f}"])
    header = ["preference", "in words", "left loss", "right loss", "violation, mean", "worst"]
    return Table(header, rows, "FERERO on preferences", "Means over seeds, on training images.")


def _fixed_tables(part: Found) -> list[Table]:
    return [_preference_table(part), _level_table(part), _price_table(part), _single(part)]


def _price_table(part: Found) -> Table:
    rows = [
        [
            row["name"],
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


_NEAR = 1.8  # ways there are shown from where they come this near to where they end


def ray_panel(title: str, parts: Mapping[str, Found], data: str) -> FrontPanel:
    """All methods on their rays, means over seeds; the losses of some data."""
    points = [point for name, part in parts.items() for point in _points(name, part, data)]
    rays = next(iter(parts.values()))["rays"] if parts else []
    reach = max((math.hypot(*point.losses) for point in points), default=1.0)
    points = [replace(point, path=[at for at in point.path if math.hypot(*at) < _NEAR * reach]) for point in points]
    segments = [
        Segment([0.0, 0.0], [reach * math.cos(math.radians(d)), reach * math.sin(math.radians(d))], f"ray at {d:g}°")
        for d in rays
    ]
    return FrontPanel(title, [f"{name} loss" for name in NAMES], points, segments)


def accuracy_panel(title: str, parts: Mapping[str, Found], data: str) -> FrontPanel:
    """The same in accuracies."""
    points = []
    for name, part in parts.items():
        for degrees, models in _by_ray(part):
            values = [accuracy(model, data) for model in models]
            points.append(
                FrontPoint(_means(values), name, _label(degrees), spread=_spreads(values), place=_label(degrees))
            )
    return FrontPanel(title, [f"{name} accuracy" for name in NAMES], points, from_zero=False)


def preference_panel(title: str, part: Found) -> FrontPanel:
    """FERERO on shifted rays, differences and thresholds, beside fixed weights."""
    points = [
        FrontPoint(
            one["losses"],
            one["name"].partition(",")[0],
            one["preference"].removeprefix("subject to").strip(),
            {"violation": f"{one['violation']:.4f}", "seed": str(one["seed"]), "status": one["status"]},
            ok=one["status"] in ("met", "met_within_noise"),
        )
        for one in part["preferences"]
        if not one["name"].startswith("ray")
    ]
    segments = []
    for one in part["preferences"]:
        if one["seed"] == 0 and one["through"] is not None:
            reach = 1.15 * math.hypot(*(f - t for f, t in zip(one["losses"], one["through"], strict=True)))
            end = [t + reach * r for t, r in zip(one["through"], one["ray"], strict=True)]
            segments.append(Segment(one["through"], end, one["name"], "shifted ray"))
    shown = sorted(one["losses"] for one in part["fixed"] if 0.1 <= one["weight"] <= 0.9)
    names = [f"{name} loss" for name in NAMES]
    return FrontPanel(title, names, points, segments, truth=shown, truth_label="fixed weights")


def _points(name: str, part: Found, data: str) -> list[FrontPoint]:
    found = []
    for degrees, models in _by_ray(part):
        values = [losses_on(model, data) for model in models]
        details = {
            "weights": ", ".join(f"{value:.3f}" for value in _means([model["weights"] for model in models])),
            "rate": f"{part['rate']:g}",
            "seeds": str(len(models)),
            "status": ", ".join(sorted({model["status"] for model in models})),
        }
        path = models[0]["path"] if data == "train" else ()
        found.append(
            FrontPoint(_means(values), name, _label(degrees), details, path, _spreads(values), place=_label(degrees))
        )
    return found


def _by_ray(part: Found) -> list[tuple[float | None, list[dict[str, Any]]]]:
    seeds = len({model["seed"] for model in part["models"]})
    groups = [part["models"][i : i + seeds] for i in range(0, len(part["models"]), seeds)]
    return [
        (None if group[0]["ray"] is None else degrees, group)
        for degrees, group in zip(part["rays"], groups, strict=False)
    ]


def _label(degrees: float | None) -> str:
    return "no preference" if degrees is None else f"ray at {degrees:g}°"


def _means(values: Sequence[Sequence[float]]) -> list[float]:
    return [mean(column) for column in zip(*values, strict=True)]


def _spreads(values: Sequence[Sequence[float]]) -> list[float]:
    if len(values) < 2:
        return []
    return [stdev(column) if all(map(math.isfinite, column)) else math.nan for column in zip(*values, strict=True)]


PUBLISHED = {
    ("mnist", "loss"): (1.68, 1.97),
    ("fashion", "loss"): (6.75, 7.76),
    ("fashion-mnist", "loss"): (3.63, 3.82),
    ("mnist", "accuracy"): (0.19, 0.24),
    ("fashion", "accuracy"): (0.99, 1.17),
    ("fashion-mnist", "accuracy"): (0.48, 0.53),
}
"""Hypervolumes x 1e-2 that the paper prints for LS and FERERO."""


def paper_sections(kinds: Sequence[str], found: Mapping[str, Found]) -> tuple[list[Section], dict[str, Any]]:
    """The table beside the paper's, a picture for each data set, and the figures of record."""
    by_kind = {kind: {name: found[f"{kind}-{name}"] for name in PAPER if f"{kind}-{name}" in found} for kind in kinds}
    measures = {kind: {name: figures_of(part) for name, part in parts.items()} for kind, parts in by_kind.items()}
    sections = [
        Section("Hypervolume", tables=[_paper_hypervolumes(by_kind, "test"), _paper_hypervolumes(by_kind, "train")]),
        Section("Angles and time", tables=[_paper_angles(by_kind), _paper_times(by_kind)]),
    ]
    for kind, parts in by_kind.items():
        panels = [ray_panel(f"{data} losses", parts, data) for data in ("train", "test")]
        sections.append(Section(KINDS[kind].title, panels=panels))
    return sections, {"methods": measures, "seconds": _paper_seconds(by_kind)}


def _paper_hypervolumes(by_kind: Mapping[str, Mapping[str, Found]], data: str) -> Table:
    rows = []
    for what in ("loss", "accuracy"):
        for kind, parts in by_kind.items():
            values = {name: hypervolumes(part, data, what) for name, part in parts.items()}
            cells = [cell(values[name], 100) if name in values else "-" for name in ("LS", "FERERO")]
            ratio = "-"
            if "LS" in values and "FERERO" in values and mean(values["LS"]) > 0:
                ratio = f"{mean(values['FERERO']) / mean(values['LS']):.2f}"
            theirs = PUBLISHED.get((kind, what), (float("nan"), float("nan")))
            printed = [f"{theirs[0]:.2f}", f"{theirs[1]:.2f}", f"{theirs[1] / theirs[0]:.2f}"]
            rows.append([f"{KINDS[kind].title}, {what}", *cells, ratio, *printed])
    header = ["data", "LS", "FERERO", "ratio", "paper: LS", "FERERO", "ratio"]
    note = "Times 1e-2, mean and standard deviation over seeds, three rays. The paper's are of test data, by its code."
    return Table(header, rows, f"On {data} data", note)


def _paper_angles(by_kind: Mapping[str, Mapping[str, Found]]) -> Table:
    rows = []
    for kind, parts in by_kind.items():
        for name, part in parts.items():
            seeds = len({model["seed"] for model in part["models"]})
            angles = [
                f"{mean(angle(losses_on(model, 'train')) for model in part['models'][i : i + seeds]):.1f}"
                for i in range(0, len(part["models"]), seeds)
            ]
            one = figures_of(part)
            rows.append(
                [KINDS[kind].title, name, *angles, f"{one['ray_error_train']['median']:.1f}", str(one["diverged"])]
            )
    rays = next(iter(next(iter(by_kind.values())).values()))["rays"] if by_kind else []
    header = ["data", "method", *(f"ray at {degrees:g}" for degrees in rays), "median ray error", "diverged"]
    return Table(header, rows, "Angles reached, training losses, in degrees")


def _paper_times(by_kind: Mapping[str, Mapping[str, Found]]) -> Table:
    rows = [
        [
            KINDS[kind].title,
            name,
            str(len(part["models"])),
            f"{part['seconds'] / 60:.2f}",
            f"{part['seconds'] / part['epochs']:.2f}",
        ]
        for kind, parts in by_kind.items()
        for name, part in parts.items()
    ]
    note = (
        "Set-up, compilation and evaluation included. The paper: 11.7 minutes for one FERERO model, 5.9 for one of LS."
    )
    return Table(["data", "method", "models at once", "minutes", "s an epoch"], rows, "Time", note)


def _paper_seconds(by_kind: Mapping[str, Mapping[str, Found]]) -> dict[str, Any]:
    names = dict.fromkeys(name for parts in by_kind.values() for name in parts)
    return {
        name: {
            "seconds": sum(parts[name]["seconds"] for parts in by_kind.values() if name in parts),
            "models": sum(len(parts[name]["models"]) for parts in by_kind.values() if name in parts),
        }
        for name in names
    }
