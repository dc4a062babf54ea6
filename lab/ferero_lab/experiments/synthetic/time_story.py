"""The run-time section: seconds per iteration, and what they are of those of LS, beside the paper's."""

from __future__ import annotations

from typing import Any

from ferero_lab.experiments.experiment import Found, Section
from ferero_lab.experiments.synthetic.cases import METHODS
from ferero_lab.experiments.synthetic.timing import PAPER_TIMES
from ferero_lab.report.panels import Bars, Table

__all__ = ["time_section"]

TITLE = "Time per iteration"
TEXT = (
    "One iteration evaluates, differentiates, asks the method and steps, and the median counts. Methods take "
    "turns, and ratios are those of neighbours. The paper's times are from another machine, so the ratio to LS is what "
    "can be compared. The last row is a whole search with step='auto' from an easy start."
)
HEADER = ("method", "seconds", "over LS", "paper: seconds", "paper: over LS", "paper's iterations", "seconds for these")
NOTE = (
    "Per iteration; the paper's for the easy / the hard starts of Figure 3. Ours to the right: what the paper's "
    "iterations take here."
)


def time_section(found: Found) -> tuple[Section, dict[str, Any]]:
    """The section, and its measures, which are those of the part."""
    seconds = found["seconds"]
    rows = [_row(name, seconds) for name in seconds["per_iteration"]]
    evaluations = f"{found['evaluations']} evaluations"
    rows.append(["FERERO, step='auto'", "-", "-", "-", "-", evaluations, f"{seconds['auto']:.4f}"])
    names = list(PAPER_TIMES)
    first = PAPER_TIMES["ls"][0][1]
    values = [(seconds["over_ls"][name], PAPER_TIMES[name][0][1] / first) for name in names]
    bars = Bars(TITLE, "ratio to LS", [METHODS[name] for name in names], ["measured", "paper"], values)
    return Section(TITLE, TEXT, [bars], [Table(HEADER, rows, TITLE, NOTE)]), dict(found)


def _row(name: str, seconds: dict[str, dict[str, float]]) -> list[str]:
    time = seconds["per_iteration"][name]
    here = [METHODS[name], f"{time:.1e}", f"{seconds['over_ls'][name]:.2f}"]
    if name not in PAPER_TIMES:
        return [*here, "-", "-", "-", "-"]
    paper, first = PAPER_TIMES[name], PAPER_TIMES["ls"]
    return [
        *here,
        " / ".join(f"{one:.1e}" for _, one in paper),
        " / ".join(f"{one[1] / ls[1]:.2f}" for one, ls in zip(paper, first, strict=True)),
        " / ".join(str(count) for count, _ in paper),
        " / ".join(f"{count * time:.3f}" for count, _ in paper),
    ]
