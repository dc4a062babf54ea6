"""The sections of the report on speech, with their tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ferero_lab.experiments.experiment import Found, Section
from ferero_lab.report.panels import Curve, Level, Lines, Panel, Table
from ferero_lab.speech.experiment.losses import NAMES
from ferero_lab.speech.experiment.plan import TITLES, TOLERANCE, Levels, SpeechPlan

__all__ = [
    "LANGUAGE",
    "constraint_section",
    "data_section",
    "error_section",
    "search_section",
    "steering_section",
    "sweep_section",
    "timing_section",
    "trajectory_section",
]

"""The bar for each constraint on the dev set."""

_PAPER = (
    ("Komatsu et al.", "7.11", "-", "-", "-"),
    ("without CPC", "11.8", "10.2", "11.0", "1.6"),
    ("initial M2ASR", "7.3", "6.2", "6.7", "1.1"),
    ("linear scalarization", "6.8", "5.9", "6.4", "0.9"),
    ("FERERO", "5.4", "4.9", "5.1", "0.5"),
)
_PAPER_HOURS = 960 + 178
_SPLIT = {"dev": "dev set", "test": "test set"}


def error_section(
    plan: SpeechPlan, hours: float | None, methods: Mapping[str, Any], versus: Mapping[str, Any] | None
) -> Section:
    """The paper's table with our rows, the same on the dev set, and FERERO against linear scalarization."""
    header = ("", "English WER", plan.mandarin_errors, "average", "gap", "English, letters")
    paper = [[f"{row[0]} (the paper)", *row[1:], "-"] for row in _PAPER]
    ours = {data: [_error_row(name, one, data) for name, one in methods.items()] for data in _SPLIT}
    read = (
        "Percent; means over seeds ± their standard error, and in brackets the standard error over utterances. A row "
        "without ± has one seed. Gap: between the two error rates. Greedy decoding, no language model."
    )
    note = f"{read} {_compared(plan, hours)}"
    tables = [
        Table(header, [*paper, *ours["test"]], "Test set, beside the paper's table", note),
        Table(header, ours["dev"], "Dev set", f"{read} The dev set drives the constraints and chose the steps."),
    ]
    if versus is not None:
        tables.append(_versus_table(versus))
    text = (
        "At each seed all methods start from the same pre-trained weights and take the same "
        f"{_count(plan.tuning, 'pass', 'passes')} over the training set, each with the step that served it best on the "
        "dev set at the first seed."
    )
    return Section("Error rates", text, [], tables)


def constraint_section(plan: SpeechPlan, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> Section:
    """How each seed's losses stand to its levels, on dev and test."""
    header = (
        "method", "seed", "step", "ε₁", "cpc, dev", "over ε₁, dev", "over ε₁, test", "ε₂", "zh - en, dev",
        "off ε₂, dev", "off ε₂, test", "looks that held", "median off ε₂",
    )  # fmt: skip
    cells = [_level_row(name, row) for name, several in rows.items() for row in several]
    note = (
        f"The bar is {TOLERANCE:g} for each violation on the dev set. On the test set ± is the standard error over "
        "utterances; that of zh - en is the root of the sum of both languages' squares. Linear scalarization knows "
        "nothing of the levels: its violations say how far they are from where it ends. The last two columns are of "
        "the looks in the last third of the steps: at how many both constraints held within that bar, and the median "
        "distance of the gap from ε₂."
    )
    text = (
        "Wanted: cpc ≤ ε₁ and zh - en = ε₂. At each seed, "
        f"ε₁ lies {100 * plan.tightening:g} % under the CPC loss with which linear scalarization ends on the dev set, "
        f"and ε₂ is its gap moved by {plan.shift:+g}. Losses in nats: CPC for each predicted frame, CTC for each "
        "symbol of the target. The dev set drives the constraints, and says which of FERERO's models is kept: of the "
        f"looks in the last third of the steps the last at which both hold within {TOLERANCE:g}; where there is none, "
        "the last."
    )
    return Section("The constraints", text, [], [Table(header, cells, "Losses and levels", note)])


def trajectory_section(runs: Mapping[str, Found], levels: Levels | None) -> Section:
    """Losses over time, at the first seed."""
    text = "Losses on the dev set at every look, first seed, from the pre-trained weights."
    across = "" if levels is None else " Dashed across: the levels."
    return Section("Losses on the way", text + across, trajectory_panels(runs, levels))


def steering_section(run: Found) -> Section:
    """Weights and multipliers over time, at the first seed."""
    text = (
        "First seed. The weights have a part in common, for the sum that is minimised; to it come the multipliers: "
        "that of cpc ≤ ε₁ at CPC, that of zh - en = ε₂ at Mandarin and, with the other sign, at English."
    )
    return Section("Weights and multipliers", text, steering_panels(run))


def sweep_section(rows: Sequence[Mapping[str, Any]], worst: float, bar: float) -> Section:
    """The gap asked for and reached."""
    header = (
        "asked for", "dev set", "off", "test set", "off", "cpc over its bound, dev", "average error, test",
        "looks that held", "median off",
    )  # fmt: skip
    cells = [
        [
            f"{row['asked']:.3f}",
            f"{row['dev']['gap']:.3f}",
            f"{row['dev']['violations']['gap']:.3f}",
            _sure(row["test"]["gap"], row["test"]["standard_errors"]["gap"]),
            f"{row['test']['violations']['gap']:.3f}",
            f"{row['dev']['violations']['cpc']:.3f}",
            f"{row['test_average']:.2f} %",
            *_late_cells(row["late"]),
        ]
        for row in rows
    ]
    text = (
        f"FERERO with other gaps between the languages, {_count(rows[0]['steps'], 'step')} each from the pre-trained "
        f"weights: on the dev set the gap ends at most {worst:.3f} from what was asked for (bar {bar:g})."
    )
    note = (
        "One seed. CPC is bounded by where linear scalarization ended. ± and the band: standard error over test "
        "utterances. Gaps in nats for each symbol, Mandarin minus English. The last two columns as in the table of the "
        "constraints."
    )
    return Section("Other gaps", text, [sweep_panel(rows)], [Table(header, cells, "Swept gap", note)])


def search_section(plan: SpeechPlan, searches: Mapping[str, Sequence[Mapping[str, Any]]]) -> Section:
    """How the step of each method was chosen."""
    header = ("method", "step", "English WER", plan.mandarin_errors, "average", "worst violation", "chosen")
    rows = [
        [
            TITLES[name],
            f"{one['rate']:g}",
            *(f"{one[key]:.2f}" for key in ("en", "zh", "average")),
            "-" if one["violations"] is None else f"{max(one['violations'].values()):.3f}",
            "yes" if one["is_chosen"] else "",
        ]
        for name, several in searches.items()
        for one in several
    ]
    text = (
        f"Each method has the same {_count(len(plan.rates), 'step size')} of AdamW to choose from at the first seed, "
        f"by the average error on the dev set; FERERO among those that keep its constraints there within {TOLERANCE:g}."
    )
    return Section("The step of each method", text, [], [Table(header, rows, "A small search", "Dev set, percent.")])


def timing_section(found: Found, bar: float) -> Section:
    """What steering costs."""
    seconds = found["seconds"]
    utterances, frames = sum(found["utterances"].values()), sum(found["frames"].values())
    row = [f"{1e3 * seconds['weighted sum']:.1f}", f"{1e3 * seconds['ferero']:.1f}", f"{found['ratio']:.3f}"]
    note = (
        f"Medians over {_count(found['rounds'], 'round')}; forward, backward, clipping and optimizer step on the same "
        f"batch of {utterances} utterances, {frames / 100:.0f} seconds in all, taken in turns. The ratio is the median "
        f"of the rounds' ratios; bar {bar:g}."
    )
    header = ("weighted sum, ms", "FERERO, ms", "ratio")
    return Section("Time of a step", "", [], [Table(header, [row], "One step, three losses", note)])


def data_section(found: Found) -> Section:
    """What was trained on, what was left out, and the losses of pre-training."""
    header = ("language", "hours to train on", "utterances, train", "dev", "test", "symbols")
    rows = [
        [
            title,
            f"{found['hours'][key]:.2f}",
            *(f"{found['sizes'][key][data]}" for data in ("train", "dev", "test")),
            f"{found['symbols'][key]}",
        ]
        for key, title in LANGUAGE.items()
    ]
    skipped = [[reason, f"{count}"] for reason, count in found["skipped"].items()]
    tables = [
        Table(header, rows, "Recordings", f"Corpus: {found['corpus']}. Symbols without the blank."),
        Table(("reason", "utterances"), skipped or [["none", "0"]], "Left out"),
    ]
    encoder, every = found["parameters"]["encoder"], found["parameters"]["all"]
    text = (
        f"The conformer has {encoder / 1e6:.1f} million parameters, with its three heads {every / 1e6:.1f} million. "
        f"Pre-training: {_count(found['steps'], 'step')} on the sum of the three losses, AdamW's largest step "
        f"{found['rate']:g}."
    )
    return Section("Recordings and pre-training", text, [pretraining_panel(found)], tables)


def _versus_table(versus: Mapping[str, Any]) -> Table:
    header = ("FERERO minus linear scalarization", "average error", "by seed", "FERERO's gap", "the other's gap")
    rows = [
        [
            title,
            _over_seeds(versus[data]["average"], sign="+"),
            ", ".join(f"{value:+.2f}" for value in versus[data]["average"]["by_seed"]),
            _over_seeds(versus[data]["gap"]),
            _over_seeds(versus[data]["their_gap"]),
        ]
        for data, title in _SPLIT.items()
    ]
    note = (
        "Percentage points, seed by seed from the same weights, ± standard error over seeds. Gap: between the error "
        "rates of the two languages."
    )
    return Table(header, rows, "Against linear scalarization", note)


def _error_row(name: str, measured: Mapping[str, Any], data: str) -> list[str]:
    errors = measured[data]["errors"]
    cells = [_over_seeds(errors[key]) for key in ("en", "zh", "average", "gap", "en_letters")]
    return [f"{TITLES[name]} (ours)", *cells]


def _over_seeds(figure: Mapping[str, Any], *, sign: str = "") -> str:
    if figure["mean"] is None:
        return "-"
    words = format(figure["mean"], f"{sign}.2f")
    if figure["standard_error_seeds"] is not None:
        words += f" ± {figure['standard_error_seeds']:.2f}"
    if figure.get("standard_error_utterances") is not None:
        words += f" ({figure['standard_error_utterances']:.2f})"
    return words


def _level_row(name: str, row: Mapping[str, Any]) -> list[str]:
    cells = [TITLES[name], f"{row['seed']}", f"{row['kept']}"]
    for key, loss in (("cpc", row["dev"]["losses"]["cpc"]), ("gap", row["dev"]["gap"])):
        test = row["test"]
        cells += [
            f"{row['levels'][key]:.3f}",
            f"{loss:.3f}",
            f"{row['dev']['violations'][key]:.3f}",
            _sure(test["violations"][key], test["standard_errors"][key]),
        ]
    return [*cells, *_late_cells(row["late"])]


def _late_cells(late: Mapping[str, Any]) -> list[str]:
    return [f"{late['held']} of {late['looks']}", f"{late['off']:.3f}"]


def _sure(value: float, error: float | None) -> str:
    return f"{value:.3f}" if error is None else f"{value:.3f} ± {error:.3f}"


def _compared(plan: SpeechPlan, hours: float | None) -> str:
    paper = (
        f"The paper trains on {_PAPER_HOURS} hours (LibriSpeech 960, 100 of them with their text, AISHELL 178) and "
        "tests on those corpora"
    )
    if plan.corpus == "synthetic":
        return f"{paper}; ours are sounds that nobody said, and show only that the run works."
    if hours is None:
        return f"{paper}; ours are fewer, and other utterances."
    return (
        f"{paper}; ours are {hours:.2f} hours, {_PAPER_HOURS / hours:,.0f} times less, and other test utterances. What "
        "can be compared across the two is the order of the rows, not the level."
    )


def _count(number: int, noun: str, nouns: str = "") -> str:
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"


LANGUAGE = {"zh": "Mandarin", "en": "English"}
_STEPS = "optimizer steps"
_NATS = "nats for each symbol"
_CONSTRAINTS = ("cpc ≤ ε₁", "zh - en = ε₂")
_CPC, _ZH, _EN = range(len(NAMES))


def pretraining_panel(run: Found) -> Lines:
    """The three dev losses while the weights are fresh."""
    lines = [_line(run, [row[i] for row in run["course"]["held_out"]], _loss(i)) for i in range(len(NAMES))]
    return Lines("Pre-training: losses on the dev set", _STEPS, "nats", lines)


def trajectory_panels(runs: Mapping[str, Found], levels: Levels | None) -> list[Panel]:
    """The dev losses of some methods: CPC and the gap with their levels, and each language."""
    bound = [] if levels is None else [Level(levels.cpc, f"ε₁ = {levels.cpc:.3f}")]
    gap = [] if levels is None else [Level(levels.gap, f"ε₂ = {levels.gap:.3f}")]
    return [
        Lines("CPC", _STEPS, "nats for each predicted frame", _curves(runs, lambda row: row[_CPC]), levels=bound),
        Lines("Mandarin minus English", _STEPS, _NATS, _curves(runs, lambda row: row[_ZH] - row[_EN]), levels=gap),
        Lines("CTC, Mandarin", _STEPS, _NATS, _curves(runs, lambda row: row[_ZH])),
        Lines("CTC, English", _STEPS, _NATS, _curves(runs, lambda row: row[_EN])),
    ]


def steering_panels(run: Found) -> list[Panel]:
    """With which weights a run under constraints was trained, and its multipliers."""
    course, title = run["course"], TITLES[run["method"]]
    weights = [_line(run, [row[i] for row in course["weights"]], _loss(i)) for i in range(len(NAMES))]
    panels: list[Panel] = [Lines(f"{title}: weights of the losses", _STEPS, "weight", weights)]
    if all(len(row) == len(_CONSTRAINTS) for row in course["multipliers"]):
        lines = [_line(run, [row[i] for row in course["multipliers"]], name) for i, name in enumerate(_CONSTRAINTS)]
        panels.append(Lines(f"{title}: multipliers of the constraints", _STEPS, "multiplier", lines))
    return panels


def sweep_panel(rows: Sequence[Mapping[str, Any]]) -> Lines:
    """The gap reached over the gap asked for."""
    asked = [row["asked"] for row in rows]
    lines = [
        Curve(asked, asked, "asked for", dashed=True),
        Curve(asked, [row["dev"]["gap"] for row in rows], "dev set"),
        Curve(
            asked,
            [row["test"]["gap"] for row in rows],
            "test set",
            [row["test"]["standard_errors"]["gap"] for row in rows],
        ),
    ]
    return Lines("Gap asked for and reached", "gap asked for, nats for each symbol", "gap reached", lines)


def _curves(runs: Mapping[str, Found], value: Callable[[Sequence[float]], float]) -> list[Curve]:
    return [_line(run, [value(row) for row in run["course"]["held_out"]], TITLES[name]) for name, run in runs.items()]


def _line(run: Found, values: Sequence[float], label: str) -> Curve:
    return Curve(run["course"]["steps"], values, label)


def _loss(index: int) -> str:
    return LANGUAGE.get(NAMES[index], "CPC")
