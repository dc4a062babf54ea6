"""What the page and the paper must agree on: where a scale is logarithmic, and what a band shows there."""

from __future__ import annotations

from math import isfinite

from ferero_lab.report.panels import FrontPanel, Line

__all__ = ["band_of", "wants_log"]


def wants_log(panel: FrontPanel) -> bool:
    """Whether the losses of parallel coordinates, all on one scale, differ by orders of magnitude."""
    values = [loss for point in panel.points for loss in point.losses if isfinite(loss)]
    return bool(values) and min(values) > 0 and max(values) > 1e3 * min(values)


def band_of(line: Line, *, log: bool) -> tuple[list[float], list[float]]:
    """The lower and the upper edge, (T,) each; on a logarithmic scale the lower one ends at a tenth of the curve."""
    pairs = list(zip(line.y, line.spread, strict=True))
    low = [y - s if not log or y - s > y / 10 else y / 10 for y, s in pairs]
    return low, [y + s for y, s in pairs]
