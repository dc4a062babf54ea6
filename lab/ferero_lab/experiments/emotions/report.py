"""The report of the emotions experiment: its sections, and the measures they show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median, stdev
from typing import Any

import ferero
from ferero_lab.experiments.emotions.plan import PAPER, REFERENCE, TITLES, EmotionsPlan
from ferero_lab.experiments.emotions.train import CONSTANT_STEP, HELD_OUT, NAMES
from ferero_lab.experiments.experiment import Found, Section, Story
from ferero_lab.report.panels import Curve, FrontPanel, FrontPoint, Lines, Panel, Profile, Table

__all__ = ["attained", "measure", "paired", "shares_by_step", "tell_story"]

LIMIT = 4.0
"""Degrees: the bar for FERERO's median, and up to which a ray counts as attained."""
SHARE = 1 / 3
"""The bar for FERERO's median over that of the best neighbour."""

UNTRAINED = 6**0.5 * math.log(2)
"""The length of six losses of a network that knows nothing."""


def tell_story(plan: EmotionsPlan, found: Mapping[str, Found]) -> Story:
    """The report of the parts that are there.

    Args:
        plan: what was to be run.
        found: what the parts gave, by key.
    """
    methods = {name: found[f"rays-{name}"] for name in TITLES if f"rays-{name}" in found}
    measures: dict[str, Any] = {"mode": plan.mode, "methods": {}}
    sections: list[Section] = []
    words = [_what(plan, found)]
    if methods:
        measured = {name: {"step": one["step"], **measure(one)} for name, one in methods.items()}
        rays = attained(methods, LIMIT)
        measures |= {"methods": measured, "rays": rays, "bars": _bars(measured, rays)}
        words += [_outcome(measures["bars"], measured), _warning(measured)]
        sections += [
            profile_section(plan, methods, measured),
            volume_section(plan, methods, measured),
            rays_section(methods, measured, rays, LIMIT),
        ]
        if any(one["search"] for one in methods.values()):
            measures["search"] = {name: one["search"] for name, one in methods.items()}
            measures["share_by_step"] = {f"{step:g}": share for step, share in shares_by_step(methods).items()}
            sections.append(search_section(plan, methods))
    if "constant" in found:
        measures["constant"] = measure(found["constant"])
        sections.append(constant_section(plan, found["constant"], measures["constant"]))
    if "held-out" in found:
        section, measures["held_out"] = held_out_section(plan, found["held-out"])
        sections.append(section)
    return Story("Six emotions, ten rays", " ".join(filter(None, words)), sections, measures)


def _what(plan: EmotionsPlan, found: Mapping[str, Found]) -> str:
    is_stand_in = any(one.get("data") == "stand-in" for one in found.values())
    songs = "a synthetic stand-in for 391 songs" if is_stand_in else "391 songs"
    whose = "the paper's settings" if plan.mode == "paper" else "our settings"
    return (
        f"A network with four layers learns six emotions from {songs}, one loss each, and is asked for ten rays in "
        f"the space of the six losses: {whose}, {plan.epochs} epochs of {plan.optimizer}, {_count(plan.seeds, 'seed')}."
    )


def _bars(measured: Mapping[str, Any], rays: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {"rays_attained": sum(ray["is_attained"] for ray in rays)}
    if "ferero" not in measured:
        return found
    error = measured["ferero"]["train"]["error_median"]
    found["error_median"] = {"value": error, "bar": LIMIT, "is_met": error <= LIMIT}
    diverged = measured["ferero"]["diverged"]
    found["diverged"] = {"value": diverged, "bar": 0, "is_met": diverged == 0}
    others = {name: one["train"]["error_median"] for name, one in measured.items() if name != "ferero"}
    if others:
        best = min(others, key=lambda name: others[name])
        share = error / others[best]
        found["over_best_neighbour"] = {"value": share, "bar": SHARE, "neighbour": best, "is_met": share <= SHARE}
    return found


def _outcome(bars: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    if "ferero" not in measured:
        return ""
    words = f"FERERO's training losses end {bars['error_median']['value']:.1f} degrees from their rays (median)"
    if "over_best_neighbour" in bars:
        best = bars["over_best_neighbour"]["neighbour"]
        words += (
            f", the best neighbour's ({TITLES[best]}) {measured[best]['train']['error_median']:.1f}, "
            f"a ratio of {bars['over_best_neighbour']['value']:.2f}"
        )
    ours = measured["ferero"]
    words += (
        f"; {bars['diverged']['value']} of {ours['models']} models diverged. On the test songs FERERO's median is "
        f"{ours['test']['error_median']:.0f} degrees"
    )
    is_by_heart = ours["train"]["level_median"] < ours["test"]["level_median"] / 3
    return f"{words}, since the training songs are learned by heart." if is_by_heart else f"{words}."


def _warning(measured: Mapping[str, Any]) -> str:
    lowest = min(one["train"]["level_median"] for one in measured.values())
    if lowest < 0.9 * UNTRAINED:
        return ""
    return (
        f"Nobody has learned much: the lowest loss level of a method is {lowest:.2f}, where a network that knows "
        f"nothing has {UNTRAINED:.2f}. With these settings the rows say little about the methods."
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


_SINGLE_LOOP = (
    " FERERO is Algorithm 3 with gamma = 1e-4 and, not printed for this experiment, c_h = 0.5 as for the images; exact "
    "slopes on the second half of each batch."
)


def profile_section(plan: EmotionsPlan, methods: Mapping[str, Found], measured: Mapping[str, Any]) -> Section:
    """Who is on the rays: profiles, losses in parallel, and errors."""
    names = [TITLES[name] for name in methods]
    profiles = [_mean_profiles(found) for found in methods.values()]
    shown = [name for name in ("ferero", "ls") if name in methods] or list(methods)[:1]
    panels: list[Panel] = [
        Profile("Relative loss profile, training losses", NAMES, names, profiles),
        *(_parallel(TITLES[name], methods[name]) for name in shown),
    ]
    header = (
        "method", "step", "ray error, training", "largest", "ray error, test", "loss level, training", "diverged",
        "ms per epoch and model",
    )  # fmt: skip
    rows = [_error_row(TITLES[name], methods[name]["step"], m) for name, m in measured.items()]
    note = (
        f"{_setting(plan, next(iter(methods.values())))} Ray error: degrees between the six losses and the ray, median "
        "over rays and seeds; a model that diverged counts as 180. Loss level: length of the six training losses, "
        "median. Time: all rays and seeds of a method trained together, divided by their number."
        + (" Smooth Tchebycheff has mu = 0.003, better in a trial than 0.01 and 0.03." if "stch" in methods else "")
        + (_SINGLE_LOOP if plan.mode == "paper" and "ferero" in methods else "")
    )
    text = (
        "A profile is the losses over the entries of the ray, as shares: on its ray a model has 1/6 everywhere. Shown "
        "are means over seeds. The second figure shows the losses themselves, one line for each ray."
    )
    return Section("On the rays", text, panels, [Table(header, rows, "Angles to the rays", note)])


def volume_section(plan: EmotionsPlan, methods: Mapping[str, Found], measured: Mapping[str, Any]) -> Section:
    """The paper's row of hypervolumes, on training and on test songs."""
    lines = {data: [_volume_line(name, found, data) for name, found in methods.items()] for data in ("train", "test")}
    panels = [
        Lines("Training songs", "optimizer steps", "hypervolume x 100", lines["train"]),
        Lines("Test songs", "optimizer steps", "hypervolume x 100", lines["test"]),
    ]
    rows = [_volume_row(name, measured) for name in measured]
    header = ("method", "training songs", "FERERO minus it", "test songs", "FERERO minus it", "the paper")
    point = ", ".join(f"{value:g}" for value in REFERENCE)
    largest = 100.0
    for value in REFERENCE:
        largest *= value
    note = (
        f"Times 1e-2, as in the paper, below ({point}), over the ten models of a seed; at most {largest:.2f}, for "
        f"losses of 0. Mean ± standard deviation over {plan.seeds} seeds; differences are taken seed by seed. "
        f"{_setting(plan, next(iter(methods.values())))} The paper does not say which songs its losses are of, nor "
        "which rays were drawn; its figures other than FERERO's are quoted there from another paper."
    )
    text = (
        "Small training losses are worth most here, whatever the ray: a method that ignores the preferences gains by "
        "it. On test songs a ray that allows one loss to be large leaves the model outside the reference point."
    )
    return Section("Hypervolume", text, panels, [Table(header, rows, "Hypervolume", note)])


def rays_section(
    methods: Mapping[str, Found], measured: Mapping[str, Any], rays: Sequence[Mapping[str, Any]], limit: float
) -> Section:
    """Whether each ray can be had at all."""
    header = ("ray", "largest : smallest", "nearest model", "its method", "its loss level", "FERERO, mean over seeds")
    rows = []
    for index, ray in enumerate(rays):
        own = f"{measured['ferero']['train']['error_mean_by_ray'][index]:.1f}°" if "ferero" in measured else "-"
        rows.append(
            [
                ", ".join(f"{entry:.2f}" for entry in ray["ray"]),
                f"{ray['ratio']:.1f}",
                f"{ray['error']:.2f}°",
                TITLES[ray["method"]],
                f"{ray['level']:.2g}",
                own,
            ]
        )
    count = sum(ray["is_attained"] for ray in rays)
    text = (
        f"{count} of {len(rays)} rays are shown to be attainable, since some model of this run, trained as long "
        f"as the others, ends within {limit:g} degrees of it with its training losses. The network can learn the "
        "songs by heart, so that no ray is ruled out by the data; every entry is bounded away from 0 (at least "
        f"{min(min(ray['ray']) for ray in rays):.2f} for unit length)."
    )
    note = f"Over {len(methods)} methods and all seeds, training losses."
    return Section("Ray by ray", text, [], [Table(header, rows, "The ten rays", note)])


def search_section(plan: EmotionsPlan, methods: Mapping[str, Found]) -> Section:
    """How the step of each method was chosen."""
    header = ("method", "step", "ray error, training", "ray error, held out", "loss, held out", "chosen")
    rows = [
        [
            TITLES[name],
            f"{one['step']:g}",
            f"{one['error_train']:.1f}°",
            f"{one['error_held_out']:.1f}°",
            f"{one['loss_held_out']:.2f}",
            "yes" if one["step"] == found["step"] else "",
        ]
        for name, found in methods.items()
        for one in found["search"]
    ]
    note = (
        f"One seed that is not in the other tables, {plan.epochs} epochs on all but {HELD_OUT} training songs, which "
        "are the held-out ones. Medians over ten rays; mean of the held-out losses."
    )
    text = (
        "Each method has the same three steps to choose from, by the ray error of its training losses. The held-out "
        "songs would be no guide: once the others are learned by heart, their losses are far from every "
        f"ray.{_shares_in_words(methods)}"
    )
    return Section("The step of each method", text, [], [Table(header, rows, "A small search", note)])


def shares_by_step(methods: Mapping[str, Found]) -> dict[float, float]:
    """FERERO's ray error in the search over that of the best neighbour, at each step; empty where one is missing."""
    others = [name for name in methods if name != "ferero"]
    if "ferero" not in methods or not others:
        return {}
    errors = {name: {one["step"]: one["error_train"] for one in found["search"]} for name, found in methods.items()}
    return {step: own / min(errors[name][step] for name in others) for step, own in errors["ferero"].items()}


def _shares_in_words(methods: Mapping[str, Found]) -> str:
    shares = shares_by_step(methods)
    if not shares:
        return ""
    words = ", ".join(f"{share:.2f} at {step:g}" for step, share in shares.items())
    return f" Whatever the step, FERERO's error over that of the best neighbour at the same step is {words}."


def constant_section(plan: EmotionsPlan, found: Found, measured: Mapping[str, Any]) -> Section:
    """FERERO as it comes."""
    header = ("step", "ray error, training", "largest", "ray error, test", "loss level, training", "diverged")
    row = _error_row("", CONSTANT_STEP, measured)[1:7]
    text = f"FERERO at its defaults with Adam at {CONSTANT_STEP:g}, not searched for and not lowered on the way."
    note = _setting(plan, found, is_cosine=False)
    return Section("A constant step", text, [], [Table(header, [row], "FERERO, a constant step", note)])


def held_out_section(plan: EmotionsPlan, found: Found) -> tuple[Section, list[dict[str, Any]]]:
    """FERERO's constraints driven by songs that it does not learn from."""
    data = ("train", "validation", "test")
    header = (
        "epochs", "step", "rays", "driven by", "ray error, training", "held out", "test", "loss level, training",
        "held out", "test",
    )  # fmt: skip
    rows, measured = [], []
    for one in found["cases"]:
        figures = measure(one, data)
        measured.append({key: one[key] for key in ("epochs", "step", "rays_of", "driven_by")} | figures)
        rows.append(
            [
                f"{one['epochs']}",
                f"{one['step']:g}",
                "mild" if one["rays_of"] == "mild" else "the ten",
                "held-out songs" if one["driven_by"] == "validation" else "training songs",
                *(f"{figures[name]['error_median']:.1f}°" for name in data),
                *(f"{figures[name]['level_median']:.2f}" for name in data),
            ]
        )
    note = (
        f"{_songs(found['cases'][0])} {HELD_OUT} of the training songs are held out. {plan.seeds} seeds, batches of "
        f"{plan.batch}, Adam, falling to 0 along a cosine. Medians over rays and seeds. A network that knows nothing "
        "has a loss level of 1.70. Mild rays: the ten rays drawn towards equal losses, largest entry about 1.5 times "
        "the smallest."
    )
    text = (
        "The gradients come from the training songs, the values that steer from held-out ones. An equality is met "
        "where it can be: for the ten rays held-out losses can only be brought there by making most of them large, and "
        "that is what happens, the more so the longer the training. The loss level says whether a ray was worth asking "
        "for."
    )
    return Section("Held-out losses in charge", text, [], [Table(header, rows, "FERERO, held out", note)]), measured


def _mean_profiles(found: Found) -> list[list[float]]:
    """(P, 6): the mean over seeds of each ray's relative loss profile."""
    profiles = []
    for ray, runs in zip(found["rays"], by_ray(found["runs"]), strict=True):
        losses = [run["losses"]["train"] for run in runs if run["status"] != "diverged"]
        if not losses:
            profiles.append([float("nan")] * 6)
            continue
        profiles.append(ferero.relative_loss_profile(losses, ray).mean(dim=0).tolist())
    return profiles


def _parallel(title: str, found: Found) -> FrontPanel:
    points = []
    for index, (ray, runs) in enumerate(zip(found["rays"], by_ray(found["runs"]), strict=True), start=1):
        losses = [_mean_and_spread([run["losses"]["train"][i] for run in runs]) for i in range(6)]
        error = fmean(180.0 if run["errors"]["train"] is None else run["errors"]["train"] for run in runs)
        points.append(
            FrontPoint(
                [mean for mean, _ in losses],
                group=title,
                label=f"{title}, ray {index}: " + " : ".join(f"{entry:.2f}" for entry in ray),
                details={
                    "ray error": f"{error:.2f}°, mean over seeds",
                    "ends": ", ".join(run["status"] for run in runs),
                },
                spread=[spread for _, spread in losses],
                ok=all(run["status"] != "diverged" for run in runs),
            )
        )
    return FrontPanel(f"{title}: training losses", NAMES, points)


def _mean_and_spread(values: Sequence[float | None]) -> tuple[float, float]:
    known = [value for value in values if value is not None]
    return spread_of(known) if known else (float("nan"), 0.0)


def _volume_line(name: str, found: Found, data: str) -> Curve:
    steps, volumes = over_the_way(found["runs"], data)
    moments = [spread_of(values) for values in zip(*volumes, strict=True)]
    return Curve(steps, [mean for mean, _ in moments], TITLES[name], [spread for _, spread in moments])


def _volume_row(name: str, measured: Mapping[str, Any]) -> list[str]:
    row = [TITLES[name]]
    for data in ("train", "test"):
        own = measured[name][data]["hypervolume_by_seed"]
        row.append(_plus_minus(*spread_of(own)))
        is_compared = name != "ferero" and "ferero" in measured
        row.append(_plus_minus(*paired(measured["ferero"][data]["hypervolume_by_seed"], own)) if is_compared else "-")
    return [*row, PAPER.get(name, "-")]


def _error_row(title: str, step: float, measured: Mapping[str, Any]) -> list[str]:
    train, test = measured["train"], measured["test"]
    return [
        title,
        f"{step:g}",
        f"{train['error_median']:.1f}°",
        f"{train['error_largest']:.1f}°",
        f"{test['error_median']:.0f}°",
        f"{train['level_median']:.2g}",
        f"{measured['diverged']} of {measured['models']}",
        f"{1e3 * measured['seconds']:.1f}",
    ]


def _plus_minus(mean: float, spread: float) -> str:
    return f"{mean:.4f} ± {spread:.4f}"


def _setting(plan: EmotionsPlan, found: Found, *, is_cosine: bool | None = None) -> str:
    fall = ", falling to 0 along a cosine" if (plan.is_cosine if is_cosine is None else is_cosine) else ""
    how = f"batches of {plan.batch}, {plan.optimizer}{fall}"
    return f"{_songs(found)} {plan.seeds} seeds, {found['epochs']} epochs, {how}."


def _songs(found: Found) -> str:
    songs = "stand-in, no true songs" if found["data"] == "stand-in" else "Mulan's emotions"
    return f"Data: {songs}, {found['songs']} to train on and 202 to test on."


UNIT = 1e-2
"""Of the hypervolumes, as in the paper's table."""

Run = dict[str, Any]


def measure(found: Found, data: Sequence[str] = ("train", "test")) -> dict[str, Any]:
    """Errors, levels, hypervolumes and ends of one method's models.

    Angles are in degrees, over all rays and seeds; a model that diverged counts as 180. The level is the length of the
    six losses; seconds are those of an epoch and a model.
    """
    runs: list[Run] = found["runs"]
    measured: dict[str, Any] = {
        "models": len(runs),
        "diverged": sum(run["status"] == "diverged" for run in runs),
        "seconds": found["seconds"],
    }
    for name in data:
        errors = [_degrees(run["errors"][name]) for run in runs]
        measured[name] = {
            "error_median": median(errors),
            "error_largest": max(errors),
            "error_median_by_seed": [median(_degrees(r["errors"][name]) for r in group) for group in by_seed(runs)],
            "error_mean_by_ray": [fmean(_degrees(r["errors"][name]) for r in group) for group in by_ray(runs)],
            "level_median": median(_level(run["losses"][name]) for run in runs),
            "hypervolume_by_seed": hypervolumes(runs, name),
        }
    return measured


def hypervolumes(runs: Sequence[Run], data: str) -> list[float]:
    """That of the ten final losses of each seed, times 100."""
    return [_volume([run["losses"][data] for run in group]) for group in by_seed(runs)]


def over_the_way(runs: Sequence[Run], data: str) -> tuple[list[int], list[list[float]]]:
    """The steps at which there was an evaluation (E,), and the hypervolume then of each seed, (S, E)."""
    steps = runs[0]["course"]["steps"]
    volumes = [
        [_volume([run["course"][data][moment] for run in group]) for moment in range(len(steps))]
        for group in by_seed(runs)
    ]
    return steps, volumes


def paired(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation of the differences, seed by seed."""
    return spread_of([a - b for a, b in zip(ours, theirs, strict=True)])


def spread_of(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation; that of one value is 0."""
    return fmean(values), stdev(values) if len(values) > 1 else 0.0


def attained(methods: dict[str, Found], limit: float) -> list[dict[str, Any]]:
    """For each ray the model that came nearest with its training losses, whatever its method.

    Args:
        methods: what their parts gave, by name.
        limit: the angle up to which a ray counts as attained.
    """
    rays = next(iter(methods.values()))["rays"]
    found = []
    for index, ray in enumerate(rays):
        runs = [(name, run) for name, one in methods.items() for run in one["runs"] if run["ray"] == index]
        name, nearest = min(runs, key=lambda pair: _degrees(pair[1]["errors"]["train"]))
        error = _degrees(nearest["errors"]["train"])
        found.append(
            {
                "ray": ray,
                "ratio": max(ray) / min(ray),
                "error": error,
                "method": name,
                "level": _level(nearest["losses"]["train"]),
                "is_attained": error <= limit,
            }
        )
    return found


def by_seed(runs: Sequence[Run]) -> list[list[Run]]:
    """The models of each seed together."""
    seeds = dict.fromkeys(run["seed"] for run in runs)
    return [[run for run in runs if run["seed"] == seed] for seed in seeds]


def by_ray(runs: Sequence[Run]) -> list[list[Run]]:
    """The models of each ray together."""
    return [[run for run in runs if run["ray"] == ray] for ray in range(max(run["ray"] for run in runs) + 1)]


def _volume(points: Sequence[Sequence[float | None]]) -> float:
    known = [[math.nan if value is None else value for value in point] for point in points]
    finite = [point for point in known if all(map(math.isfinite, point))]
    return ferero.hypervolume(finite, REFERENCE) / UNIT if finite else 0.0


def _level(losses: Sequence[float | None]) -> float:
    return math.hypot(*(math.inf if value is None else value for value in losses))


def _degrees(error: float | None) -> float:
    return 180.0 if error is None or math.isnan(error) else error
