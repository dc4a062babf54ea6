"""The report of the fairness experiment: its sections, and the measures they show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean, stdev
from typing import Any

from ferero_lab.experiments.experiment import Found, Section, Story
from ferero_lab.experiments.fairness.plan import DRIVING, TITLES, FairnessPlan
from ferero_lab.experiments.fairness.train import PARTS
from ferero_lab.report.panels import Curve, FrontPanel, FrontPoint, Lines, Table

__all__ = ["excess_over", "measure", "tell_story", "violation"]

BAR = 0.01
"""The largest violation of an asked gap on the people that drive the constraint."""


def tell_story(plan: FairnessPlan, found: Mapping[str, Found]) -> Story:
    """The report of the parts that are there.

    Args:
        plan: what was to be run.
        found: what the parts gave, by method.
    """
    there = {name: found[name] for name in TITLES if name in found}
    measured = {name: measure(one) for name, one in there.items()}
    steered = {name: one for name, one in there.items() if name in DRIVING}
    violations = {
        name: {"driving": violation(name, one), "test": violation(name, one, "test")} for name, one in steered.items()
    }
    bars = {
        name: {"value": one["driving"], "bar": BAR, "is_met": one["driving"] <= BAR} for name, one in violations.items()
    }
    excess = {
        name: excess_over(measured[name], measured["penalty"])
        for name in steered
        if "penalty" in measured and name != "ferero-decisions"
    }
    measures = {
        "mode": plan.mode,
        "methods": measured,
        "violations": violations,
        "bars": bars,
        "log_loss_above_penalty": excess,
        "diverged": sum(row["diverged"] for rows in measured.values() for row in rows),
        "times": {name: {"seconds": one["seconds"]} for name, one in there.items()},
    }
    sections = []
    if there:
        note = _note(plan, next(iter(there.values())))
        sections.append(_front_section(measured, note))
        if steered:
            sections.append(_kept_section({name: measured[name] for name in steered}, violations, excess, note))
    return Story("A classifier with a bounded gap", _lead(plan, there, measured, violations), sections, measures)


def _lead(
    plan: FairnessPlan, there: Mapping[str, Found], measured: Mapping[str, Measured], violations: Mapping[str, Any]
) -> str:
    who = "a synthetic stand-in for UCI Adult" if any(f["data"] == "stand-in" for f in there.values()) else "UCI Adult"
    words = [
        f"A small network predicts high incomes on {who}: the log-loss is minimised while the mean predictions for "
        f"women and men differ by at most eps, for several eps, {plan.seeds} seeds each."
    ]
    if "plain" in measured:
        row = measured["plain"][0]["test"]
        words.append(
            f"Without a bound the gap on the test people is {row['gap'][0]:.3f} (of decisions "
            f"{row['decision_gap'][0]:.3f}), at a log-loss of {row['log_loss'][0]:.4f} and an accuracy of "
            f"{row['accuracy'][0]:.1%}."
        )
    if "ferero" in violations:
        found = violations["ferero"]
        words.append(
            f"Driven by the gap of held-out people, FERERO exceeds no asked gap by more than {found['driving']:.4f} "
            f"there, over all bounds and seeds, and by {found['test']:.4f} on the test people."
        )
        if "ferero-training" in violations:
            other = violations["ferero-training"]
            words.append(
                f"Driven by the training people it exceeds none by more than {other['driving']:.4f} there, and by "
                f"{other['test']:.4f} on the test people."
            )
        tight = measured["ferero"][0]
        words.append(
            f"A gap of {tight['asked']:g} costs a log-loss of {tight['test']['log_loss'][0]:.4f} and an accuracy of "
            f"{tight['test']['accuracy'][0]:.1%}."
        )
    return " ".join(words)


def _front_section(measured: Mapping[str, Measured], note: str) -> Section:
    base = measured["plain"][0]["test"] if "plain" in measured else None
    log_loss, wrong = (0.0, 0.0) if base is None else (base["log_loss"][0], 1 - base["accuracy"][0])
    more = "" if base is None else ", excess"
    panels = [
        FrontPanel(
            "Test people: mean predictions",
            ("gap of predictions", f"log-loss{more}"),
            [_point(name, row, "gap", "log_loss", log_loss) for name, rows in measured.items() for row in rows],
        ),
        FrontPanel(
            "Test people: decisions",
            ("gap of decisions", f"wrong decisions{more}"),
            [_point(name, row, "decision_gap", "accuracy", wrong) for name, rows in measured.items() for row in rows],
        ),
    ]
    header = ("method", "asked", "gap, training", "gap, held out", "gap, test", "decisions, test", "log-loss, test",
              "accuracy, test")  # fmt: skip
    rows = [_row(name, row) for name, rows in measured.items() for row in rows]
    text = (
        "Each point is the mean over seeds, with its standard deviation; excess is over log-loss alone. All ways lead "
        "along nearly the same front of predictions and log-loss; they differ in whether one gets the point one asked "
        "for. A fixed penalty has to be tried out for that."
    )
    return Section("The front", text, panels, [Table(header, rows, "Gaps, log-loss and accuracy", note)])


def _kept_section(
    measured: Mapping[str, Measured], violations: Mapping[str, Any], excess: Mapping[str, Any], note: str
) -> Section:
    panels = []
    gaps = [row["asked"] for row in next(iter(measured.values()))]
    for part, title in (("validation", "Held-out people"), ("test", "Test people")):
        lines = []
        for name, rows in measured.items():
            pairs = [row[part][DRIVING[name][1]] for row in rows]
            beyond = [mean - gap for (mean, _), gap in zip(pairs, gaps, strict=True)]
            lines.append(Curve(gaps, beyond, TITLES[name], [spread for _, spread in pairs]))
        lines.append(Curve(gaps, [0.0] * len(gaps), "as asked", dashed=True))
        panels.append(Lines(title, "largest gap asked for", "gap minus what was asked", lines))
    header = (
        "method", "kept on", "largest excess there", "largest excess, test", "mean over seeds, test",
        "log-loss above the penalty's front",
    )  # fmt: skip
    cells = []
    for name in measured:
        part, figure = DRIVING[name]
        where = f"{'held-out' if part == 'validation' else 'training'} {'decisions' if 'decision' in figure else 'gap'}"
        above = [value for value in excess.get(name, []) if value is not None]
        cells.append(
            [
                TITLES[name],
                where,
                f"{violations[name]['driving']:.4f}",
                f"{violations[name]['test']:.4f}",
                f"{_off(measured[name], figure):.4f}",
                f"{min(above):+.4f} to {max(above):+.4f}" if above else "-",
            ]
        )
    text = (
        "Two mean predictions are constrained from both sides, not the gap itself, whose mean over batches is too "
        "large. The values that steer may come from people the network does not learn from, and need no gradient: in "
        "the last line they are decisions, yes or no."
    )
    more = (
        " Largest excess: of the gap over what was asked, at most over all bounds and seeds. Mean over seeds: how far "
        "it is from the bound on test people, above or below, at most over bounds. The last column compares with "
        "straight lines between the penalty's points at the same gap on test people."
    )
    return Section("Asked and got", text, panels, [Table(header, cells, "Bounds that were kept", note + more)])


def _off(rows: Measured, figure: str) -> float:
    """How far the mean gap on test people is from the bound, at most."""
    return max(abs(float(row["test"][figure][0]) - float(row["asked"])) for row in rows)


def _point(name: str, row: Mapping[str, Any], gap: str, figure: str, base: float) -> FrontPoint:
    (x, dx), (y, dy) = row["test"][gap], row["test"][figure]
    return FrontPoint(
        [x, (1 - y if figure == "accuracy" else y) - base],
        group=TITLES[name],
        label=f"{TITLES[name]}, {_asked(name, row['asked'])}",
        details={"gap, held out": f"{row['validation'][gap][0]:.4f}", "accuracy": f"{row['test']['accuracy'][0]:.2%}"},
        spread=[dx, dy],
        ok=row["diverged"] == 0,
    )


def _row(name: str, row: Mapping[str, Any]) -> list[str]:
    gaps = [_plus_minus(*row[part]["gap"]) for part in ("train", "validation", "test")]
    test = row["test"]
    return [
        TITLES[name],
        _asked(name, row["asked"]),
        *gaps,
        _plus_minus(*test["decision_gap"]),
        _plus_minus(*test["log_loss"]),
        f"{test['accuracy'][0]:.2%} ± {test['accuracy'][1]:.2%}",
    ]


def _asked(name: str, value: float | None) -> str:
    return "nothing" if value is None else f"weight {value:g}" if name == "penalty" else f"<= {value:g}"


def _plus_minus(mean: float, spread: float) -> str:
    return f"{mean:.4f} ± {spread:.4f}"


def _note(plan: FairnessPlan, found: Found) -> str:
    people = "stand-in, no true people" if found["data"] == "stand-in" else "UCI Adult"
    sizes = found["people"]
    return (
        f"Data: {people}, {sizes['train']} to train on, {sizes['validation']} held out, {sizes['test']} to test on. "
        f"Mean ± standard deviation over {plan.seeds} seeds. One hidden layer of {plan.width}, {found['epochs']} "
        f"epochs of Adam at {plan.step:g}, falling to 0 along a cosine, batches of {plan.batch}; the number of epochs "
        "and the batches were set after trials on UCI Adult with seeds 0 to 2, the rest was not searched for. A "
        "decision is yes where the prediction is above a half."
    )


Measured = list[dict[str, Any]]
"""For each bound or weight: "asked", "diverged", and by part and figure a pair of mean and standard deviation."""


def measure(found: Found) -> Measured:
    """Means and standard deviations over seeds, in the order asked for; models that diverged are left out of them."""
    rows = []
    for asked in dict.fromkeys(run["asked"] for run in found["runs"]):
        runs = [run for run in found["runs"] if run["asked"] == asked]
        kept = [run for run in runs if run["status"] != "diverged"]
        row: dict[str, Any] = {"asked": asked, "models": len(runs), "diverged": len(runs) - len(kept)}
        for part in PARTS:
            row[part] = {
                name: _spread([run["measured"][part][name] for run in kept]) for name in runs[0]["measured"][part]
            }
        rows.append(row)
    return rows


def violation(method: str, found: Found, part: str | None = None) -> float:
    """By how much the gap exceeds what was asked, at most over bounds and seeds; 0 where it never does.

    Args:
        method: one of `DRIVING`.
        found: what its part gave.
        part: on which people; None for those that drive the constraint.
    """
    driving, figure = DRIVING[method]
    beyond: list[float] = [_gap(run["measured"][part or driving][figure]) - run["asked"] for run in found["runs"]]
    return max(0.0, *beyond)


def excess_over(rows: Measured, front: Measured, figure: str = "log_loss", gap: str = "gap") -> list[float | None]:
    """How far each point lies above the line through another front's points, on test people, at the same gap.

    Returns:
        One number a row; None outside the other front's gaps.
    """
    line = sorted((row["test"][gap][0], row["test"][figure][0]) for row in front)
    return [_above(line, row["test"][gap][0], row["test"][figure][0]) for row in rows]


def _above(line: Sequence[tuple[float, float]], x: float, y: float) -> float | None:
    for (x0, y0), (x1, y1) in pairwise(line):
        if x0 <= x <= x1 and x1 > x0:
            return y - (y0 + (y1 - y0) * (x - x0) / (x1 - x0))
    return None


def _gap(value: float | None) -> float:
    return math.inf if value is None or math.isnan(value) else value


def _spread(values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return math.nan, math.nan
    return fmean(values), stdev(values) if len(values) > 1 else 0.0
