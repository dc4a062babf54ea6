"""A result with the time it took, as data and as a row of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from ferero.cli._console import new_table, status_text
from ferero.fronts import ray_error
from ferero.fronts._front import preference_text
from ferero.optimize import Result

__all__ = ["TimedResult", "result_rows", "result_table"]

_SHORT = {"evaluations": "evals"}  # the table must fit into eighty columns


@dataclass(frozen=True)
class TimedResult:
    """A result with the time it took.

    Args:
        result: of `ferero.minimize` or `ferero.trace`.
        milliseconds: the time it took; for one of several traced together, its share.
    """

    result: Result
    milliseconds: float

    @property
    def asked(self) -> str:
        """The preference in one line."""
        return preference_text(self.result.preference, widest=60)

    @property
    def losses(self) -> dict[str, float]:
        """The losses found, by name."""
        return _named(self.result, self.result.losses)

    @property
    def weights(self) -> dict[str, float]:
        """The objective weights of the certificate, by name."""
        return _named(self.result, self.result.weights)

    @property
    def ray_error(self) -> float | None:
        """Degrees off the ray; None where the preference is no ray."""
        preference = self.result.preference
        if preference.ray is None:
            return None
        return float(ray_error(self.result.losses, preference.ray, preference.through))

    @property
    def violation(self) -> float:
        """The largest violated amount, in the losses' units."""
        violation = self.result.preference.violation(self.result.losses)
        return float(violation.max()) if violation.numel() else 0.0

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        result = self.result
        return {
            "preference": str(result.preference),
            "notes": list(result.preference.notes),
            "status": result.status,
            "success": result.success,
            "message": result.message,
            "losses": self.losses,
            "weights": self.weights,
            "multipliers": [float(value) for value in result.multipliers],
            "kkt": {
                "stationarity": result.kkt.stationarity,
                "complementarity": result.kkt.complementarity,
                "feasibility": result.kkt.feasibility,
            },
            "ray_error": self.ray_error,
            "violation": self.violation,
            "iterations": int(result.iterations),
            "evaluations": int(result.evaluations),
            "gradient_evaluations": int(result.gradient_evaluations),
            "milliseconds": self.milliseconds,
            "x": [float(value) for value in result.x.reshape(-1)],
        }


def _named(result: Result, values: Any) -> dict[str, float]:
    return {name: float(value) for name, value in zip(result.preference.names, values, strict=True)}


def result_rows(answers: Sequence[TimedResult]) -> tuple[list[str], list[list[str]]]:
    """The header and one row per answer: preference, losses, ray error, status, evaluations, milliseconds."""
    names = answers[0].result.preference.names
    header = ["preference", *names, "ray error", "status", "evaluations", "ms"]
    rows = [
        [
            answer.asked,
            *(f"{value:.4f}" for value in answer.losses.values()),
            "-" if answer.ray_error is None else f"{_short(answer.ray_error)}°",
            answer.result.status,
            str(answer.result.evaluations),
            f"{answer.milliseconds:.1f}",
        ]
        for answer in answers
    ]
    return header, rows


def result_table(answers: Sequence[TimedResult], title: str) -> Table:
    """The rows for a terminal."""
    header, rows = result_rows(answers)
    table = new_table(title)
    for name in header:
        is_words = name in {"preference", "status"}
        words = _SHORT.get(name, name)
        table.add_column(words, justify="left" if is_words else "right", no_wrap=name != "preference")
    for row in rows:
        table.add_row(
            *(status_text(cell) if name == "status" else Text(cell) for name, cell in zip(header, row, strict=True))
        )
    return table


def _short(value: float) -> str:
    return "0" if value == 0 else f"{value:.2g}" if 1e-3 <= abs(value) < 1e4 else f"{value:.0e}"
