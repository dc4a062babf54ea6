"""A training run from logged metrics: losses, weights, multipliers and violations below each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ferero._arrays import Array
from ferero.errors import InputError
from ferero.plot.style._style import LINE, THIN, drawing, finish, new_panels, page_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_training"]

_PANELS = {"loss": "losses", "weight": "weights", "multiplier": "multipliers", "violation": "violations"}
_MOST = 10  # lines that get a name each; of more, the first and the last few in the order of the colours
_LONGEST = 32  # letters of an entry in the legend
_WIDE = 1e3  # ratio from which on a logarithmic axis shows more


def plot_training(records: Sequence[Mapping[str, Any]], axes: Sequence[Axes] | None = None) -> tuple[Axes, ...]:
    """Draws the losses, their weights, the multipliers and the violations over the steps.

    One colour is one loss in the first two panels and one constraint in the last two. Losses that span more than three
    powers of ten have a logarithmic axis; that of the violations is logarithmic down to a hundredth of the largest one
    and linear from there to 0. The bar above the violations marks the steps at which everything was met.

    Args:
        records: Dictionaries of ``steer.metrics()``, in order; a key "step" says when, else they are counted from 0.
            Keys that are not ferero's are ignored, and one that is missing in a record leaves a gap.
        axes: Four axes, or two where there is no constraint; None makes a figure.

    Returns:
        The axes that were drawn on: losses and weights and, where there are constraints, multipliers and violations.

    Raises:
        InputError: For no records, records without ferero's keys, or a wrong number of axes.
        MissingExtraError: Without matplotlib.

    Example:
        >>> records = []
        >>> records.append({"step": 0, **steer.metrics()})  # doctest: +SKIP
        >>> plot_training(records)  # doctest: +SKIP
    """
    _check_records(records)
    tables = {kind: _table(records, kind) for kind in _PANELS}
    shown = [kind for kind in _PANELS if tables[kind]]
    steps = _steps(records)
    with drawing(axes):
        panels = new_panels(4.6, [1.5 if kind == "loss" else 1.1 for kind in shown]) if axes is None else tuple(axes)
        if len(panels) != len(shown):
            names = ", ".join(_PANELS[kind] for kind in shown)
            raise InputError(f"axes: expected {len(shown)} of them, for {names}, found {len(panels)}.")
        for ax, kind in zip(panels, shown, strict=True):
            _draw(ax, steps, tables[kind], kind)
        if "violation" in shown:
            _mark_feasible(panels[-1], steps, _column(records, "ferero/merit"))
        panels[-1].set_xlabel("step")
        for ax, kind in zip(panels, shown, strict=True):
            if kind != "weight":  # the panel above has the same colours
                finish(ax)
    return panels


def _check_records(records: Sequence[Mapping[str, Any]]) -> None:
    if isinstance(records, Mapping) or not all(isinstance(record, Mapping) for record in records):
        raise InputError(
            f"records: expected a list of steer.metrics(), found {type(records).__name__}; append one now and then."
        )
    if not len(records):
        raise InputError("records: expected at least one, found none; append steer.metrics() at every few steps.")
    if not any(str(key).startswith("ferero/loss/") for record in records for key in record):
        raise InputError(
            "records: expected the keys of steer.metrics(), such as 'ferero/loss/a', found "
            f"{', '.join(repr(key) for key in list(records[0])[:3]) or 'none'}."
        )


def _table(records: Sequence[Mapping[str, Any]], kind: str) -> dict[str, Array]:
    """What was recorded of one kind, by name, in order of first appearance."""
    prefix = f"ferero/{kind}/"
    keys = dict.fromkeys(key for record in records for key in record if str(key).startswith(prefix))
    return {key.removeprefix(prefix): _column(records, key) for key in keys}


def _column(records: Sequence[Mapping[str, Any]], key: str) -> Array:
    return np.array([float(record.get(key, np.nan)) for record in records])


def _steps(records: Sequence[Mapping[str, Any]]) -> Array:
    if not any("step" in record for record in records):
        return np.arange(len(records), dtype=float)
    if not all("step" in record for record in records):
        raise InputError('records: expected "step" in every record or in none, found it in some.')
    return _column(records, "step")


def _draw(ax: Axes, steps: Array, table: dict[str, Array], kind: str) -> None:
    page = page_of(ax)
    values = np.stack(list(table.values()))
    marker = "o" if len(steps) < 30 else ""
    width = LINE if len(table) <= _MOST else THIN
    labels = [f"_{name}" for name in table] if kind == "violation" else _labels(list(table))  # "_": no entry
    for series, color, label in zip(values, page.colors(len(table)), labels, strict=True):
        ax.plot(steps, series, color=color, linewidth=width, marker=marker, markersize=2.5, label=label)
    ax.set_ylabel(_PANELS[kind] if len(table) > 1 or kind == "loss" else _PANELS[kind].removesuffix("s"))
    if kind in {"weight", "multiplier"}:
        ax.axhline(0, color=page.pale, linewidth=THIN, zorder=0.5)
    if kind == "loss" and _is_wide(values):
        ax.set_yscale("log")
    elif kind == "violation":
        _scale_violation(ax, float(np.nanmax(values, initial=0.0)))


def _scale_violation(ax: Axes, largest: float) -> None:
    if not largest > 0:
        ax.set(yticks=[0], ylim=(-0.1, 1))
        return
    least = 0.01 * largest
    ax.set_yscale("symlog", linthresh=least, linscale=0.5)
    decades = np.arange(np.ceil(np.log10(least)), np.floor(np.log10(1.6 * largest)) + 1)
    ax.set_yticks([0, *(10.0**decades)])
    ax.set_ylim(0, 1.6 * largest)


def _is_wide(values: Array) -> bool:
    known = values[np.isfinite(values)]
    return bool(len(known)) and known.min() > 0 and known.max() > _WIDE * known.min()


def _labels(names: list[str]) -> list[str]:
    """Every name where they are few; else a few along the sweep of the colours, which tells where the others are."""
    short = [name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..." for name in names]
    if len(names) <= _MOST:
        return short
    kept = set(np.linspace(0, len(names) - 1, _MOST // 2).round().astype(int).tolist())
    return [name if i in kept else f"_{name}" for i, name in enumerate(short)]


def _mark_feasible(ax: Axes, steps: Array, merit: Array) -> None:
    """A bar along the upper edge, from each step at which all was met to the next record."""
    starts = np.flatnonzero(merit < 1)
    if not len(starts) or len(steps) < 2:
        return
    ends = np.append(steps[1:], 2 * steps[-1] - steps[-2])
    spans = [(float(steps[i]), float(ends[i] - steps[i])) for i in starts]
    color = page_of(ax).ink
    ax.broken_barh(
        spans,
        (1.0, 0.035),
        transform=ax.get_xaxis_transform(),
        color=color,
        linewidth=0,
        clip_on=False,
        label="all met",
    )
