"""The verdict: whether training is where the preference wants it, constraint by constraint, and what to do if not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from ferero.methods import windows
from ferero.methods.base import Diagnosing, Diagnosis, Method
from ferero.methods.rows import rows_of
from ferero.preference import Preference
from ferero.training.record import Record, batch_noise, standard_error, swing

__all__ = ["ConstraintReport", "Report", "Status", "diagnosis_of", "judge_losses", "make_report", "metrics_of"]

Status = Literal["met", "met_within_noise", "not_met", "saturated", "oscillating"]
_ORDER: tuple[Status, ...] = ("met", "met_within_noise", "not_met", "saturated", "oscillating")
_TOLERANCE = 0.01  # violation relative to the size of the constraint's own terms that still counts as met
_EXCUSED = 0.05  # the most that noise excuses, likewise
_NOTABLE = 0.02  # a swing that is worth a word, likewise
_ROOM = 0.1  # what is left under a bound that is worth a word, likewise
_LARGEST = 5.0  # times abs(b): the most that this size counts as, where b is not 0
_RARE = 10.0  # usual intervals that a loss may stay away for, and at least a memory
_ALIKE = 0.9  # share of a variance that is motion from which it is no noise
_LARGE = 0.05  # of the largest loss: swings that matter
_ENOUGH = 50  # values before swings are believed
ADVICE: dict[Status, str] = {
    "met": "Met. Nothing to do.",
    "met_within_noise": "Met as far as the noise of the batches lets one see; a larger batch or a lower learning rate "
    "would make it sure, and for an inequality .with_margin(z).",
    "not_met": "Not met yet. If the trend is towards it, train on; otherwise give the controller more time or a larger "
    "learning rate, or see whether another constraint stands against it, or whether this loss alone can get there. "
    "Where the std. error is as large as what it is off by, the batches are too noisy to tell: take larger ones.",
    "saturated": "Its multiplier is at the bound and the constraint is still violated. Ask for less: this model may "
    "not be able to get there, or not beside the other wishes; or allow a larger multiplier, "
    "Steer(preference, FereroPI(bound=30)); or, if another loss begins so near its optimum that its size is tiny, "
    "train on this one alone for a few steps first.",
    "oscillating": "It swings to and fro. Lower the learning rate or the momentum, or the method's own gain: FereroPI, "
    "which has lowered its integral gain already, by integral_time=, FereroSA by gamma=.",
}


@dataclass(frozen=True)
class ConstraintReport:
    """One row of the preference.

    Attributes:
        label: The constraint as it was written.
        value: Left minus right, averaged over about 100 steps: wanted <= 0, or == 0.
        standard_error: Of that average as a figure for the present: its noise, and how far the model has moved since.
        swing: How far the value moves about with the model itself, one standard deviation.
        margin: What the value is to stay below 0 by: z standard errors.
        multiplier: The weight of the constraint in the loss.
        saturated: Whether it is at its bound.
        trend: The average over about 100 steps less that over about 400.
        status: The verdict.
        advice: What to do.
    """

    label: str
    value: float
    standard_error: float
    swing: float
    margin: float
    multiplier: float
    saturated: bool
    trend: float
    status: Status
    advice: str


@dataclass(frozen=True)
class Report:
    """The verdict on a preference: the worst of its constraints'.

    Attributes:
        status: "met", "met_within_noise", "not_met", "saturated" or "oscillating".
        advice: What to do about it.
        constraints: One for each row, inequalities first.
        losses: Today's losses by name, denoised and corrected by what was observed.
        steps: Steps taken so far, whichever losses they brought.
        skipped: Batches left out because they were not finite.
    """

    status: Status
    advice: str
    constraints: tuple[ConstraintReport, ...]
    losses: dict[str, float]
    steps: int
    skipped: int

    def __str__(self) -> str:
        told = ", ".join(f"{name} {value:.4g}" for name, value in self.losses.items())
        lines = [f"{self.status} after {self.steps} steps", f"losses: {told}", *_table(self.constraints), self.advice]
        if self.skipped:
            lines.append(f"{self.skipped} batches were not finite and were left out.")
        return "\n".join(lines)


def make_report(
    preference: Preference,
    diagnosis: Diagnosis | None,
    record: Record,
    *,
    losses: Tensor,
    change: Tensor,
    multipliers: Tensor,
    observed: Tensor,
) -> Report:
    """The report on what was recorded; copies everything to the host.

    Args:
        preference: What is wanted.
        diagnosis: What the method itself says of its constraints, from `diagnosis_of`.
        record: What was seen.
        losses: Today's losses, (m,).
        change: What was measured since the last step changes them by, (m,).
        multipliers: Those of the last step, (k + m_g + m_h,).
        observed: How often each loss was measured elsewhere, (m,).
    """
    rows_now = rows_of(preference, record.mean.device, record.mean.dtype)
    values, spread = (record.mean + rows_now.B @ change).cpu(), standard_error(record).cpu()
    today, swings = rows_now.values(losses.to(record.mean).nan_to_num(nan=0.0)).cpu(), swing(record).cpu()
    sizes, noise = _sizes(preference, losses.detach().cpu().to(values)), batch_noise(record).cpu()
    margins = torch.cat([preference.margins, torch.zeros(preference.m_h)]).to(values) * spread
    trend = (record.mean - record.long_mean).cpu()
    lam = multipliers[preference.A.shape[-2] :].cpu()
    none = torch.zeros(len(values), dtype=torch.bool)
    saturated, swinging = none, none
    if diagnosis is not None:
        saturated, swinging = diagnosis.saturated.cpu(), diagnosis.oscillating.cpu()
    else:
        swinging = _swings(record).cpu() & (values.abs() <= _TOLERANCE * sizes + 2 * spread)
    waiting = _waiting(preference, record, observed)
    rows = []
    for i, label in enumerate((*preference.labels_g, *preference.labels_h)):
        value, error, margin, size = float(values[i]), float(spread[i]), float(margins[i]), float(sizes[i])
        is_inequality = i < preference.m_g
        away, now = (one + margin if is_inequality else abs(one) for one in (value, float(today[i])))
        status = _judge(away, now, error, float(noise[i]), size, bool(saturated[i]), bool(swinging[i]))
        advice = ADVICE[status] + _remark(preference, status, value if is_inequality else 0.0, float(swings[i]), size)
        missing = [waiting[n] for n, c in zip(preference.names, _row(preference, i), strict=True) if c and n in waiting]
        if missing:
            status, advice = "not_met", " ".join(missing)
        figures = (float(lam[i]), bool(saturated[i]), float(trend[i]))
        rows.append(ConstraintReport(label, value, error, float(swings[i]), margin, *figures, status, advice))
    worst = max(rows, key=lambda row: _ORDER.index(row.status), default=None)
    status = "met" if worst is None else worst.status
    advice = "There is no constraint: the losses are minimised." if worst is None else _of(worst)
    if waiting and status in ("met", "met_within_noise"):
        status, advice = "not_met", " ".join(waiting.values())
    elif status not in ("met", "met_within_noise"):
        advice = " ".join([advice, *(f"Note: {note}." for note in preference.notes if note.startswith("no "))])
    return Report(
        status,
        advice,
        tuple(rows),
        dict(zip(preference.names, losses.tolist(), strict=True)),
        int(record.arrived.max()),
        int(record.skipped),
    )


def judge_losses(preference: Preference, losses: Tensor, report: Report) -> tuple[Status, str]:
    """The verdict on losses (m,) that were measured on all data, and what to do about it.

    What is off by no more than training could see in its batches, and by no more than a twentieth of the constraint's
    own terms, is met within noise; beyond that it is not met.

    Args:
        preference: What is wanted.
        losses: The measured losses.
        report: What training itself saw: how large the noise is, and where a constraint is not met, why.
    """
    sizes = _sizes(preference, losses)
    away = preference.violation(losses) - _TOLERANCE * sizes
    if bool((away <= 0).all()):
        return "met", ADVICE["met"] if len(sizes) else report.advice
    noise = away.new_tensor([row.standard_error for row in report.constraints])
    beyond = torch.where(away > 0, away - torch.minimum(2 * noise, _EXCUSED * sizes), -torch.inf)
    worst = (*preference.labels_g, *preference.labels_h)[int(beyond.argmax())]
    status: Status = "not_met" if report.status in ("met", "met_within_noise") else report.status
    status = "met_within_noise" if status == "not_met" and bool((beyond <= 0).all()) else status
    return status, f"{worst}: {ADVICE[status]}"


def diagnosis_of(method: Method[Any], preference: Preference, state: Any) -> Diagnosis | None:
    """What a method says of its constraints, if it is one of those that can (`Diagnosing`)."""
    return method.diagnose(preference, state) if isinstance(method, Diagnosing) else None


def metrics_of(
    preference: Preference, losses: Tensor, weights: Tensor, multipliers: Tensor, record: Record
) -> dict[str, float]:
    """Flat figures for a logger.

    ``ferero/merit`` orders checkpoints: feasible ones by their objective o, as ``o / (1 + |o|)``, below 1; the others
    above 1, by their largest violation relative to the size of the constraint's own terms. A violation is today's or
    the mean's, whichever is larger: of many checkpoints the lowest would else be one whose batches had luck.
    """
    F = losses.detach().cpu()
    labels = _distinct((*preference.labels_g, *preference.labels_h))
    violation = preference.violation(F)
    mean, m_g = record.mean.cpu(), preference.m_g
    of_mean = torch.cat([mean[:m_g].clamp(min=0), mean[m_g:].abs()])
    relative = torch.maximum(violation, of_mean.to(violation)) / _sizes(preference, F)
    worst = float(relative.max()) if labels else 0.0
    k = preference.A.shape[-2]
    lam_f = multipliers[:k].detach().cpu()
    total = float(lam_f.sum())
    objective = float((lam_f / total if total > 0 else lam_f) @ (preference.A @ F))
    found = {f"ferero/loss/{name}": float(v) for name, v in zip(preference.names, F, strict=True)}
    found |= {f"ferero/weight/{name}": float(v) for name, v in zip(preference.names, weights.cpu(), strict=True)}
    found |= {f"ferero/multiplier/{label}": float(v) for label, v in zip(labels, multipliers[k:].cpu(), strict=True)}
    found |= {f"ferero/violation/{label}": float(v) for label, v in zip(labels, violation, strict=True)}
    merit = objective / (1 + abs(objective)) if worst <= _TOLERANCE else 1 + worst
    found["ferero/merit"] = merit if float(record.seen.max()) > 0 else math.inf
    found["ferero/skipped"] = float(record.skipped)
    return found


def _waiting(preference: Preference, record: Record, observed: Tensor) -> dict[str, str]:
    """A sentence for every loss whose value is not known yet, or no longer."""
    sentences = {}
    steps = float(record.arrived.max())
    figures = (figure.tolist() for figure in (record.seen, record.arrived, observed))
    for name, seen, arrived, times in zip(preference.names, *figures, strict=True):
        if seen == 0:
            sentences[name] = f"{name} has not arrived yet: is it in the losses?"
        elif steps - arrived > max(windows.MEMORY, _RARE * arrived / seen):
            sentences[name] = f"{name} has not arrived for {steps - arrived:.0f} steps: its value is that of then."
        elif name in preference.measured and times == 0:
            sentences[name] = f"{name} has not been measured yet: call steer.observe({name}=...)."
    return sentences


def _distinct(labels: tuple[str, ...]) -> list[str]:
    """Labels that repeat (the rows of a ray) get a number."""
    return [
        label if labels.count(label) == 1 else f"{label} [{labels[: i + 1].count(label)}]"
        for i, label in enumerate(labels)
    ]


def _judge(
    away: float, now: float, error: float, noise: float, size: float, is_saturated: bool, is_swinging: bool
) -> Status:
    """From how far the mean and the present value are off, and the size of the constraint's own terms.

    A mean that is right for sure says nothing of a value that has left it by more than the luck of two batches.
    """
    if is_swinging:
        return "oscillating"
    tolerance = _TOLERANCE * size
    excused = tolerance + _EXCUSED * size
    if away + 2 * error <= tolerance and now <= excused + 2 * noise:
        return "met"
    if away <= tolerance + 2 * error and now <= excused:
        return "met_within_noise"
    return "saturated" if is_saturated else "not_met"


def _remark(preference: Preference, status: Status, value: float, swing: float, size: float) -> str:
    """What a verdict does not say: room that is left under a bound, single models that swing about a mean."""
    if status not in ("met", "met_within_noise"):
        return ""
    if value < -_ROOM * size and preference.A.shape[-2] > 1:
        return (
            f" There is {-value:.3g} to spare: all losses are minimised, each by its size; if only some matter, "
            "name them with minimize=."
        )
    if swing > _NOTABLE * size:
        return f" Single models swing by {swing:.2g} about the mean: lower the learning rate, or average weights."
    return ""


def _swings(record: Record) -> Tensor:
    """Rows (r,) whose values move about, and not by the noise of batches: successive ones are alike, or opposite."""
    variance = record.variance.clamp(min=torch.finfo(record.variance.dtype).tiny)
    is_motion = (record.covariance / variance).abs() > _ALIKE
    return is_motion & (variance.sqrt() > _LARGE * record.size.max()) & (record.updates >= _ENOUGH)


def _sizes(preference: Preference, losses: Tensor) -> Tensor:
    """The size of each row's own terms at these losses (m,), (r,): ``sqrt(sum (B_i F_i)^2 + b^2)``, 1 where it is 0.

    Where b is not 0 it is at most 5 abs(b), so that a tolerance is small beside the bound even if that is the bound on
    a small difference of large losses. A loss that is not known (NaN) adds nothing.
    """
    rows = rows_of(preference, losses.device, losses.dtype)
    size = ((rows.B * losses.nan_to_num(nan=0.0)).square().sum(dim=-1) + rows.b.square()).sqrt()
    size = torch.where(rows.b == 0, size, torch.minimum(size, _LARGEST * rows.b.abs()))
    return torch.where(size > 0, size, 1.0)


def _row(preference: Preference, index: int) -> list[float]:
    found: list[float] = torch.cat([preference.B_g, preference.B_h])[index].tolist()
    return found


def _of(row: ConstraintReport) -> str:
    return row.advice if row.status == "met" else f"{row.label}: {row.advice}"


def _table(rows: tuple[ConstraintReport, ...]) -> list[str]:
    if not rows:
        return []
    head = ("constraint", "off by", "std. error", "swing", "margin", "multiplier", "trend", "status")
    cells = [
        (
            row.label,
            f"{row.value:.4g}",
            f"{row.standard_error:.2g}",
            f"{row.swing:.2g}",
            f"{row.margin:.2g}",
            f"{row.multiplier:.3g}" + (" (bound)" if row.saturated else ""),
            f"{row.trend:+.2g}",
            row.status,
        )
        for row in rows
    ]
    widths = [max(len(line[i]) for line in (head, *cells)) for i in range(len(head))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in (head, *cells)
    ]
