"""The report folder of `ferero solve --out`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferero.cli import TimedResult, result_rows, to_json
from ferero_lab.report.folder import configuration
from ferero_lab.report.page import HtmlPage
from ferero_lab.report.picture import draw

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FILES", "solution_files"]

FILES = ("config.json", "results.json", "history.png", "report.html")


def solution_files(answer: TimedResult, target: str, **options: Any) -> dict[str, bytes]:
    """The report folder's contents, by name.

    Args:
        answer: what was found.
        target: the function's name and its file's, without the path.
        options: those of the command.
    """
    config = configuration("solve", target=target, **options)
    result = answer.result

    def make() -> Figure:
        from ferero.plot import plot_history

        figure: Figure = plot_history(result)[0].get_figure(root=True)  # type: ignore[assignment]
        return figure

    history = draw(make)
    page = HtmlPage(f"ferero solve: {target}")
    page.text("Preference:")
    page.verbatim(str(result.preference))
    for note in result.preference.notes:
        page.text(f"Note: {note}")
    page.text(f"Found ({result.status}): {result.message}")
    page.table(*result_rows([answer]))
    page.text(f"Certificate: {result.kkt}.")
    page.picture(history, "The losses at each step and, below, by how much the constraints are violated.")
    page.footer(", ".join(f"{name} {version}" for name, version in config["versions"].items()) + ".")
    return {
        "config.json": to_json(config).encode(),
        "results.json": to_json(answer.to_dict()).encode(),
        "history.png": history.png,
        "report.html": page.render(),
    }
