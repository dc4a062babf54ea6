"""`Report`: whether training meets the preference, constraint by constraint, and what to do if not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from ferero.methods._method import Diagnosing, Diagnosis, Method
from ferero.methods._rows import rows_of
from ferero.preference import Preference
from ferero.preference._rewriting import invalid_rows, is_rewritten, row_units
from ferero.preference._row_entries import RowBlock
from ferero.training._record import MEMORY, Record, batch_noise, standard_error, swing

Status = Literal["met", "met_within_noise", "not_met", "saturated", "oscillating"]
_ORDER: tuple[Status, ...] = ("met", "met_within_noise", "not_met", "saturated", "oscillating")
_TOLERANCE = 0.01  # share of the bound that a constraint may be off by and still count as met
_EXCUSED = 0.05  # the most that noise excuses, likewise
_SWINGS = 0.1  # how far single models may swing about it, one standard deviation, likewise
_NOTABLE = 0.02  # the smallest swing that is mentioned, likewise
_ROOM = 0.1  # the smallest slack under a bound that is mentioned, likewise
_SHOWN = 3  # rows of a family in a report
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
class FamilyReport:
    """A family of rows in one line.

    Attributes:
        label: The constraint as it was written, behind its name.
        size: The number of its rows.
        met: How many of them are met, within batch noise or without it.
        worst: The row that is furthest from being met, as it was written.
        value: Its value, left minus right.
        status: Its verdict, which is that of the family.
        mean_multiplier: The mean over all rows.
    """

    label: str
    size: int
    met: int
    worst: str
    value: float
    status: Status
    mean_multiplier: float

    @property
    def share_met(self) -> float:
        """The share of rows that are met."""
        return self.met / self.size

    def __str__(self) -> str:
        rest = "" if self.met == self.size else f", {self.size - self.met} not met"
        worst = f"the worst is {self.worst}, off by {self.value:.4g} ({self.status})"
        return f"{self.label}: {self.met} of {self.size} met{rest}; {worst}; mean multiplier {self.mean_multiplier:.3g}"


@dataclass(frozen=True)
class Report:
    """The verdict on a preference: the worst of its constraints'.

    Attributes:
        status: "met", "met_within_noise", "not_met", "saturated" or "oscillating".
        advice: What to do about it.
        constraints: One for each row, inequalities first; of a family its three worst rows.
        losses: Today's losses by name, denoised and corrected by what was observed; of a family ``mean(name)`` and
            ``max(name)``.
        steps: Steps taken so far, whichever losses they brought.
        skipped: Batches left out because they were not finite.
        families: One for each family of constraints.
        noise: The standard error of every row, (m_g + m_h,), also of those of families that are not shown.
    """

    status: Status
    advice: str
    constraints: tuple[ConstraintReport, ...]
    losses: dict[str, float]
    steps: int
    skipped: int
    families: tuple[FamilyReport, ...] = ()
    noise: Tensor = field(default_factory=lambda: torch.zeros(0), repr=False, compare=False)

    def __str__(self) -> str:
        told = ", ".join(f"{name} {value:.4g}" for name, value in self.losses.items())
        lines = [f"{self.status} after {self.steps} steps", f"losses: {told}", *_table(self.constraints)]
        lines += [*map(str, self.families), self.advice]
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
    titles = _moved_titles(preference, record)
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
    of_rows = (values, spread, _TOLERANCE * sizes, swing(record), margins)
    trend = (record.mean - record.long_mean) / units
    written = (*(figure / units for figure in of_rows), lam * units, trend, saturated)
    figures = _Figures(*(figure.detach().cpu() for figure in written))
    waiting = _Waiting.of(preference, record, observed)
    is_void = rows_now.B.name_any(waiting.mask.to(values.device)).cpu()
    is_void[list(invalid)] = True
    verdicts = torch.where(is_void, _ORDER.index("not_met"), _judge(figures, preference.m_g))
    away = _away(figures, preference.m_g) / figures.allowed
    rows, families = [], []
    for block in preference.blocks:
        worst = _worst(verdicts, away, block)
        shown = worst if block.is_family else [block.start]
        for i in shown:
            missing = [waiting.sentence(j) for j in _names_in(preference, i) if waiting.mask[j]] if waiting else []
            why = " ".join(missing) or invalid.get(i, "")
            rows.append(_row(preference, i, titles.get(i, block.title(i)), figures, verdicts, why))
        if block.is_family:
            families.append(_family(block, worst[0], figures, verdicts))
    first = max(rows, key=lambda row: _ORDER.index(row.status), default=None)
    status = "met" if first is None else first.status
    advice = "There is no constraint: the losses are minimised." if first is None else _of(first)
    if waiting and status in ("met", "met_within_noise"):
        status, advice = "not_met", " ".join(waiting.sentences())
    elif status not in ("met", "met_within_noise"):
        advice = " ".join([advice, *(f"Note: {note}." for note in preference.notes if note.startswith("no "))])
    return Report(
        status,
        advice,
        tuple(rows),
        _told_losses(preference, losses.detach().cpu()),
        _steps(record),
        int(record.skipped),
        tuple(families),
        figures.error,
    )


class _Figures(NamedTuple):
    """What a report says of every row, (r,) each, on the host; see `ConstraintReport`."""

    value: Tensor
    error: Tensor
    allowed: Tensor
    swing: Tensor
    margin: Tensor
    multiplier: Tensor
    trend: Tensor
    saturated: Tensor


def _row(
    preference: Preference, i: int, title: str, figures: _Figures, verdicts: Tensor, why_void: str
) -> ConstraintReport:
    value, error, allowed, swings, margin, multiplier, trend, is_full = (figure[i].item() for figure in figures)
    status = _ORDER[int(verdicts[i])]
    room = -value if i < preference.m_g and len(preference.A) > 1 else 0.0
    advice = why_void or ADVICE[status] + _remark(status, room, swings, allowed)
    return ConstraintReport(
        title, value, error, allowed, swings, margin, multiplier, bool(is_full), trend, status, advice
    )  # fmt: skip


def _family(block: RowBlock, worst: int, figures: _Figures, verdicts: Tensor) -> FamilyReport:
    own = slice(block.start, block.stop)
    met = int((verdicts[own] <= _ORDER.index("met_within_noise")).sum())
    status, value = _ORDER[int(verdicts[worst])], figures.value[worst].item()
    mean = figures.multiplier[own].mean().item()
    return FamilyReport(block.part.titled, block.size, met, block.title(worst), value, status, mean)


def _worst(verdicts: Tensor, away: Tensor, block: RowBlock) -> list[int]:
    """The rows of a block that are furthest from being met: those that are not met first, by what they are off by."""
    own = slice(block.start, block.stop)
    order = (-away[own]).argsort(stable=True)
    is_met = verdicts[own][order] <= _ORDER.index("met_within_noise")
    order = order[is_met.to(torch.int8).argsort(stable=True)]
    return (order[:_SHOWN] + block.start).tolist()


def _told_losses(preference: Preference, losses: Tensor) -> dict[str, float]:
    single = len(preference.names) if not preference.families else preference.families[0].start
    found = dict(zip(preference.names[:single], losses[:single].tolist(), strict=True))
    return found | {f"{kind}({name})": value for name, kind, value in family_figures(preference, losses)}


def family_figures(preference: Preference, values: Tensor) -> Iterator[tuple[str, str, float]]:
    """The name of every family with the mean and with the largest of what is known of its members' values (m,)."""
    for family in preference.families:
        own = values[family.start : family.stop]
        known = own[~own.isnan()]
        yield family.name, "mean", known.mean().item() if len(known) else math.nan
        yield family.name, "max", known.max().item() if len(known) else math.nan


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
    noise = report.noise if report.families else away.new_tensor([row.standard_error for row in report.constraints])
    noise = noise.to(away) * row_units(preference, losses)
    beyond = torch.where(away > 0, away - torch.minimum(2 * noise, _EXCUSED * sizes), -torch.inf)
    worst = _title(preference, int(beyond.argmax()))
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
    rows, m_g = rows_of(preference, F.device, F.dtype), preference.m_g
    values, mean = rows.values(F), record.mean.cpu()
    violation = torch.cat([values[:m_g].clamp(min=0), values[m_g:].abs()])
    of_mean = torch.cat([mean[:m_g].clamp(min=0), mean[m_g:].abs()])
    relative = torch.maximum(violation, of_mean.to(violation)) / _sizes(preference, F)
    worst = float(relative.nan_to_num(nan=math.inf).max()) if keys else 0.0  # what never arrived is not met
    k = preference.A.shape[-2]
    lam_f = multipliers[:k].detach().cpu()
    total = float(lam_f.sum())
    objective = float((lam_f / total if total > 0 else lam_f) @ (preference.A @ F))
    single = len(preference.names) if not preference.families else preference.families[0].start
    found: dict[str, float] = {}
    for kind, figures in (("loss", F), ("weight", weights.cpu())):
        pairs = zip(preference.names[:single], figures[:single].tolist(), strict=True)
        found |= {f"ferero/{kind}/{name}": value for name, value in pairs}
        for name, which, value in family_figures(preference, figures):
            found[f"ferero/{kind}/{name}/{which}"] = value
    lam = multipliers[k:].detach().cpu()
    for kind, figures in (("multiplier", lam), ("violation", violation)):
        found |= {
            f"ferero/{kind}/{key}": float(figures[block.start])
            for key, block in zip(keys, preference.blocks, strict=True)
            if not block.is_family
        }
    for key, block in zip(keys, preference.blocks, strict=True):
        if block.is_family:
            found |= _family_metrics(key, slice(block.start, block.stop), lam, violation, relative)
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


def _moved_titles(preference: Preference, record: Record) -> dict[int, str]:
    """The rows of levels that move as they were written, with today's level, by their number."""
    moving = [(block, block.part.schedule) for block in preference.blocks if block.part.schedule is not None]
    return {block.start: f"{block.part.titled}, now {schedule.at(_steps(record)):.4g}" for block, schedule in moving}


def _steps(record: Record) -> int:
    return int(record.arrived.max())


def _family_metrics(key: str, own: slice, lam: Tensor, violation: Tensor, relative: Tensor) -> dict[str, float]:
    """Three figures of a family of rows."""
    return {
        f"ferero/multiplier/{key}/mean": lam[own].mean().item(),
        f"ferero/violation/{key}/max": violation[own].nan_to_num(nan=0.0).max().item(),
        f"ferero/share_met/{key}": (relative[own] <= _TOLERANCE).to(lam.dtype).mean().item(),
    }


class _Waiting:
    """Losses whose value is not known yet, or no longer.

    Attributes:
        mask: Which these are, (m,), bool.
    """

    def __init__(self, preference: Preference, steps: float, never: Tensor, stale: Tensor, arrived: Tensor) -> None:
        self._preference, self._steps, self._never, self._arrived = preference, steps, never, arrived
        self._stale, self.mask = stale, never | stale

    @classmethod
    def of(cls, preference: Preference, record: Record, observed: Tensor) -> _Waiting:
        seen, arrived, times = (figure.detach().cpu() for figure in (record.seen, record.arrived, observed))
        steps = float(arrived.max())
        stale = steps - arrived > (_RARE * arrived / seen.clamp(min=1)).clamp(min=MEMORY)
        made = cls(preference, steps, seen == 0, stale & (seen > 0), arrived)
        if preference.measured:
            measured = set(preference.measured)
            made.mask = made.mask | (torch.tensor([name in measured for name in preference.names]) & (times == 0))
        return made

    def __bool__(self) -> bool:
        return bool(self.mask.any())

    def sentence(self, j: int) -> str:
        """About loss j."""
        name = self._preference.names[j]
        if self._never[j]:
            return f"{name} has not arrived yet: is it in the losses?"
        if self._stale[j]:
            since = self._steps - float(self._arrived[j])
            return f"{name} has not arrived for {since:.0f} steps: showing its last known value."
        return f"{name} has not been measured yet: call steer.observe({name}=...)."

    def sentences(self) -> list[str]:
        """One for every loss, and one for all members of a family."""
        families = self._preference.families
        single = len(self.mask) if not families else families[0].start
        found = [self.sentence(j) for j in torch.nonzero(self.mask[:single])[:, 0].tolist()]
        for family in families:
            own = torch.nonzero(self.mask[family.start : family.stop])[:, 0].tolist()
            if own:
                more = f" The same holds for {len(own) - 1} more of its members." if len(own) > 1 else ""
                found.append(self.sentence(family.start + own[0]) + more)
        return found


def _names_in(preference: Preference, row: int) -> list[int]:
    """The numbers of the losses that a row names."""
    entries, at = (preference.entries_g, row) if row < preference.m_g else (preference.entries_h, row - preference.m_g)
    found: list[int] = [] if entries is None else entries.column[entries.row == at].tolist()
    return found


def _title(preference: Preference, row: int) -> str:
    return next(block.title(row) for block in preference.blocks if row < block.stop)


def _present(record: Record, mean: Tensor, today: Tensor) -> tuple[Tensor, Tensor]:
    """The value of each row for the present, (r,), and its standard error.

    It is the mean, unless today's level has left that by more than noise and swing move single values.
    """
    error, noise = standard_error(record), batch_noise(record)
    has_left = (today - mean).abs() > 3 * (noise + swing(record))
    return torch.where(has_left, today, mean), torch.where(has_left, noise, error)


def _away(figures: _Figures, m_g: int) -> Tensor:
    """What each row is off by, with its margin, (r,)."""
    return torch.cat([(figures.value + figures.margin)[:m_g], figures.value[m_g:].abs()])


def _judge(figures: _Figures, m_g: int) -> Tensor:
    """The status of each row by its number in `_ORDER`, (r,), from figures that its line of the report shows.

    oscillating        swing > a tenth of the bound, and off by no more than twice the swing
    met                off + 2 std. errors <= allowed
    met_within_noise   off <= allowed + 2 std. errors, of which at most a twentieth of the bound counts
    saturated          the constraint has all the weight there is
    not_met            otherwise
    """
    away, allowed, error, swing = _away(figures, m_g), figures.allowed, figures.error, figures.swing
    bound = allowed / _TOLERANCE
    found = torch.where(figures.saturated, _ORDER.index("saturated"), _ORDER.index("not_met"))
    is_excused = away <= allowed + torch.minimum(2 * error, _EXCUSED * bound)
    found = torch.where(is_excused, _ORDER.index("met_within_noise"), found)
    found = torch.where(away + 2 * error <= allowed, _ORDER.index("met"), found)
    oscillates = (swing > _SWINGS * bound) & (away.abs() <= allowed + 2 * swing)
    return torch.where(oscillates, _ORDER.index("oscillating"), found)


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
