"""What makes a page interactive: plotly.js once, the figures as data, and the script that draws them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ferero.errors import MissingExtraError
from ferero_lab.report.plotly_frame import Graph

__all__ = ["POLICY", "TEMPLATES", "scripts"]

TEMPLATES = Path(__file__).parent / "template"
"""The page as an editor opens it: page.html, its stylesheets and its script."""

POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:\">"
)
"""Nothing is fetched, whatever a script may try. (The buttons are named below one by one, since plotly's own choice
has one that sends the data to its maker.)"""


def scripts(graphs: Sequence[Graph], night: Mapping[str, str]) -> str:
    """The end of a page with figures in the places ``graph-1``, ``graph-2``, ...

    Args:
        graphs: in the order of their places.
        night: what each colour becomes on a dark page.

    Raises:
        MissingExtraError: without plotly.
    """
    figures = [{"data": graph.data, "layout": graph.layout} for graph in graphs]
    data = json.dumps({"graphs": figures, "night": dict(night)}, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        data = data.replace(sign, f"\\u{ord(sign):04x}")
    draw = (TEMPLATES / "graphs.js").read_text(encoding="utf-8").strip()
    return (
        f'<script type="application/json" id="graphs">{data}</script>\n'
        f"<script>{_plotly()}</script>\n<script>\n{draw}\n</script>"
    )


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("report: plotly is not installed; it comes with pip install ferero-lab.") from None
    code: str = get_plotlyjs()
    return code.replace("</script", "<\\/script")
