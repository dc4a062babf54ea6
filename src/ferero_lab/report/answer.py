"""One line of a report: what was asked, what was found, what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ferero.fronts import ray_error
from ferero.fronts.table import preference_text
from ferero.optimize import Result

__all__ = ["Answer"]


@dataclass(frozen=True)
class Answer:
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
