"""`Report`: whether training meets the preference, constraint by constraint, and what to do if not."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from ferero.methods._method import Diagnosing, Diagnosis, Method
from ferero.methods._rows import rows_of
from ferero.preference import Preference
from ferero.preference._rewriting import invalid_rows, is_rewritten, row_units
from ferero.training._record import MEMORY, Record, batch_noise, standard_error, swing

Status = Literal["met", "met_within_noise", "not_met", "saturated", "oscillating"]
_ORDER: tuple[Status, ...] = ("met", "met_within_noise", "not_met", "saturated", "oscillating")
_TOLERANCE = 0.01  # share of the bound that a constraint may be off by and still count as met
_EXCUSED = 0.05  # the most that noise excuses, likewise
_SWINGS = 0.1  # how far single models may swing about it, one standard deviation, likewise
_NOTABLE = 0.02  # the smallest swing that is mentioned, likewise
_ROOM = 0.1  # the smallest slack under a bound that is mentioned, likewise
_RARE = 10.0  # usual intervals for which a loss may be missing, and at least MEMORY
ADVICE: dict[Status, str] = {
    "met": "Met. Nothing to do.",
    "met_within_noise": "Met, within batch noise: a larger batch or a lower learning rate would make it sure, and for "
    "an inequality .with_margin(z).",
    "not_met": "Not met yet. If the trend is towards it, train on; otherwise see whether another constraint stands "
    "against it, or whether this loss alone can get there. Where the std. error is as large as what it is off by, the "
    "batches are too noisy to tell: take larger ones.",
    "saturated": "The constraint has all the weight there is, and is violated without getting nearer: this model "
    "cannot meet it, or not beside the other constraints. Ask for less, or for a larger model.",
    "oscillating": "Single models swing about it by more than a tenth of the bound. Lower the learning rate or "
    "the momentum, take larger batches, or average weights over steps; FereroPI also has a lower gain, "
    "FereroPI(proportional=2).",
}


@dataclass(frozen=True)
class ConstraintReport:
    """One row of the preference.

    Attributes:
        label: The constraint as it was written, behind its name; with today's level, where it moves.
        value: Left minus right, averaged over about 100 steps: met if <= 0, or == 0. Where the last values have left
            that average by more than their noise, their level. Of a ratio, and of logarithms to first order, in the
            units of what was written: the value of the linear row over today's denominator.
        standard_error: Of that value as a figure for the present: its noise, and how far the model has moved since.
        allowed: What it may be off by: a hundredth of the bound, or of the largest term where the bound is 0.
        swing: How far the value oscillates with the model, one standard deviation; 0 in a steady drift.
        margin: What the value is to stay below 0 by: z standard errors.
        multiplier: The weight of the constraint in the loss.
        saturated: Whether it has all the weight there is, and is violated without getting nearer.
        trend: The average over about 100 steps less that over about 400.
        status: The verdict.
        advice: What to do.
    """

    label: str
    value: float
    standard_error: float
    allowed: float
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
        preference: The preference.
        diagnosis: The method's own diagnosis of its constraints, from `diagnosis_of`.
        record: Statistics of the training.
        losses: Today's losses, (m,).
        change: What was measured since the last step changes them by, (m,).
        multipliers: Those of the last step, (k + m_g + m_h,).
        observed: How often each loss was measured outside training, (m,).
    """
    labels = _labels(preference, record)
    preference, record = _of_today(preference, record)
    rows_now = rows_of(preference, record.mean.device, record.mean.dtype)
    shift = rows_now.B.times(change)
    today = rows_now.values(losses.to(record.mean).nan_to_num(nan=0.0))
    values, spread = _present(record, record.mean + shift, today)
    margins = torch.cat([preference.margins, preference.margins.new_zeros(preference.m_h)]).to(values) * spread
    known = losses.detach().to(record.mean)
    units, invalid = row_units(preference, known), invalid_rows(preference, known)
    sizes = _sizes(preference, known)
    lam = multipliers[preference.A.shape[-2] :]
    saturated = torch.zeros_like(values, dtype=torch.bool) if diagnosis is None else diagnosis.saturated
    figures = (values, spread, _TOLERANCE * sizes, swing(record), margins, record.mean - record.long_mean)
    written = (*(figure / units for figure in figures), lam * units, saturated)
    columns = [figure.detach().cpu().tolist() for figure in written]
    waiting = _waiting(preference, record, observed)
    absent = _absent(preference, waiting) if waiting else {}
    rows = []
    for i, label in enumerate(labels):
        value, error, allowed, swings, margin, trend, multiplier, is_full = (column[i] for column in columns)
        is_inequality = i < preference.m_g
        away = value + margin if is_inequality else abs(value)
        status = _judge(away, error, allowed, swings, is_full)
        room = -value if is_inequality and len(preference.A) > 1 else 0.0
        advice = ADVICE[status] + _remark(status, room, swings, allowed)
        if i in invalid:
            status, advice = "not_met", invalid[i]
        if i in absent:
            status, advice = "not_met", " ".join(absent[i])
        rows.append(
            ConstraintReport(
                label, value, error, allowed, swings, margin, multiplier, is_full, trend, status, advice
            )
        )  # fmt: skip
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
        _steps(record),
        int(record.skipped),
    )


def judge_losses(preference: Preference, losses: Tensor, report: Report) -> tuple[Status, str]:
    """The verdict on losses (m,) that were measured on all data, and what to do about it.

    A violation within the noise of the training's batches, and of at most a twentieth of the bound, is met within
    noise; a larger one is not met.

    Args:
        preference: The preference.
        losses: The measured losses.
        report: That of the training, for its noise, and for the reason where a constraint is not met.
    """
    sizes = _sizes(preference, losses)
    away = preference.violation(losses) - _TOLERANCE * sizes
    invalid = invalid_rows(preference, losses)
    if invalid:
        return "not_met", " ".join(invalid.values())
    if bool((away <= 0).all()):
        return "met", ADVICE["met"] if len(sizes) else report.advice
    noise = away.new_tensor([row.standard_error for row in report.constraints]) * row_units(preference, losses)
    beyond = torch.where(away > 0, away - torch.minimum(2 * noise, _EXCUSED * sizes), -torch.inf)
    worst = (*preference.labels_g, *preference.labels_h)[int(beyond.argmax())]
    status: Status = "not_met" if report.status in ("met", "met_within_noise") else report.status
    status = "met_within_noise" if status == "not_met" and bool((beyond <= 0).all()) else status
    return status, f"{worst}: {ADVICE[status]}"


def diagnosis_of(method: Method[Any], preference: Preference, state: Any) -> Diagnosis | None:
    """The method's own diagnosis of its constraints, if it makes one (`Diagnosing`)."""
    return method.diagnose(preference, state) if isinstance(method, Diagnosing) else None


def metrics_of(
    preference: Preference, losses: Tensor, weights: Tensor, multipliers: Tensor, record: Record
) -> dict[str, float]:
    """Flat figures for a logger.

    ``ferero/merit`` orders checkpoints: feasible ones by their objective o, as ``o / (1 + |o|)``, below 1; the others
    above 1, by their largest violation relative to the bound. A violation is today's or the mean's, whichever is
    larger, or else the lowest of many checkpoints would be one with lucky batches. It is inf before the first step, and
    where a ratio has a negative denominator.
    """
    F = losses.detach().cpu()
    keys = preference.metric_keys
    preference, record = _of_today(preference, record)
    violation = preference.violation(F)
    mean, m_g = record.mean.cpu(), preference.m_g
    of_mean = torch.cat([mean[:m_g].clamp(min=0), mean[m_g:].abs()])
    relative = torch.maximum(violation, of_mean.to(violation)) / _sizes(preference, F)
    worst = float(relative.max()) if keys else 0.0
    k = preference.A.shape[-2]
    lam_f = multipliers[:k].detach().cpu()
    total = float(lam_f.sum())
    objective = float((lam_f / total if total > 0 else lam_f) @ (preference.A @ F))
    found = {f"ferero/loss/{name}": float(v) for name, v in zip(preference.names, F, strict=True)}
    found |= {f"ferero/weight/{name}": float(v) for name, v in zip(preference.names, weights.cpu(), strict=True)}
    found |= {f"ferero/multiplier/{key}": float(v) for key, v in zip(keys, multipliers[k:].cpu(), strict=True)}
    found |= {f"ferero/violation/{key}": float(v) for key, v in zip(keys, violation, strict=True)}
    merit = objective / (1 + abs(objective)) if worst <= _TOLERANCE else 1 + worst
    is_judged = float(record.seen.max()) > 0 and not invalid_rows(preference, F)
    found["ferero/merit"] = merit if is_judged else math.inf
    found["ferero/skipped"] = float(record.skipped)
    return found


def _of_today(preference: Preference, record: Record) -> tuple[Preference, Record]:
    """The preference with the levels that move where they are now, and the record of values relative to those.

    A record's values are relative to the last levels, and a level moves nothing but a constant. So a jump of the level
    shows at once, and is no swing or drift of the losses.
    """
    if not preference.moves:
        return preference, record
    now = preference.at(_steps(record))
    by = torch.cat([now.b_g - preference.b_g, now.b_h - preference.b_h]).to(record.mean)
    return now, replace(record, mean=record.mean + by, long_mean=record.long_mean + by)


def _labels(preference: Preference, record: Record) -> list[str]:
    """The rows as they were written, with today's level where it moves."""
    parts = [part for constraint in preference.constraints for part in constraint.parts]
    labels = []
    for part in sorted(parts, key=lambda part: part.is_equality):
        level = None if part.schedule is None else part.schedule.at(_steps(record))
        labels.append(part.titled if level is None else f"{part.titled}, now {level:.4g}")
    return labels


def _steps(record: Record) -> int:
    return int(record.arrived.max())


def _waiting(preference: Preference, record: Record, observed: Tensor) -> dict[str, str]:
    """A sentence for every loss whose value is not known yet, or no longer."""
    sentences = {}
    steps = _steps(record)
    figures = (figure.tolist() for figure in (record.seen, record.arrived, observed))
    for name, seen, arrived, times in zip(preference.names, *figures, strict=True):
        if seen == 0:
            sentences[name] = f"{name} has not arrived yet: is it in the losses?"
        elif steps - arrived > max(MEMORY, _RARE * arrived / seen):
            sentences[name] = f"{name} has not arrived for {steps - arrived:.0f} steps: showing its last known value."
        elif name in preference.measured and times == 0:
            sentences[name] = f"{name} has not been measured yet: call steer.observe({name}=...)."
    return sentences


def _absent(preference: Preference, waiting: dict[str, str]) -> dict[int, list[str]]:
    """The sentences about losses that are not known, by the number of each row that names one."""
    found: dict[int, list[str]] = {}
    for i, j in torch.cat([preference.B_g, preference.B_h]).nonzero().tolist():
        sentence = waiting.get(preference.names[j])
        if sentence is not None:
            found.setdefault(i, []).append(sentence)
    return found


def _present(record: Record, mean: Tensor, today: Tensor) -> tuple[Tensor, Tensor]:
    """The value of each row for the present, (r,), and its standard error.

    It is the mean, unless today's level has left that by more than noise and swing move single values.
    """
    error, noise = standard_error(record), batch_noise(record)
    has_left = (today - mean).abs() > 3 * (noise + swing(record))
    return torch.where(has_left, today, mean), torch.where(has_left, noise, error)


def _judge(away: float, error: float, allowed: float, swing: float, is_saturated: bool) -> Status:
    """The status of a constraint, from figures that its line of the report shows.

    oscillating        swing > a tenth of the bound, and off by no more than twice the swing
    met                off + 2 std. errors <= allowed
    met_within_noise   off <= allowed + 2 std. errors, of which at most a twentieth of the bound counts
    saturated          the constraint has all the weight there is
    not_met            otherwise
    """
    bound = allowed / _TOLERANCE
    if swing > _SWINGS * bound and abs(away) <= allowed + 2 * swing:
        return "oscillating"
    if away + 2 * error <= allowed:
        return "met"
    if away <= allowed + min(2 * error, _EXCUSED * bound):
        return "met_within_noise"
    return "saturated" if is_saturated else "not_met"


def _remark(status: Status, room: float, swing: float, allowed: float) -> str:
    """A note on slack under a bound, or on single models that swing about their mean."""
    if status not in ("met", "met_within_noise"):
        return ""
    if room * _TOLERANCE > _ROOM * allowed:
        return (
            f" There is {room:.3g} to spare: all losses are minimised, each by its size; if only some matter, "
            "name them with minimize=."
        )
    if swing * _TOLERANCE > _NOTABLE * allowed:
        return f" Single models swing by {swing:.2g} about the mean: lower the learning rate, or average weights."
    return ""


def _sizes(preference: Preference, losses: Tensor) -> Tensor:
    """What a violation of each row is relative to, (r,): the bound, or its largest term at losses (m,) without one.

    Of a ratio it is the larger side of its row, as in `FereroPI`: a constant there is no bound. A loss that is not
    known (NaN) adds nothing; 1 where nothing is left.
    """
    rows = rows_of(preference, losses.device, losses.dtype)
    known = losses.to(rows.b).nan_to_num(nan=0.0)
    size = torch.where(rows.b == 0, rows.B.largest(known), rows.b.abs())
    above, below = rows.B.sides(known)
    sides = torch.maximum(above + rows.b.clamp(min=0), rows.b.clamp(max=0).abs() - below)
    size = torch.where(is_rewritten(preference).to(size.device), sides, size)
    return torch.where(size > 0, size, 1.0)


def _of(row: ConstraintReport) -> str:
    return row.advice if row.status == "met" else f"{row.label}: {row.advice}"


def _table(rows: tuple[ConstraintReport, ...]) -> list[str]:
    if not rows:
        return []
    head = ("constraint", "off by", "std. error", "allowed", "swing", "margin", "multiplier", "trend", "status")
    cells = [
        (
            row.label,
            f"{row.value:.4g}",
            f"{row.standard_error:.2g}",
            f"{row.allowed:.2g}",
            f"{row.swing:.2g}",
            f"{row.margin:.2g}",
            f"{row.multiplier:.3g}" + (" (all)" if row.saturated else ""),
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
